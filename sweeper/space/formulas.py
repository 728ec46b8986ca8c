"""Formulas: arithmetic over the entries of a trial, read by the parser of this module and never by Python.

A formula stands where a value may stand, `{formula: 4 * trial.model.width}`; under `exclude` formulas are conditions.
Operators, their precedence and the functions are Python's. A word that is no path is itself, as in YAML, so that
`trial.baseline == AE_R` needs no quotes.

Invariants:
    - A formula has numbers, words, true, false, null and the entries of its own trial, and nothing else.
    - Every value is bounded: integers have 64 bits, and a formula that has no value says why.
    - A real value has 12 significant digits, so that it is the same on every machine. Numbers are compared, divided
      with rest and made whole by these digits, so that 0.1 + 0.2 is 0.3.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sweeper.messages import did_you_mean, nearest_name
from sweeper.space.problems import Refused, shown
from sweeper.space.yaml_tree import MAX_DEPTH, Node, entry_at, joined
from sweeper.trial.field_types import infinity

MAX_TOKENS = 200
"""Most numbers, words and signs of a formula, so that its tree is shallow enough to be walked."""

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
        compared = (part for part in _parts(self.tree) if part[0] in (*_COMPARISONS, "in"))
        sides = ((side, side is part[1]) for part in compared for side in part[1:])
        return [(side[1], left) for side, left in sides if side[0] == "value" and isinstance(side[1], str)]


def _parts(tree: Tree) -> Iterator[Tree]:
    """The operation, and those that its operands are."""
    yield tree
    if tree[0] not in ("value", "entry"):
        for operand in tree[1:]:
            yield from _parts(operand)


def parsed(node: Node, instead: str = "") -> Node:
    """The node with the formula that it holds as its value; refused, with the place in the text, if it holds none.

    `instead` says what to write for a value that is no text.
    """
    if isinstance(node.value, bool | int | float):
        return replace(node, value=Formula(str(node.value), ("value", node.value)))
    if not isinstance(node.value, str):
        raise Refused(node.path, f"expected a formula, got {shown(node.value)}{instead}", node.where)
    try:
        return replace(node, value=Formula(node.value, _Parser(node.value).whole()))
    except _NoValue as error:
        raise Refused(node.path, str(error), node.where) from None


class _NoValue(Exception):
    """A formula cannot be read, or has no value."""


# Text

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?)
    |(?P<word>[A-Za-z_]\w*(\.[A-Za-z_]\w*|\[\d{1,6}\])*)
    |(?P<text>'[^']*'|"[^"]*")
    |(?P<sign>\*\*|//|[<>=!]=|&&|\|\||[-+*/%<>(),\[\]=!^&|?:]))""",
    re.VERBOSE,
)
_STEP = re.compile(r"([A-Za-z_]\w*)|\[(\d+)\]")
_CONSTANTS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None, "inf": math.inf}
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_INSTEAD = {"=": "==", "&&": "and", "&": "and", "||": "or", "|": "or", "!": "not", "^": "**"}
_EXAMPLE = "trial.model.width"


class _Parser:
    """Reads one formula by recursive descent."""

    def __init__(self, text: str):
        self._tokens: list[tuple[str, str]] = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise _NoValue(f"cannot be read from {shown(text[at:].strip())} on")
            kind = next(kind for kind in ("number", "word", "text", "sign") if match[kind] is not None)
            self._tokens.append((kind, match[kind]))
            if len(self._tokens) > MAX_TOKENS:
                raise _NoValue(f"a formula has at most {MAX_TOKENS} numbers, words and signs")
            at = match.end()
        self._at, self._depth = 0, 0

    def whole(self) -> Tree:
        tree = self._either()
        if self._at < len(self._tokens):
            raise self._unexpected()
        return tree

    @property
    def _next(self) -> str | None:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else None

    def _taken(self, *texts: str) -> str | None:
        """The next token if it is one of these, which is passed then."""
        if self._next not in texts or self._tokens[self._at][0] == "text":
            return None
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _require(self, text: str) -> None:
        if not self._taken(text):
            raise self._unexpected(f"'{text}'")

    def _unexpected(self, expected: str = "a value") -> _NoValue:
        found = self._next
        if found in _INSTEAD:
            return _NoValue(f"'{found}' is written {_INSTEAD[found]}")
        if found in ("?", "if", "else"):
            return _NoValue("a formula has no conditions; use variants, or a choice of whole records")
        return _NoValue("ends too early" if found is None else f"expected {expected}, or the end, before '{found}'")

    def _deeper(self, read: Callable[[], Tree]) -> Tree:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _NoValue(f"nested deeper than {MAX_DEPTH} levels")
        tree = read()
        self._depth -= 1
        return tree

    def _from_left(self, signs: Sequence[str], operand: Callable[[], Tree]) -> Tree:
        """Operators of one precedence between operands, from the left."""
        tree = operand()
        while sign := self._taken(*signs):
            tree = sign, tree, operand()
        return tree

    def _either(self) -> Tree:
        return self._from_left(("or",), lambda: self._from_left(("and",), self._negated))

    def _negated(self) -> Tree:
        return ("not", self._deeper(self._negated)) if self._taken("not") else self._compared()

    def _compared(self) -> Tree:
        """A sum, or a chain such as `1 < x <= 3`, which holds if each of its links does."""
        left = self._sum()
        links: list[Tree] = []
        while self._at < len(self._tokens):
            if sign := self._taken(*_COMPARISONS):
                right = self._sum()
                links.append((sign, left, right))
                left = right
            elif self._next in ("in", "not"):
                negated = self._taken("not")
                self._require("in")
                self._require("[")
                link: Tree = ("in", left, *self._listed("]"))
                links.append(("not", link) if negated else link)
            else:
                break
        tree = links[0] if links else left
        for link in links[1:]:
            tree = "and", tree, link
        return tree

    def _listed(self, end: str) -> list[Tree]:
        items = [self._deeper(self._either)]
        while self._taken(","):
            items.append(self._deeper(self._either))
        self._require(end)
        return items

    def _sum(self) -> Tree:
        return self._from_left("+-", lambda: self._from_left(("*", "/", "//", "%"), self._signed))

    def _signed(self) -> Tree:
        if self._taken("-"):
            return "-", ("value", 0), self._deeper(self._signed)
        return self._power()

    def _power(self) -> Tree:
        base = self._value()
        return ("**", base, self._deeper(self._signed)) if self._taken("**") else base

    def _value(self) -> Tree:
        if self._taken("("):
            tree = self._deeper(self._either)
            self._require(")")
            return tree
        if self._at == len(self._tokens):
            raise self._unexpected()
        kind, text = self._tokens[self._at]
        if kind == "sign":
            raise self._unexpected()
        self._at += 1
        if kind == "number":
            whole = not re.search(r"[.eE]", text)
            return "value", _bounded(int(text) if whole and len(text) < 20 else float(text))
        if kind == "text":
            return "value", text[1:-1]
        if self._taken("("):
            if text not in _FUNCTIONS:
                raise _NoValue(f"there is no function {text} (known: {', '.join(_FUNCTIONS)})")
            return text, *self._listed(")")
        if text in _CONSTANTS:
            return "value", _CONSTANTS[text]
        if text.startswith(("trial.", "trial[")):
            return "entry", tuple(key or int(index) for key, index in _STEP.findall(text))[1:]
        if re.search(r"[.\[]", text) or text == "trial":
            raise _NoValue(f"'{text}' is no path; an entry is written from the top, such as {_EXAMPLE}")
        return "value", text


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
