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

import functools
import importlib.machinery
import importlib.metadata
import importlib.util
import itertools
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence, Set
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
    "sweeper.trial.loaded_code", "sweeper.trial.patches", "sweeper.trial.plugins",
    "sweeper.trial.kind_tables", "sweeper.trial.remembered",
    *(
        f"{module.rpartition('.')[0]}.{name}" for module in _OF_KINDS
        for name in ("advice", "checks", "declared", "figures")
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
        ours = (*itertools.chain(*self._folders.values()), plugins.PACKAGE)
        self._names = [
            *((f"{folder}{os.sep}", f"{folder.name}/") for folder in ours),
            (f"{plugins.PROJECT}{os.sep}", ""),
        ]
        self._entries = {path: set(source_meaning.words(name)) for path, name in self._nameable()}
        self._own = {module.partition(".")[0] for kind in plugins.KINDS for module in plugins.modules(kind).values()}
        self._zips = set[Path]()  # from which something is imported
        self._read: dict[File, Meaning] = {}

    def reached(self, modules: Iterable[str], known: Set[File] = frozenset()) -> Reached:
        """What counts for modules: their files, and what these import and name; without files that are `known`."""
        waiting, seen = list(modules), set[str]()
        files, libraries = set(known), dict[str, str]()
        words, entries = set[str](), dict(self._entries)
        packages = (module.split(".")[1:] for module in modules if module.startswith("sweeper."))
        new = self._below(*(plugins.PACKAGE.joinpath(*names) for names in packages))
        while True:
            for file in set(new) - files:
                files.add(file)
                imports, texts = self._naming(file)
                waiting += imports
                words.update(texts)
            if waiting:
                if (module := waiting.pop()) not in seen:
                    seen.add(module)
                    new, found = self._imported(module)
                    libraries |= found
            elif named := [path for path, name in entries.items() if name <= words]:
                new = self._below(*named)
                entries = {path: name for path, name in entries.items() if path not in named}
            else:
                return Reached(files - known, libraries)

    def _naming(self, file: File) -> tuple[Sequence[str], Sequence[str]]:
        """The modules, and the words in texts, by which a file brings others; this package names all by its imports."""
        content = self.content(file)
        if file.name.startswith("sweeper/"):
            return [name for name in content.imports if name.startswith("sweeper.")], ()
        return content.imports, content.words

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

    def _nameable(self) -> Iterator[tuple[Path, str]]:
        """What a text may name, and how: files and folders of the project, those beside plug-ins, files of plug-ins.

        A bare plug-in name such as `maze` does not pull in its file.
        """
        for path in self._project.inside(plugins.PROJECT):
            if path != plugins.PACKAGE:
                yield path, _stem(path)
        for folder in itertools.chain(*self._folders.values()):
            for path in self._project.inside(folder):
                if path.name.startswith("_") or not _is_plugin(path):
                    if path.name != "__init__.py":
                        yield path, _stem(path)
                else:
                    yield from ((file, str(file.relative_to(folder))) for file in self._project.below(path))

    def _below(self, *paths: Path) -> list[File]:
        return [File(self._name(file), file) for path in paths for file in self._project.below(path)]

    def _name(self, file: Path) -> str:
        text = str(file)
        for folder, name in self._names:
            if text.startswith(folder):
                return name + text[len(folder) :].replace(os.sep, "/")
        raise ValueError(f"{file} is no file of ours")

    def _imported(self, module: str) -> tuple[list[File], dict[str, str]]:
        """What an import of a module brings: files, and libraries with their versions."""
        top, *rest = module.split(".")
        if top == "sweeper":
            return self._of_sweeper(module), {}
        if top in self._folders:
            modules = [file for folder in self._folders[top] for file in self._modules(folder, rest)]
            return self._beside(self._folders[top], rest) + modules, {}
        files, libraries = list[File](), dict[str, str]()
        for place in _places(top):
            if top not in self._own and (version := _version_of_library(top, place)) is not None:
                libraries[top] = version
            else:
                own = top not in LIBRARIES and _library_folder(place) is None
                files += self._at(place, of_project=own)
                if own and place.is_relative_to(plugins.PROJECT):
                    files += self._modules(place.parent, [top, *rest])
        return files, libraries

    def _of_sweeper(self, module: str) -> list[File]:
        if module.startswith(NO_NUMERICS) and not module.startswith(NUMERICS):
            return []
        # `sweeper/__init__.py` computes nothing; it imports the rooms of `import sweeper`.
        return self._modules(plugins.PACKAGE, module.split(".")[1:])

    def _modules(self, folder: Path, names: list[str]) -> list[File]:
        """The files of a module in a folder, and of the packages in between; whether git ignores them or not."""
        paths = [folder.joinpath(*names[:length]) for length in range(1, len(names) + 1)]
        files = [file for path in paths for file in (path / "__init__.py", path.with_suffix(".py"))]
        return [File(self._name(file), file) for file in files if file.is_file()]

    def _beside(self, folders: Iterable[Path], names: list[str]) -> list[File]:
        """Of folders with plug-ins the files of a module, and every file that is no Python and in no other plug-in."""
        files = list[File]()
        for path in itertools.chain(*map(self._project.inside, folders)):
            if not names or path.stem in (names[0], "__init__"):
                files += self._below(path)
            elif not _is_plugin(path):
                files += [file for file in self._below(path) if file.path.suffix != ".py"]
        return files

    def _at(self, place: Path, of_project: bool) -> list[File]:
        """The files of a module or package that is somebody's own; in the project all of the folder that it is in."""
        if not place.exists():
            place = next(folder for folder in place.parents if folder.exists())
            self._zips.add(place)
        if of_project and place.is_relative_to(plugins.PROJECT):
            return self._below(plugins.PROJECT.joinpath(*place.relative_to(plugins.PROJECT).parts[:1]))
        return [File(file.relative_to(place.parent).as_posix(), file) for file in self._project.below(place)]


_FORKS = tuple(f"{name}/" for name in LIBRARIES)


def _of_module(name: str, source: bytes) -> Meaning:
    return source_meaning.meaning(source, PurePosixPath(name).parent.parts)


def _of_zip(path: Path) -> Meaning:
    """What the files in a zip say together; other times of the files in it, or another order, say the same."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in sorted(archive.namelist())}
    meanings = {name: _of_module(name, data) for name, data in content.items() if name.endswith(".py")}
    others = {name: source_meaning.digest(data) for name, data in content.items() if name not in meanings}
    digests = others | {name: meaning.digest for name, meaning in meanings.items()}
    imports = itertools.chain.from_iterable(meaning.imports for meaning in meanings.values())
    words = itertools.chain.from_iterable(meaning.words for meaning in meanings.values())
    return Meaning(source_meaning.digest(json.dumps(digests, sort_keys=True).encode()), tuple(imports), tuple(words))


def _stem(path: Path) -> str:
    return path.stem if path.suffix == ".py" else path.name


def _is_plugin(path: Path) -> bool:
    return path.suffix == ".py" or (path / "__init__.py").is_file()


def _places(top: str) -> list[Path]:
    """Where Python finds a module or package, which is not imported for this; nowhere what Python brings along."""
    if not top:  # of a relative import that leads out of all packages
        return []
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # of a module that was not imported but made
        spec = None
    # A command whose first folder is that of a script does not search the project. Workers do.
    spec = spec or importlib.machinery.PathFinder.find_spec(top, [str(plugins.PROJECT)])
    if spec is None:
        return []
    places = spec.submodule_search_locations or ([spec.origin] if spec.has_location else [])
    paths = [Path(place) for place in places if place]
    return [path for path in paths if not path.is_relative_to(plugins.STANDARD_LIBRARY) or _library_folder(path)]


def _library_folder(path: Path) -> Path | None:
    return next((folder for folder in path.parents if folder.name in plugins.LIBRARY_FOLDERS), None)


@functools.cache  # a process that has loaded a library keeps it
def _version_of_library(top: str, place: Path) -> str | None:
    """Version of a module or package that was installed from an archive; None if it is somebody's own code."""
    folder = _library_folder(place)
    try:
        library = importlib.metadata.distribution(top)
    except importlib.metadata.PackageNotFoundError:  # a name such as yaml, of PyYAML; the search takes .2 s
        names = importlib.metadata.packages_distributions().get(top) if folder else None
        library = importlib.metadata.distribution(names[0]) if names else None
    if library is None or Path(str(library.locate_file(""))) != folder:
        return None
    origin = json.loads(library.read_text("direct_url.json") or "{}")
    exact = origin.get("vcs_info", {}).get("commit_id") or origin.get("archive_info", {}).get("hash")
    return None if "dir_info" in origin else " ".join(filter(None, [library.version, exact]))
