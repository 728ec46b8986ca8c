"""A trial with holes is a tree in which some values are left open; grids, draws and checks are walks over the tree.

A choice may hold whole records, and these may have holes of their own. So the size of a grid is a sum over the entries
of a choice and a product over the keys of a mapping. A hole is named by its path in the document, which is unique.

Invariants:
    - Each value of a filled tree has the path of its hole and of its entry.
    - The order of keys changes the order of a grid and nothing else.
    - `probes` contains every value of every axis, and has as many trees as the axes have values together; the grid has
      as many as the product.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sweeper.space.problems import Problem, shown
from sweeper.space.yaml_tree import RESERVED, Node, signature

MAX_SETTINGS = 1_000_000
SIGNIFICANT_DIGITS = 6

RANGES = ("uniform", "log_uniform", "int")


@dataclass(frozen=True, slots=True)
class Hole:
    """A value that is left open.

    Attributes:
        kind: The key that opened it.
        options: The entries of a choice, which may have holes themselves; the two ends of a range; the number of seeds.
    """

    kind: Literal["choice", "uniform", "log_uniform", "int", "seeds"]
    options: Sequence[Node]


def with_holes(node: Node, location: tuple[Any, ...], problems: list[Problem]) -> Node:
    """The node in which every mapping that opens a hole is a `Hole`; `location` is the node's place in the trial."""
    match node.value:
        case dict() as entries:
            kinds = RESERVED + (("seeds",) if location == ("seed",) else ())
            opening = [key for key in entries if key in kinds]
            if not opening:
                below = {key: with_holes(entry, (*location, key), problems) for key, entry in entries.items()}
                return replace(node, value=below)
            if len(entries) > 1:
                names = ", ".join(f"'{key}'" for key in entries)
                problems.append(
                    Problem(node.path, f"a hole has one key and nothing beside it, not {names}", node.where)
                )
            else:
                return replace(node, value=_hole(opening[0], entries[opening[0]], location, problems))
            return node
        case list() as items:
            return replace(node, value=[with_holes(item, (*location, i), problems) for i, item in enumerate(items)])
        case _:
            return node


def _hole(kind: Any, content: Node, location: tuple[Any, ...], problems: list[Problem]) -> Hole:
    def refuse(node: Node, message: str) -> Hole:
        problems.append(Problem(node.path, message, node.where))
        return Hole("choice", [node])

    value = content.value
    if kind == "seeds":
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            return refuse(content, f"expected the number of training seeds, 1 or more, got {shown(value)}")
        if value > MAX_SETTINGS:
            return refuse(content, f"must be at most {MAX_SETTINGS:,} training seeds, got {value:,}")
        return Hole("seeds", [content])
    if not isinstance(value, list):
        return refuse(content, f"expected a list{' of two ends' if kind in RANGES else ''}, got {shown(value)}")
    if kind == "choice":
        if not value:
            return refuse(content, "the axis is empty")
        seen: dict[Any, Node] = {}
        for option in value:
            if (earlier := seen.setdefault(signature(option), option)) is not option:
                return refuse(option, f"repeats {earlier.path} ({shown(option.value)})")
        return Hole("choice", [with_holes(option, location, problems) for option in value])
    if len(value) != 2:
        return refuse(content, f"expected a list of two ends, got {len(value)}")
    for end in value:
        if isinstance(end.value, bool) or not isinstance(end.value, int | float) or not math.isfinite(end.value):
            return refuse(end, f"the end of a range must be a finite number, got {shown(end.value)}")
        if kind == "int" and not isinstance(end.value, int):
            return refuse(end, f"expected an integer, got {shown(end.value)}")
        if kind == "int" and abs(end.value) > 2**53:
            return refuse(end, f"the end of a range must be at most 2^53, got {shown(end.value)}")
        if kind == "log_uniform" and end.value <= 0:
            return refuse(end, f"must be above 0 on a logarithmic scale, got {shown(end.value)}")
    low, high = value
    if low.value == high.value:
        return refuse(content, f"both ends are {shown(low.value)}; write the value itself")
    if low.value > high.value:
        return refuse(content, f"the range is upside down: {shown(low.value)} is above {shown(high.value)}")
    if kind == "int":
        return Hole(kind, value)
    return Hole(kind, [replace(end, value=float(end.value)) for end in value])


def holes_in(node: Node) -> Iterator[Node]:
    """Every hole, those inside choices included."""
    match node.value:
        case Hole(kind="choice", options=options):
            yield node
            for option in options:
                yield from holes_in(option)
        case Hole():
            yield node
        case dict() as entries:
            for entry in entries.values():
                yield from holes_in(entry)
        case list() as items:
            for item in items:
                yield from holes_in(item)


def grid_size(node: Node) -> int:
    """Number of settings of the grid."""
    match node.value:
        case Hole(kind="choice", options=options):
            return sum(grid_size(option) for option in options)
        case Hole(kind="seeds", options=[count]):
            return count.value
        case Hole(options=options):
            return len(options)
        case dict() as entries:
            return math.prod(grid_size(entry) for entry in entries.values())
        case list() as items:
            return math.prod(grid_size(item) for item in items)
        case _:
            return 1


def probes(node: Node) -> Iterator[Node]:
    """Filled trees that together hold every constant, every entry of every choice and both ends of every range.

    There are as many trees as the axes have values together. Of training seeds only the largest is probed: when it is
    legal, all smaller seeds are legal.
    """
    match node.value:
        case Hole(kind="choice", options=options):
            for option in options:
                yield from probes(option)
        case Hole(kind="seeds", options=[count]):
            yield replace(count, value=count.value - 1)
        case Hole(options=options):
            yield from options
        case dict() as entries:
            first = {key: next(probes(entry)) for key, entry in entries.items()}
            yield replace(node, value=first)
            for key, entry in entries.items():
                for probe in itertools.islice(probes(entry), 1, None):
                    yield replace(node, value=first | {key: probe})
        case list() as items:
            below = [next(probes(item)) for item in items]
            yield replace(node, value=below)
            for i, item in enumerate(items):
                for probe in itertools.islice(probes(item), 1, None):
                    yield replace(node, value=[*below[:i], probe, *below[i + 1 :]])
        case _:
            yield node


def grid(node: Node) -> Iterator[Node]:
    """Every filled tree, the last axis of the document fastest."""
    match node.value:
        case Hole(kind="choice", options=options):
            for option in options:
                yield from grid(option)
        case Hole(kind="seeds", options=[count]):
            for seed in range(count.value):
                yield replace(count, value=seed)
        case Hole(kind=kind):
            raise ValueError(f"{node.path}: {kind} has no grid")
        case dict() as entries:
            for values in itertools.product(*map(_axis, entries.values())):
                yield replace(node, value=dict(zip(entries, values, strict=True)))
        case list() as items:
            for values in itertools.product(*map(_axis, items)):
                yield replace(node, value=list(values))
        case _:
            yield node


def _axis(node: Node) -> list[Node]:
    return list(grid(node))


def filled(node: Node, setting: Mapping[str, Any]) -> Node:
    """The tree with every hole but the training seeds filled: by an entry's index for a choice, else by a value."""
    match node.value:
        case Hole(kind="choice", options=options):
            return filled(options[setting[node.path]], setting)
        case Hole(kind="seeds"):
            return node
        case Hole(kind="int"):
            return replace(node, value=int(setting[node.path]))
        case Hole(options=(low, high)):
            # Few digits are the same on every machine, although logarithms round differently, and legible in every
            # table.
            rounded = float(f"{setting[node.path]:.{SIGNIFICANT_DIGITS}g}")
            return replace(node, value=min(max(rounded, low.value), high.value))
        case dict() as entries:
            return replace(node, value={key: filled(entry, setting) for key, entry in entries.items()})
        case list() as items:
            return replace(node, value=[filled(item, setting) for item in items])
        case _:
            return node


def drawn(hole: Hole, u: float) -> Any:
    """The value, or the index of a choice, that a uniform number in [0, 1) draws from the hole."""
    if hole.kind == "choice":
        return int(u * len(hole.options))
    low, high = (end.value for end in hole.options)
    match hole.kind:
        case "int":
            return low + int(u * (high - low + 1))
        case "log_uniform":
            return math.exp(math.log(low) * (1 - u) + math.log(high) * u)
        case _:
            return low * (1 - u) + high * u
