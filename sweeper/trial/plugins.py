"""Plug-ins (tasks, models, objectives, optimisers, experiments) are looked up by name, in three places.

The task called `maze` is the class `Task` of a file `tasks/maze.py`, the model called `transformer` the class `Model`
of `models/transformer.py`, the objective called `cvar` the class `Objective` of `objectives/cvar.py`, the experiment
called `classification` the class `Experiment` of `experiments/classification.py`, the optimiser called `adam` the class
`Optimizer` of `optimizers/adam.py`; a folder with an `__init__.py` counts as a file. There is no registry to edit: a
new file is a new name. The places are, in this order,

1. the project, which is the folder in which the command was started: its folders `tasks/`, `models/`, `objectives/`,
   `optimizers/` and `experiments/`;
2. installed packages: entry points of the groups `sweeper.tasks`, `sweeper.models`, `sweeper.objectives`,
   `sweeper.optimizers` and `sweeper.experiments`, each a name and a class, such as `maze = "my_package.maze:Task"`;
3. the plug-ins shipped with this package.

A name that exists twice is refused when it is loaded, with both places.

Plug-ins are imported as `tasks.maze` and `models.transformer`, and may import each other by these names. `tasks` and
`models` are common names, so this module does not leave them to Python's search: it makes the packages, over the
folders of the project and of this package, and Python imports them from here before it searches anywhere else.

Workers are other processes, perhaps on other machines. They learn the project's folder from the environment variable
`SWEEPER_PROJECT`, or run in a copy of that folder.
"""

import collections
import contextlib
import functools
import importlib.metadata
import importlib.util
import itertools
import os
import re
import sys
import traceback
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from sweeper.interruption import signals_noted
from sweeper.messages import UserError, instead, message_of, one_line, printable

Kind = Literal["task", "model", "objective", "optimizer", "experiment"]
KINDS: tuple[Kind, ...] = ("task", "model", "objective", "optimizer", "experiment")

DEFAULTS: Mapping[Kind, str] = {"objective": "q_norm", "optimizer": "adam"}
"""The plug-ins that are meant where none is named."""

PACKAGE = Path(__file__).resolve().parent.parent
"""Folder of the package `sweeper`."""

ROOT = PACKAGE.parent
"""The checkout; of an installed package the folder that packages are installed in."""

SHIPPED = PACKAGE if (PACKAGE / "tasks").is_dir() else ROOT
"""Folder whose `tasks/`, `models/`, `objectives/`, `optimizers/` and `experiments/` are shipped.

An installed package has its plug-ins inside, where no other package can be in their way.
"""

STANDARD_LIBRARY = Path(os.__file__).parent

IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
"""Names of plug-ins, as a pattern: they are modules of Python, folders of a store, and words of SQL."""

PROJECT_VARIABLE = "SWEEPER_PROJECT"
PROJECT = Path(os.environ.get(PROJECT_VARIABLE) or Path.cwd()).resolve()
"""Folder of the project: where the process was started, unless its environment names another."""


class PluginError(UserError, ValueError):
    """A plug-in that cannot be loaded; the message is one line for the author of a search space or plug-in."""


class Place(NamedTuple):
    """Where a plug-in is."""

    entry_point: EntryPoint  # its module and class; made here for a file
    file: Path | None  # its file in a folder of plug-ins; None in an installed package

    def __str__(self) -> str:
        if self.file is not None:
            return str(self.file)
        file = None
        with contextlib.suppress(ImportError, ValueError):  # as far as this can be known without running it
            file = getattr(importlib.util.find_spec(self.entry_point.module), "origin", None)
        return f"{file or self.entry_point.module} (entry point '{self.entry_point.name}')"


def library_folder(path: Path) -> Path | None:
    """The folder of installed packages that a path is in; None for what Python brings along, and somebody's own."""
    return next((folder for folder in path.parents if folder.name in ("site-packages", "dist-packages")), None)


def folders(kind: Kind) -> list[Path]:
    """The folders whose files are plug-ins of a kind: the project's before this package's, if both can be read."""
    candidates = dict.fromkeys(place / f"{kind}s" for place in (PROJECT, SHIPPED))
    return [folder for folder in candidates if os.path.isdir(folder) and os.access(folder, os.R_OK | os.X_OK)]


def names(kind: Kind) -> list[str]:
    """Every plug-in of a kind, in alphabetical order."""
    return sorted(_places(kind))


def modules(kind: Kind) -> dict[str, str]:
    """The module of every plug-in of a kind, by name; of a name that exists more than once, the first place.

    What is called `maze (1).py`, as copies are, or `.#maze.py`, as locks of Emacs are, is no module.
    """
    places = _places(kind).items()
    return {name: place.entry_point.module for name, (place, *_) in places if re.fullmatch(IDENTIFIER, name)}


def places() -> dict[str, list[str]]:
    """All places of every plug-in, by its kind and name, as texts that are others for another plug-in."""
    return {f"{kind} {name}": list(map(repr, found)) for kind in KINDS for name, found in _places(kind).items()}


def packages() -> dict[str, importlib.metadata.Distribution]:
    """The installed packages that bring plug-ins, by name."""
    brought = (entry_point.dist for kind in KINDS for entry_point in _entry_points(kind))
    return {package.name: package for package in brought if package is not None}


def _places(kind: Kind) -> dict[str, list[Place]]:
    places = collections.defaultdict[str, list[Place]](list)
    for folder in folders(kind):
        for file in sorted([*folder.glob("[!_]*.py"), *folder.glob("*/__init__.py")]):
            name = file.parent.name if file.stem == "__init__" else file.stem
            places[name].append(Place(EntryPoint(name, f"{kind}s.{name}:{kind.capitalize()}", ""), file))
    for entry_point in _entry_points(kind):
        places[entry_point.name].append(Place(entry_point, None))
    return places


def _entry_points(kind: Kind) -> EntryPoints:
    return _all_entry_points(tuple(sys.path)).select(group=f"sweeper.{kind}s")


@functools.cache
def _all_entry_points(path: tuple[str, ...]) -> EntryPoints:
    """The entry points of all packages on `sys.path`: reading them takes .01 s and more, and a start asks ten times."""
    return cast("EntryPoints", importlib.metadata.entry_points())


# Code of plug-ins


def line_of_ours(frames: Iterable[traceback.FrameSummary]) -> str | None:
    """File and line of the last of the frames that is in a plug-in's folder or in this package."""
    parents = {PACKAGE: ROOT} | _code_of_plugins()
    places = [
        f"{Path(frame.filename).relative_to(parent)}, line {frame.lineno}"
        for frame in frames
        for folder, parent in parents.items()
        if Path(frame.filename).is_relative_to(folder)
    ]
    return places[-1] if places else None


def _code_of_plugins() -> dict[Path, Path]:
    """Folders and files with code of plug-ins, each with the folder from which its path is told."""
    places = {folder: folder.parent for kind in KINDS for folder in folders(kind)}
    for kind in KINDS:
        for entry_point in _entry_points(kind):
            module = sys.modules.get(entry_point.module.partition(".")[0])
            files = [*getattr(module, "__path__", []), getattr(module, "__file__", None)]
            places |= {Path(file): Path(file).parent for file in files if file}
    return places


def contained() -> contextlib.AbstractContextManager[None]:
    """Turns what is no `Exception`, such as `sys.exit(0)` in a plug-in, into a `PluginError` with its place.

    It would have ended the process without a word. KeyboardInterrupt is Ctrl-C, whoever raises it.
    """

    def told(error: BaseException) -> str:
        place = line_of_ours(traceback.extract_tb(error.__traceback__))
        return f"{place}: {type(error).__name__}: {one_line(message_of(error))}"

    return _raised_by_plugin(told, but=(Exception, KeyboardInterrupt))


@contextlib.contextmanager
def _raised_by_plugin(told: Callable[[BaseException], str], but: tuple[type, ...] = ()) -> Iterator[None]:
    """Raises a `PluginError` with the words of `told` for an error of a plug-in. Errors of signal handlers pass."""
    with signals_noted() as noted:
        try:
            yield
        except BaseException as error:
            if isinstance(error, but) or (noted and not isinstance(error, Exception)):
                raise
            raise PluginError(told(error)) from error


# Imports


_watches: list[Callable[[str], contextlib.AbstractContextManager[None]]] = []


def when_loaded(watch: Callable[[str], contextlib.AbstractContextManager[None]]) -> None:
    """Load every plug-in inside the context that `watch` makes of the name of its module."""
    _watches.append(watch)


@functools.cache
def load(kind: Kind, name: str) -> type:
    """The class of the plug-in called `name`.

    It is a `PluginError` if there is no such name (the message lists the known names and the nearest), or two plug-ins
    have it; if no module can be called so; if the file cannot be imported, or changes settings of JAX; or if its class
    lacks methods.
    """
    places = _places(kind)
    if name not in places:
        raise PluginError(f"unknown {kind} '{name}'{instead(name, sorted(places))}")
    if len(places[name]) > 1:
        raise PluginError(f"{kind} '{name}' exists more than once: {' and '.join(map(str, places[name]))}")
    (place,) = places[name]
    if re.fullmatch(IDENTIFIER, name) is None:
        raise PluginError(f"{place}: {name!r} names no {kind}: letters, digits and _ of ASCII, no digit first")
    _make_packages()  # again, as the project's folders may be newer than this process
    with contextlib.ExitStack() as watching:
        for watch in _watches:
            watching.enter_context(watch(place.entry_point.module))
        plugin = _imported_without_changes(kind, name, place)
    if mistake := _mistake(kind, name, plugin):
        raise PluginError(f"{place}: {mistake}")
    return plugin


def _imported_without_changes(kind: Kind, name: str, place: Place) -> Any:
    """The plug-in, if its import leaves the settings of JAX alone that decide numbers."""
    from sweeper.trial import jax_settings, patches  # imports JAX, as plug-ins do

    files, message = _refused.get(place, ({}, ""))
    if files and files == _contents(files):
        raise PluginError(message)
    present, before, own = set(sys.modules), jax_settings.changed(), patches.Attributes()
    own.see(patches.of_packages("sweeper"))
    plugin = None
    try:
        with jax_settings.one_thread():  # it may compute constants
            plugin = _imported(kind, name, place)
    finally:
        if (after := jax_settings.changed() | own.changed()) != before:
            jax_settings.put_back()
            own.put_back()
        if plugin is None or after != before:
            forgotten = _forgotten(set(sys.modules) - present, place.entry_point.module.partition(".")[0])
            files = _contents(forgotten)
    if after != before:
        listed = ", ".join(f"{setting} to {value!r}" for setting, value in after.items())
        message = f"the import of the {kind} '{name}' sets {listed}, for all trials of the process; remove that"
        _refused[place] = files, f"{place}: {message}"
        raise PluginError(f"{place}: {message}")
    return plugin


_refused: dict[Place, tuple[dict[Path, bytes | None], str]] = {}
"""Plug-ins that have changed something, by their places: their own files, and the message.

A library that has changed it stays imported, and changes nothing a second time.
"""


def _contents(files: Iterable[Path]) -> dict[Path, bytes | None]:
    return {file: file.read_bytes() if file.is_file() else None for file in files}


def _forgotten(names: Iterable[str], own: str) -> list[Path]:
    """Let the modules of these names be imported anew, and return their files.

    Those of this package and of libraries stay, but for the package that is called `own`. A helper that changes
    something does it when it is run. If it stayed, the next plug-in would have what the helper defines, and nobody
    would see what it changes.
    """
    files = []
    for name in names:
        file = Path(getattr(sys.modules[name], "__file__", None) or STANDARD_LIBRARY)
        of_library = library_folder(file) or file.is_relative_to(STANDARD_LIBRARY)
        if (name.partition(".")[0] == own or not of_library) and not name.startswith("sweeper."):
            files.append(file)
            module, (parent, _, inner) = sys.modules.pop(name), name.rpartition(".")
            if vars(sys.modules.get(parent, module)).get(inner) is module:  # `from tasks import helper` looks there
                delattr(sys.modules[parent], inner)
    return files


def _imported(kind: Kind, name: str, place: Place) -> Any:
    with _raised_by_plugin(functools.partial(_import_failure, place)):
        module = importlib.import_module(place.entry_point.module)
        own = place.file is None or Path(module.__file__ or "").resolve() == place.file.resolve()
        plugin = place.entry_point.load() if own else None
    if not own:
        raise PluginError(
            f"{kind} '{name}' is {place.file}, but Python has {module.__file__} under the name {module.__name__}: "
            f"rename one of the two"
        )
    return plugin


def _import_failure(place: Place, error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}, line {error.lineno}: {error.msg}"
    message, places = printable(one_line(message_of(error))), _code_of_plugins()
    lines = [
        f"{frame.filename}, line {frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if any(Path(frame.filename).is_relative_to(folder) for folder in places)
    ]
    if isinstance(error, ModuleNotFoundError) and error.name and place.file is not None:
        package = place.entry_point.module.partition(".")[0]
        if importlib.util.find_spec(f"{package}.{error.name.partition('.')[0]}") is not None:
            message += f"; {error.name} lies beside it: from {package}.{error.name} import …"
    return f"{lines[-1] if lines else place}: {type(error).__name__}: {message}"


def _mistake(kind: Kind, name: str, plugin: Any) -> str | None:
    """What is wrong with a plug-in that is no class of its kind, lacks methods, or has names that tables cannot hold.

    Under another name than that of its file its trials would not be found.
    """
    from sweeper.trial.columns import COLUMNS  # asks the kinds of trial, which are made of this module

    if not isinstance(plugin, type) or getattr(plugin, "KIND", None) != kind:
        return f"the {kind} '{name}' is no subclass of {_contract(kind)}"
    for one, other in itertools.combinations(plugin.model_fields, 2):
        if one.lower() == other.lower():
            return f"fields {one!r} and {other!r} differ in capitals alone, which SQL ignores"
    for field in plugin.model_fields:
        if (column := f"{kind}_{field}".lower()) in COLUMNS:
            return f"the field {field!r} needs another name: tables have another column {column!r}"
    if missing := ", ".join(sorted(getattr(plugin, "__abstractmethods__", ()))):
        return f"class '{plugin.__name__}' lacks {missing}; {_contract(kind)} says what each is"
    declared = plugin.model_fields["name"]
    if declared.default != name or name not in typing.get_args(declared.annotation):
        return f'the {kind} \'{name}\' declares the name {declared.default!r}; write name: Literal["{name}"] = "{name}"'
    return None


def _contract(kind: Kind) -> str:
    """The class that all plug-ins of a kind extend, and which says its kind as `KIND`."""
    from sweeper.trial.kinds import contract_of  # kinds of trial are made of this module

    contract = contract_of(kind)
    return f"{contract.__module__}.{contract.__qualname__}"


def _make_packages() -> None:
    """Make `tasks`, `models`, `objectives`, `optimizers` and `experiments` importable, over all folders of plug-ins."""
    for kind in KINDS:
        name = f"{kind}s"
        if name not in sys.modules:
            sys.modules[name] = importlib.util.module_from_spec(ModuleSpec(name, None, is_package=True))
        # Whoever imported a module of this name before keeps it; its own files come first, and `load` checks.
        package = sys.modules[name]
        package.__path__ = list(dict.fromkeys([*getattr(package, "__path__", []), *map(str, folders(kind))]))


_make_packages()
