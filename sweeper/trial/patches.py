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


class _Seen(NamedTuple):
    """What has named parts: a module, a class, a registry, or an object that is called, such as `jax.nn.relu`."""

    owner: Any
    name: str
    parts: Mapping[Any, Any]  # as they are now
    before: dict[Any, Any]  # those that count, as they were
    size: int  # how many parts there were


class Attributes:
    """The attributes of modules, and of classes, registries and objects in them, as they were when they were seen."""

    def __init__(self, everything: bool = False) -> None:
        """Of modules what is public, of classes all code, of registries and objects what is called; with `everything`
        private functions and constants of classes too, but for `VERSION`, which every row has.

        A None does not count, since a module may fill it later.
        """
        self._everything = everything
        self._seen: dict[int, _Seen] = {}  # by id: registries have no hash
        self._functions: dict[types.FunctionType, tuple[Any, ...]] = {}

    def see(self, modules: Iterable[types.ModuleType]) -> None:
        """Remember modules, and what is in them: the classes that their packages define, registries, objects."""
        waiting: list[tuple[Any, str]] = [(module, _name(module)) for module in modules]
        for owner, owner_name in waiting:
            if owner in self:
                continue
            parts = owner if isinstance(owner, dict) else vars(owner)
            before = {name: value for name, value in list(parts.items()) if self._counts(owner, name, value)}
            self._seen[id(owner)] = _Seen(owner, owner_name, parts, before, len(parts))
            for name, value in before.items():
                if type(value) is types.FunctionType:
                    self._functions[value] = _inside(value)
                elif isinstance(value, type):
                    if _name(value).partition(".")[0] == owner_name.partition(".")[0]:
                        waiting.append((value, _name(value)))
                elif isinstance(owner, types.ModuleType) and _has_parts(value):
                    waiting.append((value, f"{owner_name}.{name}"))

    def __contains__(self, value: object) -> bool:
        return id(value) in self._seen

    def changed(self) -> dict[str, str]:
        """What stands in the place of what was replaced, in words, by the name of the attribute."""
        replaced = {f"{seen.name}.{name}": _words(seen.parts.get(name, _MISSING)) for seen, name in self._replaced()}
        return replaced | {_name(function): "other code or defaults" for function in self._rewritten()}

    def put_back(self) -> None:
        for seen, name in list(self._replaced()):
            if isinstance(seen.owner, dict):
                seen.owner[name] = seen.before[name]
            elif name in seen.before:
                setattr(seen.owner, name, seen.before[name])
            else:
                delattr(seen.owner, name)
        for function in list(self._rewritten()):
            for part, value in zip(_INSIDE, self._functions[function], strict=True):
                setattr(function, part, value)

    def _replaced(self) -> Iterator[tuple[_Seen, Any]]:
        """Owner and name of each part that is not as before, or stands in front of an inherited one."""
        for seen in self._seen.values():
            owner, _, parts, before, size = seen
            if not all(map(operator.is_, map(parts.get, before), before.values())):
                yield from ((seen, name) for name, value in before.items() if parts.get(name, _MISSING) is not value)
            if isinstance(owner, type) and len(parts) != size:
                for name, value in list(parts.items()):
                    inherited = any(name in vars(base) for base in owner.__mro__[1:])  # any other is nobody's yet
                    if inherited and name not in before and self._counts(owner, name, value):
                        yield seen, name

    def _rewritten(self) -> Iterator[types.FunctionType]:
        if not all(map(operator.eq, map(_inside, self._functions), self._functions.values())):
            yield from (function for function, inside in self._functions.items() if _inside(function) != inside)

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


_libraries, of_plug_ins = Attributes(), Attributes(everything=True)
_before_us: dict[str, str] = {}  # what was found replaced in libraries when they were seen first


def changed() -> dict[str, str]:
    """What stands in the place of what was replaced, in words, by the name of the attribute."""
    found = _libraries.changed() | of_plug_ins.changed()
    new = [module for module in of_packages(*LIBRARIES) if module not in _libraries]
    _libraries.see(new)
    _before_us.update(foreign(new))
    return found | _before_us


def in_sweeper() -> dict[str, str]:
    """What a notebook or a plug-in has put into `sweeper`, in words, by the name of the attribute."""
    return foreign(of_packages("sweeper"))


def put_back() -> None:
    """Undo all replacements since they were imported."""
    _libraries.put_back()
    of_plug_ins.put_back()


def _of_no_library(value: Any) -> bool:
    module = getattr(value, "__module__", None)
    return isinstance(module, str) and module.startswith(FOREIGN)


def foreign(modules: Iterable[types.ModuleType], strange: Callable[[Any], bool] = _of_no_library) -> dict[str, str]:
    """What is `strange` in modules and in the classes that these define, in words, by the name of the attribute.

    Strange in a library, and in this package, is what a notebook or a plug-in defines.
    """
    found = dict[str, str]()
    for module in modules:
        values = list(vars(module).values())
        classes = [value for value in values if isinstance(value, type) and value.__module__ == module.__name__]
        for owner in (module, *classes):
            for name, value in list(vars(owner).items()):
                if strange(value):
                    found[f"{_name(owner)}.{name}"] = _words(value)
    return found


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
