"""Formulas: arithmetic over the entries and variables of a setting, evaluated by Python.

A formula stands where a value may stand, `{formula: 4 * trial.model.width}`; under `exclude` formulas are conditions.
Its text is an expression of Python, whose syntax tree is held against a list of nodes before it is compiled. Paths such
as `trial.model.width` become look-ups in the setting, and a word that is no path is itself, as in YAML, so that
`trial.baseline == AE_R` needs no quotes.

Invariants:
    - A formula reaches numbers, words, true, false, null, the functions below, the entries of its own trial and the
      variables beside it, and nothing else.
    - A real value has 12 significant digits, so that it is the same on every machine. A whole one is an integer, so
      that 8 / 2 may stand where an integer belongs.
"""

import ast
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

from sweeper.messages import instead
from sweeper.space.problems import shown
from sweeper.space.yaml_tree import Node, entry_at, path_of, walk
from sweeper.trial.field_types import infinity

SIGNIFICANT_DIGITS = 12

SECTIONS = ("trial", "variables")
"""The sections of a space that a formula may name entries of."""

Location = tuple[str | int, ...]
"""A place in a setting, by keys and indices; the first is one of `SECTIONS`."""

_FUNCTIONS: Mapping[str, Callable[..., Any]] = {"abs": abs, "max": max, "min": min, "round": round} | {
    name: getattr(math, name) for name in ("ceil", "exp", "floor", "log", "log2", "log10", "sqrt")
}
_CONSTANTS = {"true": True, "false": False, "null": None, "inf": math.inf}
_ALLOWED = (
    ast.Expression, ast.Constant, ast.List, ast.Load, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub,
    ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod,
    ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn,
)  # fmt: skip
"""The nodes that a formula keeps; names, paths, calls and powers become other nodes."""


class NoValue(ValueError):
    """A formula cannot be read, or has no value."""


class Lacking(NoValue):
    """The setting lacks an entry that the formula names."""


class _Checked(ast.NodeTransformer):
    """The tree of a formula with look-ups and bounded powers; `NoValue` for a node that formulas do not have."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, _ALLOWED):
            raise NoValue(f"a formula has no {shown(ast.unparse(node) or type(node).__name__)}")
        return super().generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._entry(node) if node.id in SECTIONS else ast.Constant(_CONSTANTS.get(node.id, node.id))

    def _entry(self, node: ast.expr) -> ast.AST:
        return _call("entry", *map(ast.Constant, _location(node)))

    visit_Attribute = visit_Subscript = _entry

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if (name := ast.unparse(node.func)) not in _FUNCTIONS:
            raise NoValue(f"there is no function {name}{instead(name, _FUNCTIONS)}")
        return _call(name, *map(self.visit, [*node.args, *node.keywords]))

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if isinstance(node.op, ast.Pow):
            return _call("power", self.visit(node.left), self.visit(node.right))
        for operand in (node.left, node.right):
            if isinstance(operand, ast.Name) and operand.id not in _CONSTANTS and operand.id not in SECTIONS:
                raise NoValue(f"{operand.id} is a word; an entry is written from the top, such as trial.steps")
        return self.generic_visit(node)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _location(node: ast.expr) -> Location:
    """The place in a setting that a path such as `trial.model.widths[0]` names."""
    match node:
        case ast.Name(section) if section in SECTIONS:
            return (section,)
        case ast.Attribute(above, key) | ast.Subscript(above, ast.Constant(int() as key)):
            return (*_location(above), key)
    raise NoValue(f"{shown(ast.unparse(node))} is no path; an entry is written from the top, such as trial.model.width")


def _power(base: float, exponent: float) -> float:
    """A power; of integers it is real where it would have more digits than anybody waits for."""
    return (float(base) if exponent > 63 else base) ** exponent


@functools.lru_cache(10_000)
def _compiled(text: str) -> CodeType:
    try:
        tree = ast.parse(" ".join(text.split()), mode="eval")
        return compile(ast.fix_missing_locations(_Checked().visit(tree)), "formula", "eval")
    except SyntaxError as error:
        raise NoValue(f"{shown(text)} cannot be read: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise NoValue(f"{shown(text)} has too many parts inside each other") from None


@dataclass(frozen=True)
class Formula:
    """A value that is computed from other values of its setting. `NoValue` is raised if the text is no formula."""

    text: str

    def __post_init__(self) -> None:
        _compiled(self.text)

    def of(self, setting: Node) -> Any:
        """The value in a setting without holes: a number, a word, true, false or None. `NoValue` if there is none."""

        def entry(*location: str | int) -> Any:
            found = entry_at(setting, location)
            if found is None:
                raise Lacking(f"this setting has no {path_of(location)}{_nearest(setting, location)}")
            if isinstance(found.value, dict | list):
                raise NoValue(f"{path_of(location)} is {shown(found.value)}, no single value")
            return found.value.of(setting) if isinstance(found.value, Formula) else infinity(found.value)

        names = {"__builtins__": {}, "entry": entry, "power": _power, **_FUNCTIONS}
        try:
            value = eval(_compiled(self.text), names)  # noqa: S307  its tree has nodes of the list alone, and no builtins
            if isinstance(value, int) and abs(value) >= 2**63:  # no store has such an integer
                value = float(value)
        except NoValue:
            raise
        except RecursionError:
            raise NoValue(f"{shown(self.text)} needs its own value, by itself or through others") from None
        except (ArithmeticError, TypeError, ValueError) as error:
            raise NoValue(f"{shown(self.text)}: {error}") from None
        if not isinstance(value, str | bool | int | float | None):
            raise NoValue(f"{shown(self.text)} gives {shown(value)}, no number or word")
        if isinstance(value, float):
            value = float(f"{value:.{SIGNIFICANT_DIGITS}g}")
            return int(value) if value.is_integer() and abs(value) < 2**53 else value
        return value


def _nearest(setting: Node, location: Location) -> str:
    """The end of a message about an entry that a setting lacks: what it has where the path leaves it."""
    above, key = setting, location[0]
    for key in location:
        if (below := entry_at(above, [key])) is None:
            break
        above = below
    return instead(key, map(str, above.value)) if isinstance(above.value, dict) else ""


def formulas_in(tree: Node) -> list[Formula]:
    """Every formula, also those inside the entries of choices."""
    return [node.value for node in walk(tree) if isinstance(node.value, Formula)]


def resolved(setting: Node, node: Node | None = None) -> Node:
    """A setting without holes, or a node of it, with values in place of formulas; refused if one has no value."""
    node = node or setting
    if not isinstance(node.value, Formula):
        return node.with_children([resolved(setting, child) for child in node.children])
    try:
        return replace(node, value=node.value.of(setting))
    except NoValue as error:
        raise node.refusal(str(error)) from None


def exclusion_in(setting: Node, conditions: Iterable[Node]) -> str | None:
    """The text of the first condition that leaves a setting out, which has no holes and no formulas.

    A condition that comes to an entry which the setting lacks leaves the setting in.
    """
    for node in conditions:
        try:
            if node.value.of(setting):
                return node.value.text
        except Lacking:
            continue
        except NoValue as error:
            raise node.refusal(str(error)) from None
    return None
