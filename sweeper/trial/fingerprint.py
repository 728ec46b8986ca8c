"""Fingerprints of the code and the libraries that compute the numbers of a trial.

The fingerprint of a trial covers the numerics (`NUMERICS` and the modules of this package that these import), the
`LIBRARIES`, the minor version of Python, the flags of XLA, and what counts for its plug-ins
(`sweeper.trial.code_files`). Where the files lie does not count. What no list of files can see, such as a file whose
path is an entry of a space, is measured: the programs, the data and the arithmetic of a trial.

Comments, docstrings and formatting are no part of a fingerprint: it hashes the syntax tree of a module, without texts
that stand alone as statements.

A start takes the digests once, as `Code`. Rows and checkpoints bear the fingerprint, and a worker compares its own
`Code` with that of the start before it trains.
"""

import json
import sys

from pydantic import BaseModel, ConfigDict

from sweeper.trial import loaded_code, plugins, source_meaning
from sweeper.trial.code_files import LIBRARIES, NUMERICS, CodeFiles, Reached
from sweeper.trial.loaded_code import OtherCodeError
from sweeper.trial.trial import Trial

NAMED = 3
"""So many differences between two codes are named."""


class Code(BaseModel):
    """Digests of all code that computes numbers, as one process reads it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    # By name: twelve hexadecimal digits of a file, the version of a library and of Python, the text of flags
    always: dict[str, str] = {}  # what counts for every trial
    plugins: dict[str, dict[str, str]] = {}  # what else counts for a plug-in, by its kind and name

    def of(self, trial: Trial) -> dict[str, str]:
        """What counts for a trial, by name."""
        parts = dict(self.always)
        for kind, plugin in trial.plug_ins:
            parts |= self.plugins.get(f"{kind} {plugin.name}", {})
        return parts

    def fingerprint(self, trial: Trial) -> str:
        """Twenty hexadecimal digits that stand for the program that computes this trial."""
        return source_meaning.digest(json.dumps(self.of(trial), sort_keys=True).encode())

    def differences(self, other: "Code", trial: Trial) -> list[str]:
        """What differs for a trial from another code, in words: files, libraries with both versions, and flags."""
        mine, theirs = self.of(trial), other.of(trial)
        return [
            f"{name} ({mine.get(name, 'none')} instead of {theirs.get(name, 'none')})" if _has_version(name) else name
            for name in sorted(mine | theirs)
            if mine.get(name) != theirs.get(name)
        ]

    def require(self, expected: "Code", trial: Trial) -> None:
        """An `OtherCodeError` that says what differs, if the code of a start computes other numbers for the trial."""
        if differences := self.differences(expected, trial):
            raise OtherCodeError(f"the worker runs other code than this start; what differs: {listed(differences)}")


def _has_version(name: str) -> bool:
    """Whether a name is one of a library, of Python or of flags, and none of a file."""
    return "." not in name and "/" not in name


def listed(differences: list[str]) -> str:
    """The first differences between two codes, and how many more there are."""
    more = len(differences) - NAMED
    return ", ".join(differences[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def captured() -> Code:
    """The code that this process imports, as its files are now, and the libraries.

    Plug-ins may change `sys.path` when they are loaded: what counts for a trial is known once its plug-ins are.
    """
    from sweeper.trial import jax_settings  # imports JAX, which whoever reads a record does not need

    code = CodeFiles()
    general = code.reached([*NUMERICS, *LIBRARIES])
    loaded_code.note_numerics(code, general.files)
    always = _digests(code, general)

    def further(module: str) -> dict[str, str]:
        found = _digests(code, code.reached([module], general.files)).items()
        return {name: part for name, part in found if name not in always}

    return Code(
        always=always | {"python": f"{sys.version_info.major}.{sys.version_info.minor}"} | jax_settings.flags(),
        plugins={
            f"{kind} {name}": further(module)
            for kind in plugins.KINDS
            for name, module in plugins.modules(kind).items()
        },
    )


def _digests(code: CodeFiles, found: Reached) -> dict[str, str]:
    """Digests of files and versions of libraries, by name."""
    digests: dict[str, list[str]] = {}  # two halves of a package may have a file of the same name
    for file in sorted(found.files):
        digests.setdefault(file.name, []).append(code.content(file).digest[:12])
    return {name: " ".join(own) for name, own in digests.items()} | found.libraries
