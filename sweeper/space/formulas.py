"""Formulas: arithmetic over entries and variables of a setting, read by Python's parser and computed by this module.

A formula stands where a value may stand, `{formula: 4 * trial.model.width}`; under `exclude` formulas are conditions.
Operators, their precedence and the functions are Python's, and nothing is evaluated by Python. A word that is no path
is itself, as in YAML, so that `trial.experiment.schedule == cosine` needs no quotes.

Invariants:
    - A formula has numbers, words, true, false, null, the entries of its own trial and the variables beside it, and
      nothing else.
    - Every value is bounded: integers have 64 bits, and a formula that has no value says why.
    - A real value has 12 significant digits, so that it is the same on every machine. Numbers are compared, divided
      with rest and made whole by these digits, so that 0.1 + 0.2 is 0.3.
"""

import ast
import functools
import math
import operator
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sweeper.messages import did_you_mean, nearest_name
from sweeper.space.problems import shortened, shown
from sweeper.space.yaml_tree import Node, entry_at, path_of, walk
from sweeper.trial.field_types import infinity

MAX_CHARACTERS, MAX_OPERATIONS = 2_000, 100
"""Most characters of a formula, and most of its operations inside each other: the tree is walked by recursion."""

SIGNIFICANT_DIGITS = 12

SECTIONS = ("trial", "variables")
"""The sections of a space that a formula may name entries of."""

Location = tuple[str | int, ...]
"""A place in a setting, by keys and indices; the first is one of `SECTIONS`."""

Entries = Callable[[Location], Any]
"""The values in a setting, with a `Missing` for an entry that it lacks."""

Computation = Callable[[Entries], Any]
"""What a formula, or a part of one, computes from the entries of a setting."""

_Comparison = tuple[Computation, Callable[[Any, Any], Any]]
"""What the operand to the right computes, and what is computed of the value to the left and of this."""


@dataclass(frozen=True)
class Missing:
    """Stands in place of an entry that a setting lacks.

    A result that needs it is missing too. An `and` or an `or` does not need it if its other side decides.
    """

    location: Location


class NoValue(ValueError):
    """A formula cannot be read, or has no value."""


# Text

_CONSTANTS = {"true": True, "false": False, "null": None, "inf": math.inf}
_ELSEWHERE = re.compile(r"&&?|\|\|?|\^|(?<![<>=!])=(?!=)|!(?!=)|\?|\bif\b")
"""Signs and words of other languages, or of Python's statements, that a formula has not."""
_INSTEAD = {"=": "==", "&&": "and", "&": "and", "||": "or", "|": "or", "!": "not", "^": "**"}
_EXAMPLE = "trial.model.width"


def _syntax_tree(text: str) -> ast.expr:
    """The expression of Python that a text is."""
    line = re.sub(r"\s+", " ", text).strip()
    if len(line) > MAX_CHARACTERS:
        raise NoValue(f"a formula has at most {MAX_CHARACTERS:,} characters")
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", line)
    if "#" in bare:  # which Python would pass over
        raise NoValue(f"cannot be read from {shown(bare[bare.index('#') :])} on")
    if found := _ELSEWHERE.search(bare):
        if (instead := _INSTEAD.get(found[0])) is None:
            raise NoValue("a formula has no conditions; use variants, or a choice of whole records")
        raise NoValue(f"'{found[0]}' is written {instead}")
    try:
        with warnings.catch_warnings(action="ignore"):  # such as 1 is 1, which is refused below
            return ast.parse(line, mode="eval").body
    except SyntaxError as error:
        raise NoValue(f"cannot be read from {shown(line[(error.offset or 1) - 1 :])} on") from None
    except (MemoryError, RecursionError, ValueError):  # ValueError: a byte of 0
        raise NoValue("cannot be read") from None


class Formula:
    """A value that is computed from other values of its setting. `NoValue` is raised if the text is no formula.

    The syntax tree is read in one pass, in which each node becomes what it computes. `NoValue` is
    raised for a node that formulas do not have.
    """

    def __init__(self, written: Any):
        if not isinstance(written, str | bool | int | float):
            raise NoValue(f"expected a formula, got {shown(written)}")
        self.text = written if isinstance(written, str) else shown(written)
        self.entries: list[Location] = []  # the places in the setting that the formula names
        self.words: list[tuple[str, bool]] = []  # those that are compared, and whether to the left of the comparison
        self.value = self._computed(_syntax_tree(self.text))

    def __reduce__(self) -> Any:
        return Formula, (self.text,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def _computed(self, node: ast.expr, depth: int = 0) -> Computation:
        """What a node computes."""
        if depth > MAX_OPERATIONS:
            raise NoValue(f"has more than {MAX_OPERATIONS} operations inside each other")
        below = functools.partial(self._computed, depth=depth + 1)

        def arithmetic(name: str, function: Callable[..., Any], *written: ast.expr) -> Computation:
            applied, operands = _on_numbers(name, function, written), list(map(below, written))
            return lambda entry: applied(*_values(operands, entry))

        match node:
            case ast.Constant(bool() | int() | float() | str() | None as value):
                constant = _bounded(value)
                return lambda entry: constant
            case ast.Name(name) if name not in SECTIONS:
                word = _CONSTANTS.get(name, name)
                return lambda entry: word
            case ast.Name() | ast.Attribute() | ast.Subscript():
                location = _location(node)
                self.entries.append(location)
                return lambda entry: entry(location)
            case ast.BoolOp(op, operands):
                return _connected(isinstance(op, ast.Or), list(map(below, operands)))
            case ast.UnaryOp(ast.Not(), operand):
                condition = below(operand)
                return lambda entry: _negated(condition(entry), True)
            case ast.UnaryOp(ast.USub(), operand):
                return arithmetic("-", operator.neg, operand)
            case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
                return arithmetic(*_OPERATORS[type(op)], left, right)
            case ast.Compare(first, ops, others):
                chain = zip([first, *others], ops, others, strict=False)
                return _compared(below(first), [self._comparison(*each, below) for each in chain])
            case ast.Call(called, arguments, []):
                if (name := ast.unparse(called)) not in _FUNCTIONS:
                    raise NoValue(f"there is no function {name} (known: {', '.join(_FUNCTIONS)})")
                return arithmetic(name, _FUNCTIONS[name], *arguments)
        raise NoValue(f"cannot be read from {shown(ast.unparse(node))} on")

    def _comparison(
        self, left: ast.expr, op: ast.cmpop, right: ast.expr, below: Callable[[ast.expr], Computation]
    ) -> _Comparison:
        """One of a chain: the operand to the right, and what is computed of it and the one to the left."""
        if isinstance(left, ast.List):  # to which the comparison before this one belongs
            raise NoValue(f"cannot be read from {shown(ast.unparse(left))} on")
        members = right.elts if isinstance(right, ast.List) and isinstance(op, ast.In | ast.NotIn) else []
        self.words.extend((name, side is left) for side in (left, *(members or [right])) if (name := _word(side)))
        match op:
            case ast.Is() | ast.IsNot():
                raise NoValue("'is' is written ==")
            case ast.In() | ast.NotIn():
                if not members:
                    raise NoValue(f"expected a list such as [a, b] after in, got {shown(ast.unparse(right))}")
                listed = functools.partial(_values, list(map(below, members)))
                return listed, lambda value, values: _negated(_among(value, values), isinstance(op, ast.NotIn))
            case ast.Eq() | ast.NotEq():
                return below(right), lambda one, other: _negated(_equal(one, other), isinstance(op, ast.NotEq))
        return below(right), _on_numbers(*_OPERATORS[type(op)], [left, right])


def _word(node: ast.expr) -> str | None:
    """The word that a node is, unless it stands for a constant."""
    match node:
        case ast.Constant(str() as word):
            return word
        case ast.Name(word) if word not in SECTIONS and word not in _CONSTANTS:
            return word
    return None


def _location(node: ast.expr) -> Location:
    """The place in a setting that a path such as `trial.model.widths[0]` names."""
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
    if not isinstance(above, ast.Name) or above.id not in SECTIONS or not location:
        raise NoValue(f"'{ast.unparse(node)}' is no path; an entry is written from the top, such as {_EXAMPLE}")
    return above.id, *reversed(location)


# Values


def _connected(decisive: bool, operands: Sequence[Computation]) -> Computation:
    """`or` if true is decisive, `and` if false is."""

    def connected(entry: Entries) -> bool | Missing:
        missing = None
        for operand in operands:
            if (value := _truth(operand(entry))) is decisive:
                return decisive
            missing = value if isinstance(value, Missing) else missing
        return missing or not decisive

    return connected


def _compared(first: Computation, comparisons: Sequence[_Comparison]) -> Computation:
    """A chain of comparisons, which holds if each does; every operand is computed once."""

    def compared(entry: Entries) -> bool | Missing:
        missing, left = None, first(entry)
        for operand, comparison in comparisons:
            right = operand(entry)
            if (holds := comparison(left, right)) is False:
                return False
            missing, left = holds if isinstance(holds, Missing) else missing, right
        return missing or True

    return compared


def _values(operands: Iterable[Computation], entry: Entries) -> Iterator[Any]:
    return (operand(entry) for operand in operands)


def _truth(value: Any) -> bool | Missing:
    if not isinstance(value, bool | Missing):
        advice = "; compare it, such as … == 0" if isinstance(value, int | float) else ""
        raise NoValue(f"a condition is true or false, got {shown(value)}{advice}")
    return value


def _negated(value: Any, negated: bool) -> bool | Missing:
    truth = _truth(value)
    return truth if isinstance(truth, Missing) else truth is not negated


def _on_numbers(name: str, function: Callable[..., Any], written: Sequence[ast.expr]) -> Callable[..., Any]:
    """What a function gives of the values of its operands, as they are written."""

    def applied(*values: Any) -> Any:
        if missing := _missing_in(values):
            return missing
        return _result(name, function, list(map(_number, written, values)))

    return applied


def _missing_in(values: Iterable[Any]) -> Missing | None:
    return next((value for value in values if isinstance(value, Missing)), None)


def _number(written: ast.expr, value: Any) -> int | float:
    value = infinity(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        if _word(written) is not None:
            raise NoValue(f"'{value}' is a word, not a number; an entry is written from the top, such as {_EXAMPLE}")
        raise NoValue(f"{shortened(ast.unparse(written))} is {shown(value)}, not a number")
    return value


def _result(name: str, function: Callable[..., Any], values: Sequence[int | float]) -> Any:
    """What a function of numbers gives, unless the function has no value there."""
    values = list(map(_rounded, values)) if name in _BY_DIGITS else values
    try:
        result = function(*values)
    except ZeroDivisionError:
        raise NoValue("divides by 0") from None
    except OverflowError:
        raise NoValue("has a number that is too large") from None
    except TypeError:
        raise NoValue(f"{name} does not take {len(values)} values") from None
    except ValueError:
        raise NoValue(f"{name} has no value at {', '.join(map(shown, values))}") from None
    if isinstance(result, complex) or result != result:
        raise NoValue(f"'{name}' has no real value at {', '.join(map(shown, values))}")
    return _bounded(result)


def _equal(left: Any, right: Any) -> bool | Missing:
    left, right = _rounded(infinity(left)), _rounded(infinity(right))
    return _missing_in((left, right)) or (isinstance(left, bool) == isinstance(right, bool) and left == right)


def _among(value: Any, others: Iterable[Any]) -> bool | Missing:
    """Whether a value is one of others; none of these is computed after the first that is equal or missing."""
    return next((equal for other in others if (equal := _equal(value, other))), False)


def _bounded(value: Any) -> Any:
    """The value of a literal or an operation, unless it is too large for an integer of 64 bits."""
    if isinstance(value, int) and abs(value) >= 2**63:
        raise NoValue("has an integer that is too large")
    return value


def _rounded(value: Any) -> Any:
    """Of a real number its significant digits; any other value as it is."""
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if isinstance(value, float) else value


def _quotient(left: float, right: float) -> float:
    """Of integers that divide each other an integer, which may stand where an integer belongs."""
    both = isinstance(left, int) and isinstance(right, int)
    return left // right if both and left % right == 0 else left / right


def _power(base: float, exponent: float) -> float:
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1 and exponent > 63:
        raise OverflowError
    return base**exponent


def _in_decimals(function: Callable[[Any, Any], Any]) -> Callable[[float, float], float]:
    """A division with rest of the digits as written: 0.7 % 0.1 is 0. The quotient is an integer."""

    def divided(left: float, right: float) -> float:
        if isinstance(left, int) and isinstance(right, int):
            return function(left, right)
        result = function(Fraction(repr(left)), Fraction(repr(right)))
        return result if isinstance(result, int) else float(result)

    return divided


_OPERATORS: Mapping[type[ast.operator | ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add), ast.Sub: ("-", operator.sub), ast.Mult: ("*", operator.mul),
    ast.Div: ("/", _quotient), ast.Pow: ("**", _power),
    ast.FloorDiv: ("//", _in_decimals(operator.floordiv)), ast.Mod: ("%", _in_decimals(operator.mod)),
    ast.Lt: ("<", operator.lt), ast.LtE: ("<=", operator.le), ast.Gt: (">", operator.gt), ast.GtE: (">=", operator.ge),
}  # fmt: skip
"""Operators of numbers, with their signs."""

_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": abs,
    **{name: getattr(math, name) for name in ("ceil", "exp", "floor", "log", "log2", "log10")},
    "max": lambda *values: max(values),
    "min": lambda *values: min(values),
    "round": lambda value: value if isinstance(value, int) else math.floor(value + 0.5),
    "sqrt": math.sqrt,
}
_BY_DIGITS = ("//", "%", "<", "<=", ">", ">=", "ceil", "floor", "round")
"""Operations that jump, so that their operands are rounded before."""


# Trees


def formulas_in(tree: Node) -> list[Formula]:
    """Every formula, also those inside the entries of choices."""
    return [node.value for node in walk(tree) if isinstance(node.value, Formula)]


class Resolution:
    """The values of the formulas in a setting without holes, the tree with its `SECTIONS`."""

    def __init__(self, setting: Node):
        self._setting = setting
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
                raise node.refusal(f"the formula needs its own value: {circle}")
            self._open.append(node.path)
            value = self.value(node)
            if isinstance(value, Missing):
                raise node.refusal(self._lacked(value.location))
            self._open.pop()
            self._values[node.path] = _rounded(value)
        return self._values[node.path]

    def value(self, node: Node) -> Any:
        """The value of a formula in this setting: a number, a word, true, false, None, or `Missing`.

        A formula without a value is refused.
        """

        def entry(location: Location) -> Any:
            found = entry_at(self._setting, location)
            if found is None:
                return Missing(location)
            if isinstance(found.value, Formula):
                return self._kept(found)
            if isinstance(found.value, dict | list):
                raise NoValue(f"{path_of(location)} is {shown(found.value)}, no single value")
            return found.value

        try:
            return node.value.value(entry)
        except NoValue as error:
            raise node.refusal(f"{shown(node.value.text)}: {error}") from None
        except RecursionError:
            raise node.refusal("too many formulas need each other") from None

    def _lacked(self, location: Location) -> str:
        above, depth = self._setting, 0
        while (below := entry_at(above, location[depth : depth + 1])) is not None:
            above, depth = below, depth + 1
        known = map(str, above.value) if isinstance(above.value, dict) else ()
        hint = did_you_mean(nearest_name(location[depth], known)) or "; a formula names what the space writes"
        return f"this setting has no {path_of(location[: depth + 1])}{hint}"


def resolved(setting: Node) -> Node:
    """A setting without holes, with a value in place of every formula; refused if a formula has no value."""
    return Resolution(setting).resolved(setting)


def exclusion_in(setting: Node, conditions: Iterable[Node]) -> str | None:
    """The text of the first condition that leaves a setting out, which has no holes and no formulas.

    A comparison with an entry that the setting lacks neither holds nor fails: it leaves the setting in, unless the
    other operand of an `and` or an `or` decides. A condition that is neither true nor false is refused.
    """
    for node in conditions:
        value = Resolution(setting).value(node)
        if isinstance(value, Missing):
            continue
        if not isinstance(value, bool):
            advice = f"; write {node.value.text} != 0" if isinstance(value, int | float) else ""
            raise node.refusal(f"a condition is true or false, got {shown(value)}{advice}")
        if value:
            return node.value.text
    return None
