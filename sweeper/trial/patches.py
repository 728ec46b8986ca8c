"""Functions, classes and methods that were replaced after their import: `jax.nn.softmax = …`, `Task.loss = …`.

A replacement in a library changes the trials of all plug-ins of the process, one in a plug-in is no part of its
fingerprint, and workers have neither. So what computes is remembered as it was imported, and compared.
`sweeper.trial.jax_settings` refuses a difference by name, and undoes it, as it does with settings. `sweeper` itself is
compared around the import of a plug-in alone.

What was replaced before anybody looked is known by where it was defined: no function of a library comes from a notebook
or a plug-in, and none of a plug-in from a file that does not count for its fingerprint.
"""

import inspect
import operator
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

LIBRARIES = ("evosax", "flax", "jax", "jaxlib", "math", "numpy", "optax", "scipy")
"""Packages that compute numbers, for plug-ins or for this package."""

FOREIGN = ("__main__", "tasks.", "models.", "objectives.", "optimizers.", "experiments.")
"""How the modules of the notebook or program, and those of plug-ins begin: what they define belongs to no library."""

Owner = types.ModuleType | type

_MISSING = object()
_INSIDE = ("__code__", "__defaults__", "__kwdefaults__")  # of a function, and may be replaced as well
_inside = operator.attrgetter(*_INSIDE)


class _Change(NamedTuple):
    owner: Owner
    name: str
    before: Any  # `_MISSING` if it had none of its own
    now: Any

    def undo(self) -> None:
        if self.before is _MISSING:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.before)


class Attributes:
    """The attributes of modules and of the classes in them, as they were when they were seen first."""

    def __init__(self, everything: bool = False) -> None:
        """Of modules public functions and classes, of classes all code; with `everything` private ones and constants of
        classes too, but for `VERSION`, which every row has."""
        self._everything = everything
        self._held: dict[Owner, dict[str, Any]] = {}
        self._sizes: dict[type, int] = {}  # number of attributes of a class
        self._functions: dict[types.FunctionType, tuple[Any, ...]] = {}

    def see(self, modules: Iterable[types.ModuleType]) -> None:
        """Remember modules, and the classes in them that their packages define."""
        waiting: list[Owner] = [module for module in modules if module not in self._held]
        for owner in waiting:
            held = {name: value for name, value in list(vars(owner).items()) if self._counts(owner, name, value)}
            self._held[owner] = held
            if isinstance(owner, type):
                self._sizes[owner] = len(vars(owner))
            for value in held.values():
                if type(value) is types.FunctionType:
                    self._functions[value] = _inside(value)
                elif isinstance(value, type) and value not in self._held and _package(value) == _package(owner):
                    self._held[value] = {}  # soon
                    waiting.append(value)

    def __contains__(self, module: types.ModuleType) -> bool:
        return module in self._held

    def changed(self) -> dict[str, str]:
        """What stands in the place of what was replaced, in words, by the name of the attribute."""
        functions = {_name(function): "other code or defaults" for function, _ in self._rewritten()}
        return {f"{_name(each.owner)}.{each.name}": _words(each.now) for each in self._replaced()} | functions

    def put_back(self) -> None:
        for change in list(self._replaced()):
            change.undo()
        for function, inside in list(self._rewritten()):
            for part, value in zip(_INSIDE, inside, strict=True):
                setattr(function, part, value)

    def _replaced(self) -> Iterator[_Change]:
        for owner, held in self._held.items():
            now = vars(owner)
            if not all(map(operator.is_, map(now.get, held), held.values())):
                for name, value in held.items():
                    if now.get(name, _MISSING) is not value:
                        yield _Change(owner, name, value, now.get(name, _MISSING))
            if isinstance(owner, type) and len(now) != self._sizes[owner]:
                # A new attribute in front of one that was inherited; any other is nobody's yet.
                for name, value in list(now.items()):
                    inherited = any(name in vars(base) for base in owner.__mro__[1:])
                    if inherited and name not in held and self._counts(owner, name, value):
                        yield _Change(owner, name, _MISSING, value)

    def _rewritten(self) -> Iterator[tuple[types.FunctionType, tuple[Any, ...]]]:
        if not all(map(operator.eq, map(_inside, self._functions), self._functions.values())):
            for function, inside in self._functions.items():
                if _inside(function) != inside:
                    yield function, inside

    def _counts(self, owner: Owner, name: str, value: Any) -> bool:
        if not isinstance(owner, type):
            return callable(value) and (self._everything or not name.startswith("_"))
        code = callable(value) or hasattr(type(value), "__get__")  # a method, a property, a field of a named tuple
        return code or (self._everything and not name.startswith("_") and name != "VERSION")


_libraries, _plugins = Attributes(), Attributes(everything=True)
_before_us: dict[str, str] = {}  # what was found replaced in libraries when they were seen first


def changed() -> dict[str, str]:
    """What stands in the place of what was replaced, in words, by the name of the attribute."""
    found = _libraries.changed() | _plugins.changed()
    new = [module for module in of_packages(*LIBRARIES) if module not in _libraries]
    _libraries.see(new)
    _before_us.update(foreign(new, _of_no_library))
    return found | _before_us


def _of_no_library(value: Any) -> bool:
    module = getattr(value, "__module__", None)
    return isinstance(module, str) and module.startswith(FOREIGN)


def put_back() -> None:
    """Undo all replacements since they were imported."""
    _libraries.put_back()
    _plugins.put_back()


def remember(modules: Iterable[types.ModuleType]) -> None:
    """Remember the modules of a plug-in that was loaded now."""
    _plugins.see(modules)


def foreign(modules: Iterable[types.ModuleType], strange: Callable[[Any], bool]) -> dict[str, str]:
    """What is `strange` in modules and in the classes that these define, in words, by the name of the attribute."""
    return {
        f"{_name(owner)}.{name}": _words(value)
        for module in modules
        for owner in (module, *_classes(module))
        for name, value in list(vars(owner).items())
        if strange(value)
    }


def of_packages(*names: str) -> list[types.ModuleType]:
    """The modules of some packages that this process has imported."""
    loaded = list(sys.modules.items())
    return [each for name, each in loaded if name.partition(".")[0] in names and isinstance(each, types.ModuleType)]


def function_of(value: Any) -> types.FunctionType | None:
    """The function inside of a method, a property or a wrapper."""
    value = getattr(value, "fget", None) or getattr(value, "__func__", value)
    try:
        value = inspect.unwrap(value)
    except ValueError:  # wrappers in a circle
        return None
    return value if isinstance(value, types.FunctionType) else None


def _classes(module: types.ModuleType) -> list[type]:
    values = list(vars(module).values())
    return [value for value in values if isinstance(value, type) and value.__module__ == module.__name__]


def _package(value: Any) -> str:
    name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return str(name).partition(".")[0]


def _name(value: Any) -> str:
    if isinstance(value, types.ModuleType):
        return value.__name__
    module = getattr(value, "__module__", None)  # methods in C have none
    return f"{module}.{value.__qualname__}" if module else value.__qualname__


def _words(value: Any) -> str:
    if value is _MISSING:
        return "nothing"
    value = function_of(value) or value
    return _name(value) if hasattr(value, "__qualname__") else repr(value)[:80]
