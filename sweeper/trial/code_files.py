"""The files that count for a plug-in: its own, and those of all that it imports or names.

These are

- the file of the plug-in, or every file of its package;
- what these import: the modules of the project and of PYTHONPATH. A library counts by name and version instead, unless
  it was installed from a folder, as editable packages are;
- files of the project whose names, or relative paths, are texts of these, such as `"doors.json"` or
  `"data/doors.csv"`; of a source outside of the project those that lie so beside it.

What is no file of the project (`sweeper.trial.project_files`) does not count, unless it is a module that is imported,
nor do files that no counted source mentions, nor what Python brings along. A name that is put together while the
program runs is not seen: what such a file holds is measured, as the data and the programs of a trial.

Imports are read from the source, also those inside functions, and Python's own finders say what they mean: a namespace
package in two places, a folder that an installed package hides, or a change of `sys.path` is then what it is for the
import itself. `sys.modules` would not do. What it holds depends on what else a process has imported and on which
methods have run: a driver that only plans, a worker that trains, and a notebook would disagree about the same trial.
Two processes agree if they have loaded the plug-in, which may change `sys.path`, and search the same folders.
"""

import contextlib
import functools
import importlib.machinery
import importlib.metadata
import importlib.util
import json
from collections import defaultdict
from collections.abc import Iterable, Set
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from sweeper.trial import plugins, source_meaning
from sweeper.trial.kinds import declared_kinds
from sweeper.trial.project_files import ProjectFiles
from sweeper.trial.source_meaning import Meaning

LIBRARIES = ("evosax", "flax", "jax", "jaxlib", "optax")
"""Packages that compute numbers for every trial, beside this one."""

_OF_KINDS = [kind.module for kind in declared_kinds()]

NUMERICS = ("sweeper.training", "sweeper.packs.pack_training", "sweeper.trial.record", *_OF_KINDS)
"""Modules and packages that compute numbers for every trial; `pack_training` averages its curves."""

NO_NUMERICS = (
    "sweeper.events", "sweeper.messages", "sweeper.packs", "sweeper.progress", "sweeper.store",
    "sweeper.trial.code_files", "sweeper.trial.contract_checks",
    "sweeper.trial.kinds", "sweeper.trial.loaded_code", "sweeper.trial.plugins", "sweeper.trial.remembered",
    *(
        f"{module.rpartition('.')[0]}.{name}" for module in _OF_KINDS
        for name in ("checks", "declared", "figures")
    ),
)  # fmt: skip
"""Modules and packages that compute no numbers although numerics import them, but for what `NUMERICS` names."""


class File(NamedTuple):
    """A file that counts; its name is the same wherever the code lies."""

    name: str  # such as `tasks/maze.py`
    path: Path  # where it is


class Reached(NamedTuple):
    """What counts for some modules: files, and the versions of libraries by name."""

    files: set[File]
    libraries: dict[str, str]


class CodeFiles:
    """The files of our code that this process imports, each read once."""

    def __init__(self) -> None:
        self._project = ProjectFiles(plugins.PROJECT)
        self._folders = {f"{kind}s": plugins.folders(kind) for kind in plugins.KINDS}
        self._read: dict[File, Meaning] = {}

    def reached(self, modules: Iterable[str], known: Set[File] = frozenset()) -> Reached:
        """What counts for modules: their files, and what these import and name; without files that are `known`."""
        waiting, seen = list(modules), set[str]()
        files, libraries = set(known), dict[str, str]()
        while waiting:
            if (module := waiting.pop()) in seen:
                continue
            seen.add(module)
            new, found = self._imported(module)
            libraries |= found
            while new:
                if (file := new.pop()) in files:
                    continue
                files.add(file)
                content = self.content(file)
                if file.name.startswith("sweeper/"):  # libraries of this package count for every trial
                    waiting += (name for name in content.imports if name.startswith("sweeper."))
                else:
                    waiting += content.imports
                    new += (named for text in content.texts for named in self._named_by(file, text))
        return Reached(files - known, libraries)

    def content(self, file: File) -> Meaning:
        """Digest of a file, and what it names."""
        if file not in self._read:
            # The syntax trees of a fork of JAX would take a minute.
            if file.path.suffix == ".py" and not file.name.startswith(_FORKS):
                package = PurePosixPath(file.name).parent.parts
                self._read[file] = source_meaning.meaning(file.path.read_bytes(), package)
            else:
                self._read[file] = Meaning(source_meaning.digest_of_file(file.path), (), ())
        return self._read[file]

    def _imported(self, module: str) -> tuple[list[File], dict[str, str]]:
        """What an import of a module brings: files, and libraries with their versions."""
        top, *rest = module.split(".")
        files, libraries = list[File](), dict[str, str]()
        if top == "sweeper":
            # `sweeper/__init__.py` computes nothing; it imports the rooms of `import sweeper`.
            if module.startswith(NUMERICS) or not module.startswith(NO_NUMERICS):
                files += _named(plugins.ROOT, _modules(plugins.PACKAGE, rest))
            if module in NUMERICS:
                files += _named(plugins.ROOT, self._project.below(plugins.PACKAGE.joinpath(*rest)))
        elif top in self._folders:
            for folder in self._folders[top] if rest else ():
                whole = (folder / rest[0] / "__init__.py").is_file()
                found = self._project.below(folder / rest[0]) if whole else _modules(folder, rest)
                files += _named(folder.parent, found)
        else:
            for place in _places(top):
                if (version := _version_of_library(top, place)) is not None:
                    libraries[top] = version
                elif top in LIBRARIES:
                    files += _named(place.parent, self._project.below(place))
                else:
                    base = plugins.PROJECT if _in_project(place) else place.parent
                    files += _named(base, _modules(place.parent, [top, *rest]))
        return files, libraries

    def _named_by(self, file: File, text: str) -> list[File]:
        """The files whose name, or relative path, is a text of a file."""
        parts = tuple(part for part in text.split("/") if part not in ("", ".", ".."))
        if _in_project(file.path):
            alike = self._by_name.get(parts[-1], ())
            return _named(plugins.PROJECT, (path for path in alike if path.parts[-len(parts) :] == parts))
        beside = file.path.parent.joinpath(*parts)
        name = PurePosixPath(file.name).parent.joinpath(*parts).as_posix()
        return [File(name, beside)] if beside.is_file() else []

    @functools.cached_property
    def _by_name(self) -> dict[str, list[Path]]:
        """The files of the project by their last names."""
        found = defaultdict[str, list[Path]](list)
        for path in self._project.below(plugins.PROJECT):
            found[path.name].append(path)
        return found


_FORKS = tuple(f"{name}/" for name in LIBRARIES)


def _named(base: Path, paths: Iterable[Path]) -> list[File]:
    return [File(path.relative_to(base).as_posix(), path) for path in paths]


def _modules(folder: Path, names: list[str]) -> list[Path]:
    """The files of a module in a folder, and of the packages in between; whether git ignores them or not."""
    paths = [folder.joinpath(*names[:length]) for length in range(1, len(names) + 1)]
    return [file for path in paths for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()]


def _in_project(path: Path) -> bool:
    """Whether a path is in the project, and not in an environment inside of it."""
    return path.is_relative_to(plugins.PROJECT) and not plugins.library_folder(path)


def _places(top: str) -> list[Path]:
    """Where Python finds a module or package, which is not imported for this; nowhere what Python brings along."""
    spec = None
    with contextlib.suppress(ImportError, ValueError):  # of a module that was not imported but made
        spec = importlib.util.find_spec(top)
    # A command whose first folder is that of a script does not search the project. Workers do.
    spec = spec or importlib.machinery.PathFinder.find_spec(top, [str(plugins.PROJECT)])
    file = spec.origin if spec and spec.has_location else None
    paths = [Path(place) for place in (spec and spec.submodule_search_locations) or [file] if place]
    return [path for path in paths if not path.is_relative_to(plugins.STANDARD_LIBRARY) or plugins.library_folder(path)]


@functools.cache  # a process that has loaded a library keeps it
def _version_of_library(top: str, place: Path) -> str | None:
    """Version of an installed module or package; None if it is somebody's own code, as what is installed editable."""
    if (folder := plugins.library_folder(place)) is None:
        return None
    installed = functools.partial(importlib.metadata.distributions, path=[str(folder)])
    library = next(iter(installed(name=top)), None)
    if library is None:  # a name such as sklearn, of scikit-learn; the search takes .2 s
        names = importlib.metadata.packages_distributions().get(top, ())
        library = next((each for name in names for each in installed(name=name)), None)
    if library is None or "dir_info" in json.loads(library.read_text("direct_url.json") or "{}"):
        return None
    return library.version
