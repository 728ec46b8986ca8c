"""A trial with holes is a tree in which some values are left open; grids, draws and checks are walks over the tree.

A choice may hold whole records, and these may have holes of their own. So the size of a grid is a sum over the entries
of a choice and a product over the keys of a mapping. A hole is named by its path in the document, which is unique. The
formulas of a tree (`formulas`) are no holes: they have a value as soon as the tree is filled.

Invariants:
    - Each value of a filled tree has the path of its hole and of its entry.
    - The order of keys changes the order of a grid and nothing else.
    - `probes` contains every value of every axis, and has as many trees as the axes have values together; the grid has
      as many as the product.
"""

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from sweeper.space import formulas, other_tools
from sweeper.space.formulas import Formula
from sweeper.space.problems import Problem, Refused, shown
from sweeper.space.yaml_tree import MAX_NODES, RESERVED, Node, is_number, plain, signature

MAX_SETTINGS = 1_000_000
SIGNIFICANT_DIGITS = 6

LEAST_QUANTILE = 2.0**-53
"""The least quantile of a normal distribution that is drawn: 8.2 standard deviations below the mean."""

RANGES = ("uniform", "log_uniform", "int", "normal", "log_normal")
"""Holes that are drawn; a grid takes those with a step."""

SPACED = ("linspace", "logspace")
"""Holes with numbers at equal distances between two ends."""

OPTIONS = {"uniform": ("step",), "int": ("step", "log")}
"""What may stand beside the key that opens a hole."""


Kind = Literal[
    "choice", "each", "uniform", "log_uniform", "int", "normal", "log_normal", "linspace", "logspace", "seeds"
]


@dataclass(frozen=True, slots=True)
class Hole:
    """A value that is left open.

    `options` are the entries of a choice, which may have holes themselves; the numbers of a spaced hole; the two ends
    of a range; mean and standard deviation; the number of seeds.
    """

    kind: Kind
    options: Sequence[Node]
    step: int | float | None = None  # between the values of a range; None if every value of the range is possible
    log: bool = False  # whether integers are drawn uniformly in their logarithm

    @property
    def indexed(self) -> bool:
        """Whether the hole is one of its options, and a setting holds the index."""
        return self.kind in ("choice", *SPACED)

    @property
    def drawn(self) -> bool:
        """Whether a search that draws settings draws this hole, and does not take it in full."""
        return self.kind not in ("seeds", "each")

    @property
    def logarithmic(self) -> bool:
        """Whether the hole is uniform, or symmetric, on a logarithmic scale."""
        return self.log or self.kind in ("log_uniform", "log_normal", "logspace")

    @property
    def last(self) -> int:
        """The number of the last step of a range with steps, counted from 0 at the lower end."""
        low, high = (Fraction(repr(end.value)) for end in self.options)
        return int((high - low) / Fraction(repr(self.step)))

    def at(self, number: int) -> Node:
        """The value of a range with steps after so many steps: a sum in decimals, equal on every machine."""
        low, high = self.options
        value = Fraction(repr(low.value)) + number * Fraction(repr(self.step))
        return replace(low if number < self.last else high, value=int(value) if self.kind == "int" else float(value))


def _rounded(value: Any) -> float:
    """Few digits are the same on every machine, although logarithms round differently, and legible in every table."""
    return float(f"{float(value):.{SIGNIFICANT_DIGITS}g}")


def with_holes(trial: Node, problems: list[Problem]) -> Node:
    """The trial with a `Hole` or a `Formula` for every mapping that opens one; `problems` gets those that cannot."""
    kinds = {"seed": (*RESERVED, "seeds")}
    entries = trial.value.items()
    return trial.with_children([_opened(entry, kinds.get(key, RESERVED), problems) for key, entry in entries])


def _opened(node: Node, kinds: Sequence[str], problems: list[Problem]) -> Node:
    """The node with holes; `kinds` may open one at its top, those of `RESERVED` anywhere."""
    opening = [key for key in node.value if key in kinds] if isinstance(node.value, dict) else []
    if not opening:
        return node.with_children([_opened(child, RESERVED, problems) for child in node.children])
    kind = opening[0]
    content, beside = node.value[kind], {key: entry for key, entry in node.value.items() if key != kind}
    try:
        _refuse_beside(node, kind, beside)
        if kind == "formula":
            return formulas.parsed(content)
        return replace(node, value=_hole(kind, content, beside, kinds, problems))
    except Refused as refused:
        problems.append(refused.problem)
        return node


def _refuse_beside(node: Node, kind: str, beside: Mapping[Any, Node]) -> None:
    """Refuse keys beside the key of a hole that the hole does not know."""
    allowed = OPTIONS.get(kind, ())
    for key, entry in beside.items():
        if key not in allowed:
            words = other_tools.hint({key: None})
            known = " and ".join(f"'{option}'" for option in allowed)
            default = f"'{kind}' may have {known} beside it" if known else "a hole has one key and nothing beside it"
            names = ", ".join(f"'{other}'" for other in node.value)
            raise Refused(node.path, f"{default}, not {names}{words}", entry.where)


def _hole(kind: Any, content: Node, beside: Mapping[Any, Node], kinds: Sequence[str], problems: list[Problem]) -> Hole:
    value = content.value
    if kind == "seeds":
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise _refused(content, f"expected the number of training seeds, 1 or more, got {shown(value)}")
        if value > MAX_SETTINGS:
            raise _refused(content, f"must be at most {MAX_SETTINGS:,} training seeds, got {value:,}")
        return Hole("seeds", [content])
    if kind == "each" and isinstance(value, dict) and any(key in (*SPACED, *OPTIONS) for key in value):
        inner = _opened(content, kinds, problems).value
        if not isinstance(inner, Hole) or inner.kind in SPACED:
            return Hole("each", inner.options if isinstance(inner, Hole) else [content])
        if inner.step is None or inner.last >= MAX_NODES:
            raise _refused(content, f"a range that is taken in full needs a step, and has at most {MAX_NODES:,} values")
        return Hole("each", [inner.at(number) for number in range(inner.last + 1)])
    if not isinstance(value, list):
        what = " of two ends" if kind in RANGES else " [first, last, number]" if kind in SPACED else ""
        raise _refused(content, f"expected a list{what}, got {shown(value)}{other_tools.hint(plain(content))}")
    if kind in ("choice", "each"):
        if not value:
            raise _refused(content, "the axis is empty")
        seen: dict[Any, Node] = {}
        for option in value:
            if (earlier := seen.setdefault(signature(option), option)) is not option:
                raise _refused(option, f"repeats {earlier.path} ({shown(option.value)})")
        return Hole(kind, [_opened(option, kinds, problems) for option in value])
    _require_ends(kind, content)
    if kind in SPACED:
        return Hole(kind, _spaced(kind, content))
    step, log = _step_and_scale(kind, content, beside)
    ends = value if kind == "int" else [replace(end, value=float(end.value)) for end in value]
    return Hole(kind, ends, step, log)


def _refused(node: Node, message: str) -> Refused:
    return Refused(node.path, message, node.where)


def _require_ends(kind: str, content: Node) -> None:
    """Refuse a list that does not hold what a range, a normal distribution or a spaced hole needs."""
    bell = kind in ("normal", "log_normal")
    what = "a mean and a standard deviation" if bell else "two ends"
    what, count = ("first, last and number of values", 3) if kind in SPACED else (what, 2)
    if len(content.value) != count:
        raise _refused(content, f"expected a list of {what}, got {len(content.value)}")
    low, high = content.value[:2]
    for end in (low, high):
        if not is_number(end.value) or not math.isfinite(end.value):
            name = "a mean or a standard deviation" if bell else "the end of a range"
            advice = "; a formula is no end: draw the entry alone, and use it in the formula of another"
            hint = advice if isinstance(end.value, dict) and "formula" in end.value else ""
            raise _refused(end, f"{name} must be a finite number, got {shown(end.value)}{hint}")
        if kind == "int" and not isinstance(end.value, int):
            raise _refused(end, f"expected an integer, got {shown(end.value)}")
        if kind == "int" and abs(end.value) > 2**53:
            raise _refused(end, f"the end of a range must be at most 2^53, got {shown(end.value)}")
        if kind in ("log_uniform", "logspace") and end.value <= 0:
            advice = "; ends are the values themselves, not exponents" if kind == "logspace" else ""
            raise _refused(end, f"must be above 0 on a logarithmic scale, got {shown(end.value)}{advice}")
    if bell and high.value <= 0:
        raise _refused(high, f"the standard deviation must be above 0, got {shown(high.value)}")
    if kind == "log_normal" and abs(low.value) + 10 * high.value > math.log(float(2**1000)):
        raise _refused(content, "is mean and standard deviation of the logarithm, which cannot be so large")
    if not bell and low.value == high.value:
        raise _refused(content, f"both ends are {shown(low.value)}; write the value itself")
    if not bell and low.value > high.value and kind not in SPACED:
        raise _refused(content, f"the range is upside down: {shown(low.value)} is above {shown(high.value)}")


def _step_and_scale(kind: str, content: Node, beside: Mapping[Any, Node]) -> tuple[Any, bool]:
    """What stands beside a range: its step, or None, and whether it is logarithmic."""
    low, high = content.value
    step, log = None, False
    if "step" in beside:
        step = beside["step"].value
        fits = is_number(step) and (kind != "int" or isinstance(step, int))
        if not fits or not 0 < step < math.inf:
            number = "an integer" if kind == "int" else "a number"
            raise _refused(beside["step"], f"expected {number} above 0, got {shown(step)}")
        if step > high.value - low.value:
            raise _refused(beside["step"], f"{shown(step)} is longer than the range")
        if kind != "int" and max(abs(low.value), abs(high.value)) > 1e15 * step:
            raise _refused(beside["step"], f"{shown(step)} is so short that numbers of 15 digits do not show it")
    if "log" in beside:
        log = beside["log"].value
        if not isinstance(log, bool):
            raise _refused(beside["log"], f"expected true or false, got {shown(log)}")
        if log and step is not None:
            raise _refused(beside["log"], "integers have a step or a logarithmic scale; for both write logspace")
        if log and low.value < 1:
            raise _refused(low, f"must be above 0 on a logarithmic scale, got {shown(low.value)}")
    return step, log


def _spaced(kind: str, content: Node) -> list[Node]:
    """The numbers of a `linspace` or `logspace`, both ends included; integers if all of them are whole."""
    first, last, number = content.value
    low, high, count = first.value, last.value, number.value
    if not isinstance(count, int) or isinstance(count, bool) or not 2 <= count <= MAX_NODES:
        raise _refused(number, f"expected how many values there are, 2 to {MAX_NODES:,}, got {shown(count)}")
    if kind == "linspace":
        start, length = Fraction(repr(low)), Fraction(repr(high)) - Fraction(repr(low))
        exact = [start + length * i / (count - 1) for i in range(1, count - 1)]
        inner = [int(value) if value.denominator == 1 else _rounded(value) for value in exact]
    else:
        start, length = math.log(low), math.log(high) - math.log(low)
        inner = [_rounded(math.exp(start + length * i / (count - 1))) for i in range(1, count - 1)]
    values = [low, *inner, high]
    whole = isinstance(low, int) and isinstance(high, int) and all(float(value).is_integer() for value in values)
    values = list(map(int if whole else float, values))
    if len(set(values)) < count:
        raise _refused(number, f"{count:,} values between {shown(low)} and {shown(high)} are not all different")
    return [Node(value, content.path, number.where) for value in values]


def holes_in(node: Node, chosen: bool = True) -> Iterator[Node]:
    """Every hole; `chosen` says whether those inside the entries of choices are included."""
    below: Iterable[Node] = node.children
    if isinstance(node.value, Hole):
        yield node
        below = node.value.options if node.value.kind == "each" or (chosen and node.value.kind == "choice") else ()
    for each in below:
        yield from holes_in(each, chosen)


def has_formula(node: Node) -> bool:
    """Whether a value of the tree is a formula."""
    below = node.value.options if isinstance(node.value, Hole) else node.children
    return isinstance(node.value, Formula) or any(map(has_formula, below))


def grid_size(node: Node, draws: bool = False) -> int:
    """Number of settings of the grid; of a search that draws, the most trees that one of its settings stands for."""
    match node.value:
        case Hole(kind="choice", options=options) if draws:
            return max(grid_size(option, draws) for option in options)
        case Hole(kind="choice" | "each", options=options):
            return sum(grid_size(option, draws) for option in options)
        case Hole(kind="seeds", options=[count]):
            return count.value
        case Hole() if draws:
            return 1
        case Hole(step=step) as hole if step is not None:
            return hole.last + 1
        case Hole(options=options):
            return len(options)
        case _:
            return math.prod(grid_size(child, draws) for child in node.children)


def probes(node: Node) -> Iterator[Node]:
    """Filled trees that together hold every constant, every entry of every choice and both ends of every range.

    There are as many trees as the axes have values together. Of training seeds only the largest is probed: when it is
    legal, all smaller seeds are legal. Of a normal distribution, which has no ends, its median is probed.
    """
    match node.value:
        case Hole(kind="choice" | "each", options=options):
            for option in options:
                yield from probes(option)
        case Hole(kind="seeds", options=[count]):
            yield replace(count, value=count.value - 1)
        case Hole(kind="normal" | "log_normal", options=[mean, _]) as hole:
            yield replace(mean, value=_rounded(drawn(hole, 0.5)))
        case Hole(step=step) as hole if step is not None:
            yield from (hole.at(0), hole.at(hole.last))
        case Hole(options=options):
            yield from options
        case _:
            first = [next(probes(child)) for child in node.children]
            yield node.with_children(first)
            for i, child in enumerate(node.children):
                for probe in itertools.islice(probes(child), 1, None):
                    yield node.with_children([*first[:i], probe, *first[i + 1 :]])


def grid(node: Node) -> Iterator[Node]:
    """Every filled tree, the last axis of the document fastest."""
    match node.value:
        case Hole(kind="choice" | "each", options=options):
            for option in options:
                yield from grid(option)
        case Hole(kind="seeds", options=[count]):
            for seed in range(count.value):
                yield replace(count, value=seed)
        case Hole(kind="linspace" | "logspace", options=options):
            yield from options
        case Hole(step=step) as hole if step is not None:
            yield from map(hole.at, range(hole.last + 1))
        case Hole(kind=kind):
            raise ValueError(f"{node.path}: {kind} has no grid")
        case _:
            yield from map(node.with_children, itertools.product(*map(grid, node.children)))


def filled(node: Node, setting: Mapping[str, Any]) -> Node:
    """The tree with every hole that is drawn filled: by an option's index if it is indexed, else by a value."""
    match node.value:
        case Hole(kind="each", options=options) as hole:
            return replace(node, value=replace(hole, options=[filled(option, setting) for option in options]))
        case Hole(kind="seeds"):
            return node
        case Hole(options=options) as hole if hole.indexed:
            return filled(options[setting[node.path]], setting)
        case Hole(step=step, options=[low, _]) as hole if step is not None:
            return hole.at(round((setting[node.path] - low.value) / step))
        case Hole(kind="int"):
            return replace(node, value=int(setting[node.path]))
        case Hole(kind="normal" | "log_normal", options=[mean, _]):
            return replace(mean, value=_rounded(setting[node.path]))
        case Hole(options=(low, high)):
            return replace(node, value=min(max(_rounded(setting[node.path]), low.value), high.value))
        case _:
            return node.with_children([filled(child, setting) for child in node.children])


def drawn(hole: Hole, u: float) -> Any:
    """The value, or the index of an option, that a uniform number in [0, 1) draws from the hole."""
    if hole.indexed:
        return int(u * len(hole.options))
    if hole.step is not None:
        return hole.at(int(u * (hole.last + 1))).value
    low, high = (end.value for end in hole.options)
    match hole.kind:
        case "int" if hole.log:
            # Each integer has the share of the logarithm from half below it to half above it, as in Optuna.
            value = math.exp(math.log(low - 0.5) * (1 - u) + math.log(high + 0.5) * u)
            return min(max(round(value), low), high)
        case "int":
            return low + int(u * (high - low + 1))
        case "log_uniform":
            return math.exp(math.log(low) * (1 - u) + math.log(high) * u)
        case "normal" | "log_normal":
            value = low + high * statistics.NormalDist().inv_cdf(max(u, LEAST_QUANTILE))
            return value if hole.kind == "normal" else math.exp(value)
        case _:
            return low * (1 - u) + high * u
