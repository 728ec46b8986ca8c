"""What was replaced after its import: `jax.nn.softmax = …`, `numpy.pi = 3`, `jax.nn.relu.defjvp(…)`, `Task.loss = …`.

A replacement in a library changes the trials of all plug-ins of the process, one in a plug-in is no part of its
fingerprint, and workers have neither. So what computes is remembered as it was imported, and compared.
`sweeper.trial.jax_settings` refuses a difference by name, and undoes it, as it does with settings. `sweeper` itself is
compared around the import of a plug-in alone.

A replacement that is older than the first look is told by its module: no function of a library or of `sweeper` comes
from a notebook or a plug-in, and none of a plug-in from a file that does not count for its fingerprint.
"""

import builtins
import inspect
import operator
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

LIBRARIES = (
    "builtins", "cmath", "evosax", "flax", "functools", "itertools", "jax", "jaxlib", "math", "numpy", "operator",
    "optax", "random", "scipy",
)  # fmt: skip
"""Packages that compute numbers, for plug-ins or for this package."""

FOR_PEOPLE = {"breakpoint", "copyright", "credits", "exit", "help", "input", "license", "open", "print", "quit"}
"""Built-in functions that compute nothing. Jupyter replaces some of them before every cell."""

FOREIGN = ("__main__", "tasks.", "models.", "objectives.", "optimizers.", "experiments.")
"""How the modules of the notebook or program, and those of plug-ins begin: what they define belongs to no library."""

_MISSING = object()
_INSIDE = ("__code__", "__defaults__", "__kwdefaults__")  # of a function, and may be replaced as well
_inside = operator.attrgetter(*_INSIDE)


class _Owner(NamedTuple):
    """What has named parts: a module, a class, a registry, or an object that is called, such as `jax.nn.relu`."""

    value: Any
    name: str

    @property
    def parts(self) -> Mapping[Any, Any]:
        return self.value if isinstance(self.value, dict) else vars(self.value)


class _Change(NamedTuple):
    owner: _Owner
    name: Any
    before: Any  # `_MISSING` if it had none of its own
    now: Any

    def undo(self) -> None:
        if isinstance(self.owner.value, dict):
            self.owner.value[self.name] = self.before
        elif self.before is _MISSING:
            delattr(self.owner.value, self.name)
        else:
            setattr(self.owner.value, self.name, self.before)


class Attributes:
    """The attributes of modules, and of classes, registries and objects in them, as they were when they were seen."""

    def __init__(self, everything: bool = False) -> None:
        """Of modules what is public, of classes all code, of registries and objects what is called; with `everything`
        private functions and constants of classes too, but for `VERSION`, which every row has.

        A None does not count, since a module may fill it later.
        """
        self._everything = everything
        self._held: dict[int, tuple[_Owner, dict[Any, Any]]] = {}  # by id: registries have no hash
        self._sizes: dict[int, int] = {}  # number of attributes of a class
        self._functions: dict[types.FunctionType, tuple[Any, ...]] = {}

    def see(self, modules: Iterable[types.ModuleType]) -> None:
        """Remember modules, and what is in them: the classes that their packages define, registries, objects."""
        waiting = [_Owner(module, _name(module)) for module in modules]
        for owner in waiting:
            if owner.value in self:
                continue
            held = {name: value for name, value in list(owner.parts.items()) if self._counts(owner.value, name, value)}
            self._held[id(owner.value)] = owner, held
            if isinstance(owner.value, type):
                self._sizes[id(owner.value)] = len(owner.parts)
            for name, value in held.items():
                if type(value) is types.FunctionType:
                    self._functions[value] = _inside(value)
                elif isinstance(value, type):
                    if _package(value) == _package(owner.value):
                        waiting.append(_Owner(value, _name(value)))
                elif isinstance(owner.value, types.ModuleType) and _has_parts(value):
                    waiting.append(_Owner(value, f"{owner.name}.{name}"))

    def __contains__(self, value: object) -> bool:
        return id(value) in self._held

    def changed(self) -> dict[str, str]:
        """What stands in the place of what was replaced, in words, by the name of the attribute."""
        functions = {_name(function): "other code or defaults" for function, _ in self._rewritten()}
        return {f"{each.owner.name}.{each.name}": _words(each.now) for each in self._replaced()} | functions

    def put_back(self) -> None:
        for change in list(self._replaced()):
            change.undo()
        for function, inside in list(self._rewritten()):
            for part, value in zip(_INSIDE, inside, strict=True):
                setattr(function, part, value)

    def _replaced(self) -> Iterator[_Change]:
        for owner, held in self._held.values():
            now = owner.parts
            if not all(map(operator.is_, map(now.get, held), held.values())):
                for name, value in held.items():
                    if now.get(name, _MISSING) is not value:
                        yield _Change(owner, name, value, now.get(name, _MISSING))
            if isinstance(owner.value, type) and len(now) != self._sizes[id(owner.value)]:
                # A new attribute in front of one that was inherited; any other is nobody's yet.
                for name, value in list(now.items()):
                    inherited = any(name in vars(base) for base in owner.value.__mro__[1:])
                    if inherited and name not in held and self._counts(owner.value, name, value):
                        yield _Change(owner, name, _MISSING, value)

    def _rewritten(self) -> Iterator[tuple[types.FunctionType, tuple[Any, ...]]]:
        if not all(map(operator.eq, map(_inside, self._functions), self._functions.values())):
            for function, inside in self._functions.items():
                if _inside(function) != inside:
                    yield function, inside

    def _counts(self, owner: Any, name: Any, value: Any) -> bool:
        if isinstance(owner, types.ModuleType):
            public = not name.startswith("_") and value is not None and not (owner is builtins and name in FOR_PEOPLE)
            return public or (self._everything and callable(value))
        if isinstance(owner, type):
            code = callable(value) or hasattr(type(value), "__get__")  # a method, a property, a field of a named tuple
            return code or (self._everything and not name.startswith("_") and name != "VERSION")
        return callable(value)


def _has_parts(value: Any) -> bool:
    return isinstance(value, dict) or (callable(value) and hasattr(value, "__dict__"))


_libraries, _plugins = Attributes(), Attributes(everything=True)
_before_us: dict[str, str] = {}  # what was found replaced in libraries when they were seen first


def changed() -> dict[str, str]:
    """What stands in the place of what was replaced, in words, by the name of the attribute."""
    found = _libraries.changed() | _plugins.changed()
    new = [module for module in of_packages(*LIBRARIES) if module not in _libraries]
    _libraries.see(new)
    _before_us.update(foreign(new, _of_no_library))
    return found | _before_us


def in_sweeper() -> dict[str, str]:
    """What a notebook or a plug-in has put into `sweeper`, in words, by the name of the attribute."""
    return foreign(of_packages("sweeper"), _of_no_library)


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
