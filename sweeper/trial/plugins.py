"""Plug-ins (tasks, models, objectives, optimisers, experiments) are looked up by name, in two places.

The task called `maze` is the class `Task` of a file `tasks/maze.py`, the model called `transformer` the class `Model`
of `models/transformer.py`, the objective called `cvar` the class `Objective` of `objectives/cvar.py`, the experiment
called `classification` the class `Experiment` of `experiments/classification.py`, the optimiser called `adam` the class
`Optimizer` of `optimizers/adam.py`; a folder with an `__init__.py` counts as a file. There is no registry to edit: a
new file is a new name. The places are

1. the project, which is the folder in which the command was started: its folders `tasks/`, `models/`, `objectives/`,
   `optimizers/` and `experiments/`;
2. the plug-ins shipped with this package.

A plug-in of an installed package is a file of one line in the project: `from lab.maze import Task`. A name that exists
in both places is refused when it is loaded, with both files.

Plug-ins are imported as `tasks.maze` and `models.transformer`, and may import each other by these names. `tasks` and
`models` are common names, so this module does not leave them to Python's search: it makes the packages, over the
folders of the project and of this package, and Python imports them from here before it searches anywhere else.

Workers are other processes, perhaps on other machines. They learn the project's folder from the environment variable
`SWEEPER_PROJECT`, or run in a copy of that folder.
"""

import collections
import functools
import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, Literal

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


def library_folder(path: Path) -> Path | None:
    """The folder of installed packages that a path is in; None for what Python brings along, and somebody's own."""
    return next((folder for folder in path.parents if folder.name in ("site-packages", "dist-packages")), None)


def folders(kind: Kind) -> list[Path]:
    """The folders whose files are plug-ins of a kind: the project's before this package's."""
    candidates = dict.fromkeys(place / f"{kind}s" for place in (PROJECT, SHIPPED))
    return [folder for folder in candidates if folder.is_dir()]


def names(kind: Kind) -> list[str]:
    """Every plug-in of a kind, in alphabetical order."""
    return sorted(_files(kind))


def modules(kind: Kind) -> dict[str, str]:
    """The module of every plug-in of a kind, by name.

    What is called `maze (1).py`, as copies are, or `.#maze.py`, as locks of Emacs are, is no module.
    """
    return {name: module(kind, name) for name in _files(kind) if re.fullmatch(IDENTIFIER, name)}


def module(kind: Kind, name: str) -> str:
    """The module of a plug-in."""
    return f"{kind}s.{name}"


def places() -> dict[str, list[str]]:
    """The files of every plug-in, by its kind and name."""
    return {f"{kind} {name}": list(map(str, files)) for kind in KINDS for name, files in _files(kind).items()}


def _files(kind: Kind) -> dict[str, list[Path]]:
    found = collections.defaultdict[str, list[Path]](list)
    for folder in folders(kind):
        for file in sorted([*folder.glob("[!_]*.py"), *folder.glob("*/__init__.py")]):
            found[file.parent.name if file.stem == "__init__" else file.stem].append(file)
    return found


def line_of_ours(frames: Iterable[traceback.FrameSummary]) -> str | None:
    """File and line of the last of the frames that is in a folder of plug-ins or in this package."""
    ours = dict.fromkeys([PACKAGE, *(folder for kind in KINDS for folder in folders(kind))])
    places = [
        f"{Path(frame.filename).relative_to(folder.parent)}, line {frame.lineno}"
        for frame in frames
        for folder in ours
        if Path(frame.filename).is_relative_to(folder)
    ]
    return places[-1] if places else None


def function_of(value: Any) -> types.FunctionType | None:
    """The function inside of a method, a property or a wrapper."""
    value = getattr(value, "fget", None) or getattr(value, "__func__", value)
    value = inspect.unwrap(value) if callable(value) else None
    return value if isinstance(value, types.FunctionType) else None


# Imports


_watches: list[Callable[[str], AbstractContextManager[None]]] = []


def when_loaded(watch: Callable[[str], AbstractContextManager[None]]) -> None:
    """Load every plug-in inside the context that `watch` makes of the name of its module."""
    _watches.append(watch)


@functools.cache
def load(kind: Kind, name: str) -> type:
    """The class of the plug-in called `name`.

    It is a `PluginError` if there is no such name (the message lists the known names and the nearest), or two plug-ins
    have it; if no module can be called so; if the file cannot be imported, or changes settings of JAX; or if its class
    lacks methods.
    """
    files = _files(kind)
    if name not in files:
        elsewhere = "" if (PROJECT / f"{kind}s").is_dir() else f"; {PROJECT} has no folder {kind}s: is it the project?"
        raise PluginError(f"unknown {kind} '{name}'{instead(name, sorted(files))}{elsewhere}")
    if len(files[name]) > 1:
        raise PluginError(f"{kind} '{name}' exists more than once: {' and '.join(map(str, files[name]))}")
    (file,) = files[name]
    if re.fullmatch(IDENTIFIER, name) is None:
        raise PluginError(f"{file}: {name!r} names no {kind}: letters, digits and _ of ASCII, no digit first")
    _make_packages()  # again, as the project's folders may be newer than this process
    with ExitStack() as watching:
        for watch in _watches:
            watching.enter_context(watch(module(kind, name)))
        plugin = _imported_without_changes(kind, name, file)
    if mistake := _mistake(kind, name, plugin):
        raise PluginError(f"{file}: {mistake}")
    return plugin


_refused: dict[Path, str] = {}
"""The message about every plug-in whose import has changed settings: Python does not run the file a second time."""


def _imported_without_changes(kind: Kind, name: str, file: Path) -> Any:
    """What a file has as its plug-in, if its import leaves the settings of JAX alone that decide numbers."""
    from sweeper.trial import jax_settings  # imports JAX, as plug-ins do

    if file in _refused:
        raise PluginError(_refused[file])
    before = jax_settings.changed()
    try:
        with jax_settings.one_thread():  # it may compute constants
            plugin = getattr(importlib.import_module(module(kind, name)), kind.capitalize(), None)
    except Exception as error:
        raise PluginError(_import_failure(file, error)) from error
    finally:
        if (after := jax_settings.changed()) != before:
            jax_settings.put_back()
    if after != before:
        listed = ", ".join(f"{setting} to {value!r}" for setting, value in after.items())
        for_all = f"the import of the {kind} '{name}' sets {listed}, for all trials of the process"
        _refused[file] = f"{file}: {for_all}; remove that, and start Python anew"
        raise PluginError(_refused[file])
    return plugin


def _import_failure(file: Path, error: Exception) -> str:
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}, line {error.lineno}: {error.msg}"
    inner = [folder for kind in KINDS for folder in folders(kind)]
    lines = [
        f"{frame.filename}, line {frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if any(Path(frame.filename).is_relative_to(folder) for folder in inner)
    ]
    return f"{lines[-1] if lines else file}: {type(error).__name__}: {printable(one_line(message_of(error)))}"


def _mistake(kind: Kind, name: str, plugin: Any) -> str | None:
    """What is wrong with a plug-in that is no class of its kind, lacks methods, or has names that tables cannot hold.

    Under another name than that of its file its trials would not be found.
    """
    from sweeper.trial.columns import COLUMNS  # asks the kinds of trial, which are made of this module

    if not isinstance(plugin, type) or getattr(plugin, "KIND", None) != kind:
        return f"it has no class '{kind.capitalize()}' that extends {_contract(kind)}"
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
        # Whoever imported a module of this name before keeps it, and its own files come first.
        package = sys.modules[name]
        package.__path__ = list(dict.fromkeys([*getattr(package, "__path__", []), *map(str, folders(kind))]))


_make_packages()
