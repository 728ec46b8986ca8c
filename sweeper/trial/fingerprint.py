"""Fingerprints of the code and the libraries that compute the numbers of a trial.

The fingerprint of a trial covers the source of its task, its model and its objective (of a package, every file), the
source of the numerics (`NUMERICS`), all modules of this package, of the project and of the packages of plug-ins that
these import, the versions of `LIBRARIES`, and the flags of XLA. Where the files lie does not count. Two trials of one
specification and one fingerprint were computed by the same program.

Comments, docstrings and formatting are no part of a fingerprint: it hashes the syntax tree of a module, without texts
that stand alone as statements. Modules that are imported by a computed name are not seen.

A start takes the digests once, as `Code`. Rows and checkpoints bear the fingerprint, and a worker compares its own
`Code` with that of the start before it trains.
"""

import functools
import importlib.metadata
import importlib.util
import json
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from sweeper.trial import jax_settings, plugins, source_meaning
from sweeper.trial.source_meaning import Meaning
from sweeper.trial.trial_spec import TrialSpec

NUMERICS = (
    "sweeper.training", "sweeper.packs.pack_training", "sweeper.trial.record", "sweeper.trial.contracts",
    "sweeper.trial.trial_spec",
)  # fmt: skip
"""Modules and packages that compute numbers for every trial; `pack_training` averages its curves."""

LIBRARIES = ("evosax", "flax", "jax", "jaxlib", "optax")
"""Packages whose version is part of every fingerprint."""

NO_NUMERICS = ("sweeper.messages", "sweeper.trial.plugins", "sweeper.packs", "sweeper.starts", "sweeper.analysis")
"""Modules that compute no numbers although numerics import them: where code is, how its mistakes are worded, and what
the functions of `import sweeper` import."""


class OtherCodeError(RuntimeError):
    """A process runs other code than the start that it works for."""


class Code(BaseModel):
    """Digests of all code that computes numbers, as one process reads it.

    Attributes:
        numerics: Digest of the modules in `NUMERICS` and of their imports.
        tasks: For every task by name, a digest of its source and of its imports beside the numerics.
        models: The same for every model.
        objectives: The same for every objective; empty in records of programs from before objectives were plug-ins.
        versions: Versions of `LIBRARIES`; packages that are not installed are left out.
        settings: `jax_settings.flags`; empty in records of programs that did not look at them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    numerics: str
    tasks: dict[str, str]
    models: dict[str, str]
    objectives: dict[str, str] = {}
    versions: dict[str, str]
    settings: dict[str, str] = {}

    def fingerprint(self, trial: TrialSpec) -> str:
        """Twenty hexadecimal digits that stand for the program that computes this trial."""
        parts = [
            self.numerics,
            self.tasks.get(trial.task.name),
            self.models.get(trial.model.name),
            self.objectives.get(trial.objective.name),
            self.versions,
            *([self.settings] if self.settings else []),
        ]
        return source_meaning.digest(json.dumps(parts, sort_keys=True).encode())

    def require(self, expected: "Code", trial: TrialSpec) -> None:
        """Compare with the code of a start.

        Raises:
            OtherCodeError: this process would compute other numbers for the trial; the message says what differs.
        """
        differences = []
        if self.numerics != expected.numerics:
            differences.append("the numerics (sweeper/training, sweeper/packs/pack_training, sweeper/trial)")
        for kind, mine, theirs, name in (
            ("task", self.tasks, expected.tasks, trial.task.name),
            ("model", self.models, expected.models, trial.model.name),
            ("objective", self.objectives, expected.objectives, trial.objective.name),
        ):
            if mine.get(name) != theirs.get(name):
                differences.append(f"the {kind} {name}")
        for name in sorted(self.versions.keys() | expected.versions.keys()):
            if self.versions.get(name) != expected.versions.get(name):
                differences.append(f"{name} ({self.versions.get(name)} instead of {expected.versions.get(name)})")
        for name in sorted(self.settings.keys() | expected.settings.keys()):
            if self.settings.get(name) != expected.settings.get(name):
                mine, theirs = (code.settings.get(name, "") for code in (self, expected))
                differences.append(f"{name} ({mine!r} instead of {theirs!r})")
        if differences:
            raise OtherCodeError(f"the worker runs other code than this start; what differs: {', '.join(differences)}")


def captured() -> Code:
    """The code that this process imports, as its files are now, and the libraries."""
    sources = _Sources()
    numerics = sources.reached(NUMERICS)
    versions = {}
    for name in LIBRARIES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue

    def digests(kind: plugins.Kind) -> dict[str, str]:
        return {
            name: sources.digest(sources.reached([module]) - numerics) for name, module in plugins.modules(kind).items()
        }

    code = Code(
        numerics=sources.digest(numerics),
        tasks=digests("task"),
        models=digests("model"),
        objectives=digests("objective"),
        versions=versions,
        settings=jax_settings.flags(),
    )
    source_meaning.keep()
    return code


class _File(NamedTuple):
    """A file of our code; its name is the same wherever the code lies.

    Attributes:
        name: Such as `tasks/maze.py`.
        path: Where it is.
    """

    name: str
    path: Path


class _Sources:
    """The files of our code that this process imports, each read once."""

    def __init__(self) -> None:
        self._homes = {
            "sweeper": [plugins.PACKAGE],
            "tasks": plugins.folders("task"),
            "models": plugins.folders("model"),
            "objectives": plugins.folders("objective"),
        }
        for kind in plugins.KINDS:
            for module in plugins.modules(kind).values():
                top = module.partition(".")[0]
                if top not in self._homes:
                    self._homes[top] = _installed(top)
        self._read: dict[_File, Meaning] = {}
        self._files = functools.cache(self._looked_up)

    def reached(self, modules: Iterable[str]) -> set[_File]:
        """The files of the modules (every file of a package), and of all our modules that these import."""
        waiting = [file for module in modules for file in self._whole(module)]
        reached: set[_File] = set()
        while waiting:
            file = waiting.pop()
            if file not in reached:
                reached.add(file)
                waiting += [other for name in self._content(file).imports for other in self._files(name)]
        return reached

    def digest(self, files: Iterable[_File]) -> str:
        """Digest of the names and contents of files."""
        return source_meaning.digest(
            json.dumps(sorted((file.name, self._content(file).digest) for file in files)).encode()
        )

    def _whole(self, module: str) -> Iterator[_File]:
        """The files of a module and of the packages around it; of a package every file in its folder."""
        yield from self._files(module)
        top, *rest = module.split(".")
        for home in self._homes_of(top):
            for path in home.joinpath(*rest).rglob("*") if rest else ():
                if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith("."):
                    yield _File(f"{top}/{path.relative_to(home).as_posix()}", path)

    def _looked_up(self, module: str) -> list[_File]:
        """The file of a module, if it is ours, and those of the packages around it."""
        top, *rest = module.split(".")
        if module.startswith(NO_NUMERICS) and not module.startswith(NUMERICS):
            return []
        files = []
        for home in self._homes_of(top):
            for length in range(len(rest) + 1):
                path = home.joinpath(*rest[:length])
                for file in (path / "__init__.py", path.with_suffix(".py")):
                    if file.is_file():
                        name = file.relative_to(home).as_posix() if file.is_relative_to(home) else file.name
                        files.append(_File(f"{top}/{name}", file))
        return files

    def _homes_of(self, top: str) -> list[Path]:
        """Folders of a top-level package of ours, or places of such a module without `.py`; none if it is not ours."""
        if top not in self._homes:
            place = plugins.PROJECT / top
            own = (place / "__init__.py").is_file() or place.with_suffix(".py").is_file()
            self._homes[top] = [place] if own else []
        return self._homes[top]

    def _content(self, file: _File) -> Meaning:
        """Digest of a file, and the modules that it may import."""
        if file not in self._read:
            data = file.path.read_bytes()
            if file.path.suffix == ".py":
                self._read[file] = source_meaning.meaning(data, PurePosixPath(file.name).parent.parts)
            else:
                self._read[file] = Meaning(source_meaning.digest(data), ())
        return self._read[file]


def _installed(top: str) -> list[Path]:
    """Folders of an installed top-level package, which is not imported for this."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return []
    return [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec else []
