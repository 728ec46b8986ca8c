"""Formulas: arithmetic over the entries of a trial, read by Python's parser and computed by this module.

A formula stands where a value may stand, `{formula: 4 * trial.model.width}`; under `exclude` formulas are conditions.
Operators, their precedence and the functions are Python's, and nothing is evaluated by Python. A word that is no path
is itself, as in YAML, so that `trial.baseline == AE_R` needs no quotes.

Invariants:
    - A formula has numbers, words, true, false, null and the entries of its own trial, and nothing else.
    - Every value is bounded: integers have 64 bits, and a formula that has no value says why.
    - A real value has 12 significant digits, so that it is the same on every machine. Numbers are compared, divided
      with rest and made whole by these digits, so that 0.1 + 0.2 is 0.3.
"""

import ast
import itertools
import math
import operator
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sweeper.messages import did_you_mean, nearest_name
from sweeper.space.problems import Refused, shown
from sweeper.space.yaml_tree import Node, entry_at, joined
from sweeper.trial.field_types import infinity

MAX_CHARACTERS, MAX_OPERATIONS = 2_000, 100
"""Most characters of a formula, and most of its operations inside each other: the tree is walked by recursion."""

SIGNIFICANT_DIGITS = 12

Tree = tuple[Any, ...]
"""What a formula computes: the name of an operation, and its operands, which are trees, values or paths."""


@dataclass(frozen=True, slots=True)
class Formula:
    """A value that follows from others of its trial."""

    text: str  # as written
    tree: Tree

    @property
    def entries(self) -> list[tuple[str | int, ...]]:
        """The places in the trial that the formula names, by keys and indices."""
        return [part[1] for part in _parts(self.tree) if part[0] == "entry"]

    @property
    def words(self) -> list[tuple[str, bool]]:
        """The words that are compared with something, and whether they stand to the left of the comparison."""
        compared = (part for part in _parts(self.tree) if part[0] in (*_COMPARED.values(), "in"))
        sides = ((side, side is part[1]) for part in compared for side in part[1:])
        return [(side[1], left) for side, left in sides if side[0] == "value" and isinstance(side[1], str)]


def _parts(tree: Tree) -> Iterator[Tree]:
    """The operation, and those that its operands are."""
    yield tree
    if tree[0] not in ("value", "entry"):
        for operand in tree[1:]:
            yield from _parts(operand)


def parsed(node: Node) -> Node:
    """The node with the formula that it holds as its value; refused, with the place in the text, if it holds none."""
    if isinstance(node.value, bool | int | float):
        return replace(node, value=Formula(str(node.value), ("value", node.value)))
    if not isinstance(node.value, str):
        raise Refused(node.path, f"expected a formula, got {shown(node.value)}", node.where)
    try:
        return replace(node, value=Formula(node.value, _read(node.value)))
    except _NoValue as error:
        raise Refused(node.path, str(error), node.where) from None


class _NoValue(Exception):
    """A formula cannot be read, or has no value."""


# Text

_CONSTANTS = {"true": True, "false": False, "null": None, "inf": math.inf}
_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
}  # fmt: skip
_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_ELSEWHERE = re.compile(r"&&?|\|\|?|\^|(?<![<>=!])=(?!=)|!(?!=)|\?|\bif\b")
"""Signs and words of other languages, or of Python's statements, that a formula has not."""
_INSTEAD = {"=": "==", "&&": "and", "&": "and", "||": "or", "|": "or", "!": "not", "^": "**"}
_EXAMPLE = "trial.model.width"


def _read(text: str) -> Tree:
    """What a text computes, read by Python's parser."""
    line = re.sub(r"\s+", " ", text).strip()
    if len(line) > MAX_CHARACTERS:
        raise _NoValue(f"a formula has at most {MAX_CHARACTERS:,} characters")
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", line)
    if "#" in bare:  # which Python would pass over
        raise _NoValue(f"cannot be read from {shown(bare[bare.index('#') :])} on")
    if found := _ELSEWHERE.search(bare):
        if (instead := _INSTEAD.get(found[0])) is None:
            raise _NoValue("a formula has no conditions; use variants, or a choice of whole records")
        raise _NoValue(f"'{found[0]}' is written {instead}")
    try:
        with warnings.catch_warnings(action="ignore"):  # such as 1 is 1, which is refused below
            return _tree(ast.parse(line, mode="eval").body)
    except SyntaxError as error:
        raise _NoValue(f"cannot be read from {shown(line[(error.offset or 1) - 1 :])} on") from None
    except (MemoryError, RecursionError, ValueError):  # ValueError: a byte of 0
        raise _NoValue("cannot be read") from None


def _tree(node: ast.expr, depth: int = 0) -> Tree:
    if depth > MAX_OPERATIONS:
        raise _NoValue(f"has more than {MAX_OPERATIONS} operations inside each other")

    def below(operand: ast.expr) -> Tree:
        return _tree(operand, depth + 1)

    match node:
        case ast.Constant(bool() | int() | float() | str() | None as value):
            return "value", _bounded(value)
        case ast.Name(name) if name != "trial":
            return "value", _CONSTANTS.get(name, name)
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return "entry", _location(node)
        case ast.BoolOp(op, operands):
            return "and" if isinstance(op, ast.And) else "or", *map(below, operands)
        case ast.UnaryOp(ast.Not(), operand):
            return "not", below(operand)
        case ast.UnaryOp(ast.USub(), operand):
            return "-", ("value", 0), below(operand)
        case ast.BinOp(left, op, right) if type(op) in _BINARY:
            return _BINARY[type(op)], below(left), below(right)
        case ast.Compare(first, ops, others):
            pairs = itertools.pairwise([first, *others])
            links = [_link(op, below(left), right, below) for op, (left, right) in zip(ops, pairs, strict=True)]
            return links[0] if len(links) == 1 else ("and", *links)
        case ast.Call(called, arguments, []):
            if (name := ast.unparse(called)) not in _FUNCTIONS:
                raise _NoValue(f"there is no function {name} (known: {', '.join(_FUNCTIONS)})")
            return name, *map(below, arguments)
    raise _NoValue(f"cannot be read from {shown(ast.unparse(node))} on")


def _link(op: ast.cmpop, left: Tree, right: ast.expr, below: Callable[[ast.expr], Tree]) -> Tree:
    """A comparison of two values, or of a value with a list."""
    match op, right:
        case ast.In(), ast.List([_, *_] as items):
            return "in", left, *map(below, items)
        case ast.NotIn(), ast.List([_, *_] as items):
            return "not", ("in", left, *map(below, items))
        case ((ast.In() | ast.NotIn()), _):
            raise _NoValue(f"expected a list such as [a, b] after in, got {shown(ast.unparse(right))}")
    if type(op) not in _COMPARED:
        raise _NoValue("'is' is written ==")
    return _COMPARED[type(op)], left, below(right)


def _location(node: ast.expr) -> tuple[str | int, ...]:
    """The place in the trial that a path such as `trial.evaluation.votes[0]` names."""
    location: list[str | int] = []
    above = node
    while not isinstance(above, ast.Name):
        match above:
            case ast.Attribute(above, key) | ast.Subscript(above, ast.Constant(int() as key)) if not isinstance(
                key, bool
            ):
                location.append(key)
            case _:
                break
    if not isinstance(above, ast.Name) or above.id != "trial" or not location:
        raise _NoValue(f"'{ast.unparse(node)}' is no path; an entry is written from the top, such as {_EXAMPLE}")
    return tuple(reversed(location))


# Values


def _quotient(left: float, right: float) -> float:
    """Of integers that divide each other an integer, which may stand where an integer belongs."""
    both = isinstance(left, int) and isinstance(right, int)
    return left // right if both and left % right == 0 else left / right


def _power(base: float, exponent: float) -> float:
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1 and exponent > 63:
        raise OverflowError
    return base**exponent


def _whole(value: float) -> float:
    return value if isinstance(value, int) else math.floor(value + 0.5)


def _rounded(value: Any) -> Any:
    """Of a real number its significant digits; any other value as it is."""
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if isinstance(value, float) else value


def _in_decimals(function: Callable[[Any, Any], Any]) -> Callable[[float, float], float]:
    """A division with rest of the digits as written: 0.7 % 0.1 is 0. The quotient is an integer."""

    def divided(left: float, right: float) -> float:
        if isinstance(left, int) and isinstance(right, int):
            return function(left, right)
        result = function(Fraction(repr(left)), Fraction(repr(right)))
        return result if isinstance(result, int) else float(result)

    return divided


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "**": _power,
    "//": _in_decimals(operator.floordiv),
    "%": _in_decimals(operator.mod),
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_BY_DIGITS = ("//", "%", "<", "<=", ">", ">=", "ceil", "floor", "round")
"""Operations that jump, so that their operands are rounded before."""

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "ceil": math.ceil,
    "exp": math.exp,
    "floor": math.floor,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "max": lambda *values: max(values),
    "min": lambda *values: min(values),
    "round": _whole,
    "sqrt": math.sqrt,
}


def _bounded(value: Any) -> Any:
    """The value of a literal or an operation, unless it is too large for an integer of 64 bits."""
    if isinstance(value, int) and abs(value) >= 2**63:
        raise _NoValue("has an integer that is too large")
    return value


def _written(tree: Tree) -> str:
    """How a message on the value of an operand begins."""
    if tree[0] == "entry":
        return f"{path_of(tree[1])} is"
    return "got" if tree[0] == "value" else "a part of the formula is"


def path_of(location: Sequence[str | int]) -> str:
    """The path in messages of a place in the trial."""
    path = "trial"
    for part in location:
        path = f"{path}[{part}]" if isinstance(part, int) else joined(path, part)
    return path


def _number(tree: Tree, entry: Callable[[tuple[str | int, ...]], Any]) -> int | float:
    value = infinity(_computed(tree, entry))
    if isinstance(value, bool) or not isinstance(value, int | float):
        if tree[0] == "value" and isinstance(value, str):
            raise _NoValue(f"'{value}' is a word, not a number; an entry is written from the top, such as {_EXAMPLE}")
        raise _NoValue(f"{_written(tree)} {shown(value)}, not a number")
    return value


def _truth(tree: Tree, entry: Callable[[tuple[str | int, ...]], Any]) -> bool:
    value = _computed(tree, entry)
    if not isinstance(value, bool):
        advice = "; compare it, such as … == 0" if isinstance(value, int | float) else ""
        raise _NoValue(f"a condition is true or false, got {shown(value)}{advice}")
    return value


def _equal(left: Any, right: Any) -> bool:
    left, right = _rounded(infinity(left)), _rounded(infinity(right))
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def _computed(tree: Tree, entry: Callable[[tuple[str | int, ...]], Any]) -> Any:
    match tree:
        case ("value", value):
            return value
        case ("entry", location):
            return entry(location)
        case ("and" | "or", *operands):
            decisive, missing = tree[0] == "or", None
            for operand in operands:
                try:
                    if _truth(operand, entry) is decisive:
                        return decisive
                except MissingEntry as error:  # the other operand may decide
                    missing = error
            if missing is not None:
                raise missing
            return not decisive
        case ("not", operand):
            return not _truth(operand, entry)
        case ("in", operand, *items):
            value = _computed(operand, entry)
            return any(_equal(value, _computed(item, entry)) for item in items)
        case ("==", left, right):
            return _equal(_computed(left, entry), _computed(right, entry))
        case ("!=", left, right):
            return not _equal(_computed(left, entry), _computed(right, entry))
        case (name, *operands):
            function = _ARITHMETIC.get(name) or _FUNCTIONS[name]
            values = [_number(operand, entry) for operand in operands]
            values = list(map(_rounded, values)) if name in _BY_DIGITS else values
            try:
                result = function(*values)
            except ZeroDivisionError:
                raise _NoValue("divides by 0") from None
            except OverflowError:
                raise _NoValue("has a number that is too large") from None
            except TypeError:
                raise _NoValue(f"{name} does not take {len(values)} values") from None
            except ValueError:
                raise _NoValue(f"{name} has no value at {', '.join(map(shown, values))}") from None
            if isinstance(result, complex) or result != result:
                raise _NoValue(f"'{name}' has no real value at {', '.join(map(shown, values))}")
            return _bounded(result)
    raise AssertionError(tree)


# Trees


class MissingEntry(Refused):
    """A formula names an entry that this trial does not have."""


class Resolution:
    """The values of the formulas in a trial without holes."""

    def __init__(self, trial: Node):
        self._trial = trial
        self._open: list[str] = []
        self._values: dict[str, Any] = {}

    def resolved(self, node: Node) -> Node:
        """The node with a value in place of every formula; one without a value is refused, at the formula's place."""
        if isinstance(node.value, Formula):
            return replace(node, value=self._kept(node))
        return node.with_children(map(self.resolved, node.children))

    def _kept(self, node: Node) -> Any:
        if node.path not in self._values:
            if node.path in self._open:
                circle = " → ".join([*self._open[self._open.index(node.path) :], node.path])
                raise Refused(node.path, f"the formula needs its own value: {circle}", node.where)
            self._open.append(node.path)
            try:
                self._values[node.path] = _rounded(self.value(node))
            finally:
                self._open.pop()
        return self._values[node.path]

    def value(self, node: Node) -> Any:
        """The value of a formula in this trial: a number, a word, true, false or None.

        A formula without a value is refused. One that names an entry that the trial lacks raises `MissingEntry`.
        """

        def entry(location: tuple[str | int, ...]) -> Any:
            found = entry_at(self._trial, location)
            if found is None:
                raise MissingEntry(node.path, self._missing(location), node.where)
            if isinstance(found.value, Formula):
                return self._kept(found)
            if isinstance(found.value, dict | list):
                raise _NoValue(f"{path_of(location)} is {shown(found.value)}, no single value")
            return found.value

        try:
            return _computed(node.value.tree, entry)
        except _NoValue as error:
            raise Refused(node.path, f"{shown(node.value.text)}: {error}", node.where) from None
        except RecursionError:
            raise Refused(node.path, "too many formulas need each other", node.where) from None

    def _missing(self, location: tuple[str | int, ...]) -> str:
        above = self._trial
        for depth, part in enumerate(location, start=1):
            if (below := entry_at(above, (part,))) is None:
                known = map(str, above.value) if isinstance(above.value, dict) else ()
                hint = did_you_mean(nearest_name(part, known)) or "; a formula names what the space writes"
                return f"this trial has no {path_of(location[:depth])}{hint}"
            above = below
        raise AssertionError(location)


def resolved(trial: Node) -> Node:
    """A trial without holes, with a value in place of every formula; refused if a formula has no value."""
    return Resolution(trial).resolved(trial)


def exclusion_in(trial: Node, conditions: Iterable[Node]) -> str | None:
    """The text of the first condition that leaves a trial out, which has no holes and no formulas.

    A comparison with an entry that the trial does not have neither holds nor fails: it leaves the trial in, unless the
    other operand of an `and` or an `or` decides. A condition that is neither true nor false is refused.
    """
    for node in conditions:
        try:
            value = Resolution(trial).value(node)
        except MissingEntry:
            continue
        if not isinstance(value, bool):
            advice = f"; write {node.value.text} != 0" if isinstance(value, int | float) else ""
            raise Refused(node.path, f"a condition is true or false, got {shown(value)}{advice}", node.where)
        if value:
            return node.value.text
    return None
