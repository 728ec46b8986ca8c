"""Fingerprints of the code and the libraries that compute the numbers of a trial.

The fingerprint of a trial covers the numerics (`NUMERICS` and the modules of this package that these import), the
`LIBRARIES`, the flags of XLA, and the files that count for its plug-ins (`sweeper.trial.code_files`). Where the files
lie does not count. Two trials of one specification and one fingerprint were computed by the same program.

Comments, docstrings and formatting are no part of a fingerprint: it hashes the syntax tree of a module, without texts
that stand alone as statements.

Fingerprints of two schemes cannot be compared, so the scheme's number stands before the digits.

A start takes the digests once, as `Code`. Rows and checkpoints bear the fingerprint, and a worker compares its own
`Code` with that of the start before it trains.
"""

import json

from pydantic import BaseModel, ConfigDict

from sweeper.trial import loaded_code, plugins, source_meaning
from sweeper.trial.code_files import LIBRARIES, NUMERICS, CodeFiles, Reached
from sweeper.trial.loaded_code import OtherCodeError
from sweeper.trial.trial import Trial

SCHEME = 2
"""The number of what counts and how it is hashed; raise it when the same code gets another fingerprint."""


def scheme_of(fingerprint: str | None) -> int:
    """The scheme of a fingerprint; 1 was not written, and 0 is that of rows from before there were fingerprints."""
    if fingerprint is None:
        return 0
    number, _, digits = fingerprint.partition("-")
    return int(number) if digits else 1


def whose(fingerprint: str | None) -> str:
    """Words for code whose fingerprint is not that of this process."""
    age = scheme_of(fingerprint) - SCHEME
    return "of other code" if age == 0 else f"of {'an older' if age < 0 else 'a newer'} scheme of fingerprints"


class Code(BaseModel):
    """Digests of all code that computes numbers, as one process reads it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    scheme: int = 1  # of the digests and of the fingerprint; not written in records of the first
    numerics: str  # digest of the modules in `NUMERICS` and of their imports
    tasks: dict[str, str]  # for every task by name, a digest of its source and of its imports beside the numerics
    models: dict[str, str]  # the same for every model
    # The same for the other plug-ins; empty in records of programs from before they were plug-ins
    objectives: dict[str, str] = {}
    optimizers: dict[str, str] = {}
    experiments: dict[str, str] = {}
    # Of `LIBRARIES`: versions, or digests of the files of a fork; packages that are not installed are left out
    versions: dict[str, str]
    # Versions of the other libraries that plug-ins import, which are part of the digests of the plug-ins
    imported: dict[str, str] = {}
    settings: dict[str, str] = {}  # `jax_settings.flags`; empty in records of programs that did not look at them

    def digests(self, kind: plugins.Kind) -> dict[str, str]:
        """The digests of all plug-ins of a kind, by name."""
        return getattr(self, f"{kind}s")

    def fingerprint(self, trial: Trial) -> str:
        """The scheme's number and twenty hexadecimal digits that stand for the program that computes this trial."""
        parts = [
            self.numerics,
            *(self.digests(kind).get(plugin.name) for kind, plugin in trial.plug_ins),
            self.versions,
            *([self.settings] if self.settings else []),
        ]
        digits = source_meaning.digest(json.dumps(parts, sort_keys=True).encode())
        return digits if self.scheme == 1 else f"{self.scheme}-{digits}"

    def require(self, expected: "Code", trial: Trial) -> None:
        """An `OtherCodeError` that says what differs, if the code of a start computes other numbers for the trial."""
        differences = []
        if self.numerics != expected.numerics:
            modules = ", ".join(module.replace(".", "/") for module in NUMERICS)
            differences.append(f"the numerics ({modules})")
        for kind, plugin in trial.plug_ins:
            if self.digests(kind).get(plugin.name) != expected.digests(kind).get(plugin.name):
                differences.append(f"the {kind} {plugin.name}")
        mine, theirs = self.versions, expected.versions
        if differences:
            mine, theirs = self.imported | mine, expected.imported | theirs
        for name in sorted(mine.keys() | theirs.keys()):
            if mine.get(name) != theirs.get(name):
                differences.append(f"{name} ({mine.get(name)} instead of {theirs.get(name)})")
        mine, theirs = self.settings, expected.settings
        for name in sorted(mine.keys() | theirs.keys()):
            if mine.get(name) != theirs.get(name):
                differences.append(f"{name} ({mine.get(name, '')!r} instead of {theirs.get(name, '')!r})")
        if differences:
            raise OtherCodeError(f"the worker runs other code than this start; what differs: {', '.join(differences)}")


def captured() -> Code:
    """The code that this process imports, as its files are now, and the libraries.

    Plug-ins may change `sys.path` when they are loaded: what counts for a trial is known once its plug-ins are.
    """
    from sweeper.trial import jax_settings  # imports JAX, which whoever reads a record does not need

    code = CodeFiles()
    numerics, libraries = code.reached(NUMERICS), {name: code.reached([name]) for name in LIBRARIES}
    general = numerics.files.union(*(found.files for found in libraries.values()))
    loaded_code.note_numerics(code, general)
    imported: dict[str, str] = {}

    def digest(module: str) -> str:
        files, versions = code.reached([module], general)
        others = {name: version for name, version in versions.items() if name not in LIBRARIES}
        imported.update(others)
        return code.digest(Reached(files, others))

    digests = {
        f"{kind}s": {name: digest(module) for name, module in plugins.modules(kind).items()} for kind in plugins.KINDS
    }

    return Code(
        scheme=SCHEME,
        numerics=code.digest(numerics),
        **digests,
        versions={
            name: found.libraries.get(name, f"files {code.digest(found)}")
            for name, found in libraries.items()
            if found.files or found.libraries
        },
        imported=imported,
        settings=jax_settings.flags(),
    )
