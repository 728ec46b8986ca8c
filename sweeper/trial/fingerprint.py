"""Fingerprints of the code and the libraries that compute the numbers of a trial.

The fingerprint of a trial covers the numerics (`NUMERICS` and the modules of this package that these import, but
for `NO_NUMERICS`), the versions of `LIBRARIES`, the flags of XLA, and for each of its plug-ins

- the file of the plug-in, or every file of its package, and the files beside it that are no Python;
- what these name: a module that they import, and a file, a folder or a module of the project all words of whose name
  (of a file of another plug-in with its ending) stand in their texts. A folder counts with all of its files, and what
  these name counts as well;
- the installed packages that all these import: by name and version if they come from an index, otherwise (installed
  from a folder, or found in PYTHONPATH) with all of their files.

Where the files lie does not count. Two trials of one specification and one fingerprint were computed by the same
program. What is no file of the project (`sweeper.trial.project_files`) does not count, nor does a file of which no
source that counts has the name.

Comments, docstrings and formatting are no part of a fingerprint: it hashes the syntax tree of a module, without texts
that stand alone as statements.

A start takes the digests once, as `Code`. Rows and checkpoints bear the fingerprint, and a worker compares its own
`Code` with that of the start before it trains. A process cannot forget what it has imported: once files were edited,
neither fingerprint is that of its program, and `LoadedCode` refuses.
"""

import contextlib
import functools
import importlib.metadata
import importlib.util
import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from sweeper.messages import UserError
from sweeper.trial import jax_settings, plugins, source_meaning
from sweeper.trial.project_files import ProjectFiles
from sweeper.trial.source_meaning import Meaning
from sweeper.trial.trial import Trial

NUMERICS = (
    "sweeper.training", "sweeper.packs.pack_training", "sweeper.trial.record", "sweeper.trial.contracts",
    "sweeper.trial.trial_spec",
)  # fmt: skip
"""Modules and packages that compute numbers for every trial; `pack_training` averages its curves."""

LIBRARIES = ("evosax", "flax", "jax", "jaxlib", "optax")
"""Packages whose version is part of every fingerprint."""

LIBRARY_FOLDERS = ("site-packages", "dist-packages")
"""Names of the folders that packages are installed in."""

NO_NUMERICS = (
    "sweeper.events", "sweeper.messages", "sweeper.packs", "sweeper.store", "sweeper.trial.fingerprint",
    "sweeper.trial.plugins", "sweeper.trial.provenance",
)  # fmt: skip
"""Modules and packages that compute no numbers although numerics import them, but for what `NUMERICS` names."""


class OtherCodeError(UserError, RuntimeError):
    """A process runs other code than the start that it works for."""


class Code(BaseModel):
    """Digests of all code that computes numbers, as one process reads it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    numerics: str  # digest of the modules in `NUMERICS` and of their imports
    tasks: dict[str, str]  # for every task by name, a digest of its source and of its imports beside the numerics
    models: dict[str, str]  # the same for every model
    # The same for the other plug-ins; empty in records of programs from before they were plug-ins
    objectives: dict[str, str] = {}
    optimizers: dict[str, str] = {}
    experiments: dict[str, str] = {}
    versions: dict[str, str]  # versions of `LIBRARIES`; packages that are not installed are left out
    # Versions of the other libraries that plug-ins import, which are part of the digests of the plug-ins
    imported: dict[str, str] = {}
    settings: dict[str, str] = {}  # `jax_settings.flags`; empty in records of programs that did not look at them

    def digests(self, kind: plugins.Kind) -> dict[str, str]:
        """The digests of all plug-ins of a kind, by name."""
        return getattr(self, f"{kind}s")

    def fingerprint(self, trial: Trial) -> str:
        """Twenty hexadecimal digits that stand for the program that computes this trial."""
        parts = [
            self.numerics,
            *(self.digests(kind).get(plugin.name) for kind, plugin in trial.plug_ins),
            self.versions,
            *([self.settings] if self.settings else []),
        ]
        return source_meaning.digest(json.dumps(parts, sort_keys=True).encode())

    def require(self, expected: "Code", trial: Trial) -> None:
        """An `OtherCodeError` that says what differs, if the code of a start computes other numbers for the trial."""
        differences = []
        if self.numerics != expected.numerics:
            differences.append("the numerics (sweeper/training, sweeper/packs/pack_training, sweeper/trial)")
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
    """The code that this process imports, as its files are now, and the libraries."""
    sources = _Sources()
    numerics = sources.reached(NUMERICS)
    if "sweeper" not in _loaded:
        _loaded["sweeper"] = {file: _first.setdefault(file, sources.content(file).digest) for file in numerics.files}
    imported: dict[str, str] = {}

    def digests(kind: plugins.Kind) -> dict[str, str]:
        found = {}
        for name, module in plugins.modules(kind).items():
            reached = sources.reached([module])
            imported.update(reached.libraries)
            found[name] = sources.digest(_Reached(reached.files - numerics.files, reached.libraries))
        return found

    return Code(
        numerics=sources.digest(numerics),
        tasks=digests("task"),
        models=digests("model"),
        objectives=digests("objective"),
        optimizers=digests("optimizer"),
        experiments=digests("experiment"),
        versions=installed_versions(LIBRARIES),
        imported=imported,
        settings=jax_settings.flags(),
    )


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Version by package; packages that are not installed are left out."""
    versions = {}
    for name in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


# Edits while a process lives

_first: dict["_File", str] = {}
"""The digest that each file had when this process first looked at it."""

_loaded: dict[str, dict["_File", str]] = {}
"""For every plug-in that was loaded, by its module, and for `sweeper`: its files, each with the digest in `_first`."""


@contextlib.contextmanager
def noted(module: str) -> Iterator[None]:
    """Note the files of a plug-in before this process loads it, in the context; after a failure it may be mended."""
    sources = _Sources()
    files = {file: sources.content(file).digest for file in sources.reached([module]).files}
    new = files.keys() - _first.keys()
    _loaded[module] = {file: _first.setdefault(file, said) for file, said in files.items()}
    try:
        yield
    except BaseException:
        imported = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
        for file in new:
            if str(file.path) not in imported:
                del _first[file]
        raise


class LoadedCode:
    """The code that this process has loaded for some trials."""

    def __init__(self, trials: Iterable[Trial]):
        trials = list(trials)
        self._modules = {"sweeper"}
        modules = {kind: plugins.modules(kind) for kind in plugins.KINDS}
        for trial in trials:
            named = {modules[kind].get(plugin.name, "") for kind, plugin in trial.plug_ins}
            self._modules |= named & _loaded.keys()
        files = {file.path for module in self._modules for file in _loaded.get(module, ())}
        self._places = sorted(files | {path.parent for path in files})
        self._stamps: list[tuple[int, ...]] = []

    def require_unchanged(self) -> None:
        """An `OtherCodeError` that says which files were changed, added or removed since this process loaded them.

        Where no file was touched since the last look, the look is cheap.
        """
        stamps = [_stamp(place) for place in self._places]
        if stamps == self._stamps:
            return
        sources, different = _Sources(), set[str]()
        for module in self._modules & _loaded.keys():
            before, files = _loaded[module], sources.reached(NUMERICS if module == "sweeper" else [module]).files
            now = {file: sources.content(file).digest for file in files}
            different |= {file.name for file in before.keys() | now.keys() if before.get(file) != now.get(file)}
        if different:
            raise OtherCodeError(
                f"{', '.join(sorted(different))}: changed after this process had loaded the code, which may now be a "
                "mixture; start again (in a notebook restart the kernel)"
            )
        self._stamps = stamps


def _stamp(place: Path) -> tuple[int, ...]:
    try:
        status = place.stat()
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


# Files


class _File(NamedTuple):
    """A file that counts; its name is the same wherever the code lies."""

    name: str  # such as `tasks/maze.py`
    path: Path  # where it is


class _Reached(NamedTuple):
    """The files that count for a plug-in, and the versions of the libraries that these import."""

    files: set[_File]
    libraries: dict[str, str]


class _Sources:
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
        self._read: dict[_File, Meaning] = {}
        self._found = functools.cache(self._looked_up)

    def reached(self, modules: Iterable[str]) -> _Reached:
        """The files of the modules, and of all that these name."""
        waiting, files, libraries = list(modules), set[_File](), dict[str, str]()
        words, entries = set[str](), dict(self._entries)
        packages = (module.split(".")[1:] for module in modules if module.startswith("sweeper."))
        new = [file for names in packages for file in self._below(plugins.PACKAGE.joinpath(*names))]
        while True:
            for file in set(new) - files:
                files.add(file)
                content = self.content(file)
                if file.name.startswith("sweeper/"):  # this package names what it needs by its imports
                    waiting += [name for name in content.imports if name.startswith("sweeper.")]
                else:
                    waiting += content.imports
                    words.update(content.words)
            if waiting:
                found = self._found(waiting.pop())
                libraries |= found.libraries
                new = found.files
            elif named := [path for path, name in entries.items() if name <= words]:
                new = [file for path in named for file in self._below(path)]
                for path in named:
                    del entries[path]
            else:
                return _Reached(files, libraries)

    def digest(self, reached: _Reached) -> str:
        """Digest of the names and contents of files, and of the versions of libraries."""
        said = [*((file.name, self.content(file).digest) for file in reached.files), *reached.libraries.items()]
        return source_meaning.digest(json.dumps(sorted(said)).encode())

    def content(self, file: _File) -> Meaning:
        """Digest of a file, and what it names."""
        if file not in self._read:
            if file.path.suffix == ".py":
                parts = PurePosixPath(file.name).parent.parts
                self._read[file] = source_meaning.meaning(file.path.read_bytes(), parts)
            else:
                self._read[file] = Meaning(source_meaning.digest_of_file(file.path), (), ())
        return self._read[file]

    def _nameable(self) -> Iterator[tuple[Path, str]]:
        """What a text may name, and how: files and folders of the project, those beside plug-ins, files of plug-ins.

        The mere name of a plug-in is a word like others, and does not name its file.
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

    def _below(self, path: Path) -> list[_File]:
        return [_File(self._name(file), file) for file in self._project.below(path)]

    def _name(self, file: Path) -> str:
        text = str(file)
        for folder, name in self._names:
            if text.startswith(folder):
                return name + text[len(folder) :].replace(os.sep, "/")
        raise ValueError(f"{file} is no file of ours")

    def _looked_up(self, module: str) -> _Reached:
        """What an import of a module brings."""
        top, *rest = module.split(".")
        files: list[_File] = []
        if top == "sweeper":
            if module.startswith(NUMERICS) or not module.startswith(NO_NUMERICS):
                # `sweeper/__init__.py` computes nothing; it imports the rooms of `import sweeper`.
                for length in range(1, len(rest) + 1):
                    path = plugins.PACKAGE.joinpath(*rest[:length])
                    files += [
                        _File(self._name(file), file)
                        for file in (path / "__init__.py", path.with_suffix(".py"))
                        if file.is_file()
                    ]
        elif top in self._folders:
            for folder in self._folders[top]:
                for path in self._project.inside(folder):
                    # Of the folder every file that is no Python, and `__init__.py`; of a folder in it the same.
                    whole = not rest or path.stem in (rest[0], "__init__")
                    loose = not whole and not _is_plugin(path)
                    files += [file for file in self._below(path) if whole or (loose and file.path.suffix != ".py")]
        elif own := [path for path in self._entries if path.parent == plugins.PROJECT and _stem(path) == top]:
            files += [file for path in own for file in self._below(path)]
        elif top and top not in sys.stdlib_module_names:
            return self._installed(top)
        return _Reached(set(files), {})

    def _installed(self, top: str) -> _Reached:
        """An installed module or package, which is not imported for this."""
        try:
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            spec = None
        if spec is None or top in LIBRARIES:
            return _Reached(set(), {})
        places = tuple(Path(place) for place in (spec.submodule_search_locations or [spec.origin]) if place)
        if top not in self._own and (version := _version_of_library(top, places)) is not None:
            return _Reached(set(), {top: version})
        files = set[_File]()
        for place in places:
            if place.is_relative_to(plugins.PROJECT):
                files.update(self._below(plugins.PROJECT / place.relative_to(plugins.PROJECT).parts[0]))
            else:
                base = place.parent
                files.update(_File(file.relative_to(base).as_posix(), file) for file in self._project.below(place))
        return _Reached(files, {})


def _stem(path: Path) -> str:
    return path.stem if path.suffix == ".py" else path.name


def _is_plugin(path: Path) -> bool:
    return path.suffix == ".py" or (path / "__init__.py").is_file()


@functools.cache  # a process that has loaded a library keeps it
def _version_of_library(top: str, places: tuple[Path, ...]) -> str | None:
    """Version of an installed module or package that comes from an index; None if it is somebody's own code."""
    folders = {folder for place in places for folder in place.parents if folder.name in LIBRARY_FOLDERS}
    try:
        library = importlib.metadata.distribution(top)
    except importlib.metadata.PackageNotFoundError:  # a name such as yaml, of PyYAML; the search takes .2 s
        names = importlib.metadata.packages_distributions().get(top) if folders else None
        library = importlib.metadata.distribution(names[0]) if names else None
    if library is None or Path(str(library.locate_file(""))) not in folders:
        return None
    origin = json.loads(library.read_text("direct_url.json") or "{}")
    exact = origin.get("vcs_info", {}).get("commit_id") or origin.get("archive_info", {}).get("hash")
    return None if "dir_info" in origin else " ".join(filter(None, [library.version, exact]))
