"""The files that count for a plug-in: its own, and those of all that it imports or names.

These are

- the file of the plug-in, or every file of its package, and the files beside it that are no Python;
- what these import: a module or package in the project or found in PYTHONPATH, with all of its files. A library that
  was installed from an archive counts by name and version instead; what was installed from a folder counts by its
  files. Of what lies in a zip all of the zip counts;
- files, folders and modules of the project all words of whose name (of a file of another plug-in with its ending) stand
  in texts of these. A folder counts with all of its files, and what these name counts as well.

What is no file of the project (`sweeper.trial.project_files`) does not count, unless it is a module that is imported,
nor do files that no counted source mentions, nor what Python brings along.

Imports are read from the source, also those inside functions, and Python's own finders say what they mean: a zip, a
namespace package in two places, a folder that an installed package hides, or a change of `sys.path` is then what it is
for the import itself. `sys.modules` would not do. What it holds depends on what else a process has imported and on
which methods have run: a driver that only plans, a worker that trains, and a notebook would disagree about the same
trial. Two processes agree if they have loaded the plug-in, which may change `sys.path`, and search the same folders.
What a method adds to `sys.path` when it runs is not looked for.
"""

import contextlib
import functools
import importlib.machinery
import importlib.metadata
import importlib.util
import itertools
import json
import zipfile
from collections.abc import Iterable, Iterator, Set
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
    "sweeper.events", "sweeper.messages", "sweeper.packs", "sweeper.store", "sweeper.trial.code_files",
    "sweeper.trial.contract_checks", "sweeper.trial.experiment_declared", "sweeper.trial.kinds",
    "sweeper.trial.loaded_code", "sweeper.trial.patches", "sweeper.trial.plugins", "sweeper.trial.remembered",
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
        self._entries = {(base, path): set(source_meaning.words(name)) for base, path, name in self._nameable()}
        self._own = {module.partition(".")[0] for kind in plugins.KINDS for module in plugins.modules(kind).values()}
        self._zips = set[Path]()  # from which something is imported
        self._read: dict[File, Meaning] = {}

    def reached(self, modules: Iterable[str], known: Set[File] = frozenset()) -> Reached:
        """What counts for modules: their files, and what these import and name; without files that are `known`."""
        waiting, seen = list(modules), set[str]()
        files, libraries = set(known), dict[str, str]()
        words, entries = set[str](), dict(self._entries)
        new = list[File]()
        while True:
            for file in set(new) - files:
                files.add(file)
                content, of_sweeper = self.content(file), file.name.startswith("sweeper/")
                # In this package nothing counts but what it imports of itself: libraries count for every trial.
                waiting += (name for name in content.imports if not of_sweeper or name.startswith("sweeper."))
                words.update(() if of_sweeper else content.words)
            if waiting:
                if (module := waiting.pop()) not in seen:
                    seen.add(module)
                    new, found = self._imported(module)
                    libraries |= found
            elif named := [entry for entry, name in entries.items() if name <= words]:
                new = [file for base, path in named for file in self._below(base, path)]
                entries = {entry: name for entry, name in entries.items() if entry not in named}
            else:
                return Reached(files - known, libraries)

    def digest(self, reached: Reached) -> str:
        """Digest of the names and contents of files, and of the versions of libraries."""
        said = [*((file.name, self.content(file).digest) for file in reached.files), *reached.libraries.items()]
        return source_meaning.digest(json.dumps(sorted(said)).encode())

    def content(self, file: File) -> Meaning:
        """Digest of a file, and what it names."""
        if file not in self._read:
            if file.path in self._zips:
                self._read[file] = _of_zip(file.path)
            # The syntax trees of a fork of JAX would take a minute.
            elif file.path.suffix == ".py" and not file.name.startswith(_FORKS):
                self._read[file] = _of_module(file.name, file.path.read_bytes())
            else:
                self._read[file] = Meaning(source_meaning.digest_of_file(file.path), (), ())
        return self._read[file]

    def _nameable(self) -> Iterator[tuple[Path, Path, str]]:
        """What a text may name, after the folder of its name: files and folders of the project and beside plug-ins.

        A bare plug-in name such as `maze` does not pull in its file.
        """
        of_plug_ins = ((folder.parent, folder) for folder in itertools.chain(*self._folders.values()))
        for base, folder in ((plugins.PROJECT, plugins.PROJECT), *of_plug_ins):
            for path in self._project.inside(folder):
                if base != folder and _is_plugin(path) and not path.name.startswith("_"):
                    yield from ((base, file, str(file.relative_to(folder))) for file in self._project.below(path))
                elif path != plugins.PACKAGE and (base == folder or path.name != "__init__.py"):
                    yield base, path, path.stem if path.suffix == ".py" else path.name

    def _below(self, base: Path, path: Path) -> list[File]:
        return _named(base, self._project.below(path))

    def _imported(self, module: str) -> tuple[list[File], dict[str, str]]:
        """What an import of a module brings: files, and libraries with their versions."""
        top, *rest = module.split(".")
        files, libraries = list[File](), dict[str, str]()
        if top == "sweeper":
            # `sweeper/__init__.py` computes nothing; it imports the rooms of `import sweeper`.
            if module.startswith(NUMERICS) or not module.startswith(NO_NUMERICS):
                files += _named(plugins.ROOT, _modules(plugins.PACKAGE, rest))
            if module in NUMERICS:
                files += self._below(plugins.ROOT, plugins.PACKAGE.joinpath(*rest))
        elif top in self._folders:
            for folder in self._folders[top]:
                files += _named(folder.parent, [*self._beside(folder, rest), *_modules(folder, rest)])
        else:
            for place in _places(top):
                if top not in self._own and (version := _version_of_library(top, place)) is not None:
                    libraries[top] = version
                else:
                    files += self._at(place, [top, *rest])
        return files, libraries

    def _beside(self, folder: Path, names: list[str]) -> Iterator[Path]:
        """Of a folder with plug-ins the files of a module, and every file that is no Python and in no other plug-in."""
        for path in self._project.inside(folder):
            whole = not names or path.stem in (names[0], "__init__")
            if whole or not _is_plugin(path):
                yield from (file for file in self._project.below(path) if whole or file.suffix != ".py")

    def _at(self, place: Path, names: list[str]) -> list[File]:
        """The files of a module that is somebody's own; in the project all of the folder that it is in."""
        if not place.exists():
            place = next(folder for folder in place.parents if folder.exists())
            self._zips.add(place)
        project = plugins.PROJECT
        if names[0] in LIBRARIES or plugins.library_folder(place) or not place.is_relative_to(project):
            return self._below(place.parent, place)
        whole = project.joinpath(*place.relative_to(project).parts[:1])
        return self._below(project, whole) + _named(project, _modules(place.parent, names))


_FORKS = tuple(f"{name}/" for name in LIBRARIES)


def _named(base: Path, paths: Iterable[Path]) -> list[File]:
    return [File(path.relative_to(base).as_posix(), path) for path in paths]


def _modules(folder: Path, names: list[str]) -> list[Path]:
    """The files of a module in a folder, and of the packages in between; whether git ignores them or not."""
    paths = [folder.joinpath(*names[:length]) for length in range(1, len(names) + 1)]
    return [file for path in paths for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()]


def _of_module(name: str, source: bytes) -> Meaning:
    return source_meaning.meaning(source, PurePosixPath(name).parent.parts)


def _of_zip(path: Path) -> Meaning:
    """What the files in a zip say together; other times of the files in it, or another order, say the same."""
    said = dict[str, Meaning]()
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            data, no_python = archive.read(name), not name.endswith(".py")
            said[name] = Meaning(source_meaning.digest(data), (), ()) if no_python else _of_module(name, data)
    digests = json.dumps({name: meaning.digest for name, meaning in said.items()})
    imports = itertools.chain.from_iterable(meaning.imports for meaning in said.values())
    words = itertools.chain.from_iterable(meaning.words for meaning in said.values())
    return Meaning(source_meaning.digest(digests.encode()), tuple(imports), tuple(words))


def _is_plugin(path: Path) -> bool:
    return path.suffix == ".py" or (path / "__init__.py").is_file()


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
    """Version of a module or package that was installed from an archive; None if it is somebody's own code."""
    if (folder := plugins.library_folder(place)) is None:
        return None
    installed = functools.partial(importlib.metadata.distributions, path=[str(folder)])
    library = next(iter(installed(name=top)), None)
    if library is None:  # a name such as yaml, of PyYAML; the search takes .2 s
        names = importlib.metadata.packages_distributions().get(top, ())
        library = next((each for name in names for each in installed(name=name)), None)
    origin = json.loads((library and library.read_text("direct_url.json")) or "{}")
    if library is None or "dir_info" in origin:
        return None
    exact = origin.get("vcs_info", {}).get("commit_id") or origin.get("archive_info", {}).get("hash")
    return " ".join(filter(None, [library.version, exact]))
