"""Settings that a search tries first, as partial trials: `search.first` of a space.

An entry of `first` becomes a setting as searches draw them, which holds for the path of a hole the index of an option,
or a number. The holes that the entry leaves out are not in it, and the search draws them. Where several entries of a
choice, or several variants, have all that is written, it means a drawn one of them, but none that only adds to another.
"""

import itertools
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from sweeper.messages import instead
from sweeper.space.formulas import Formula
from sweeper.space.holes import Choice, Hole, holes_in
from sweeper.space.problems import Problem, shown
from sweeper.space.search_methods import Search, Setting
from sweeper.space.yaml_tree import Node, document_tree, joined, signature
from sweeper.trial.field_types import infinity
from sweeper.trial.record import canonical

_Place = tuple[Any, ...]

Draw = Callable[[list[int]], int]

_Constant = tuple[_Place, str]
"""A place in a tree, and the text of the value there."""


class _Reading(NamedTuple):
    """What a written value says of a tree with holes."""

    setting: Setting = MappingProxyType({})
    unsaid: frozenset[_Constant] = frozenset()  # constants that are not written
    problems: tuple[Problem, ...] = ()


def known_settings(tree: Node, entries: Sequence[Node], seed: int, problems: list[Problem]) -> tuple[Setting, ...]:
    """The settings that partial trials, which may have `variables`, mean in the tree of a space.

    Args:
        tree: Variables and trial with their holes, or the choice among variants of these.
        entries: The partial trials.
        seed: Of what is drawn among entries of a choice.
        problems: Gets what is no value of a hole.
    """
    settings = []
    for entry in entries:
        drawn = random.Random(f"{seed}/{_text(entry)}")
        reading = _read(tree, _sections(entry), (), drawn.choice)
        problems += reading.problems
        settings.append(reading.setting)
    return tuple(settings)


def recorded_settings(tree: Node, search: Search) -> list[Setting]:
    """What the entries of an earlier search mean in the tree of a space, those that it has."""
    settings: list[Setting] = []
    for entry in document_tree(json.dumps(canonical(search.first))).children:
        problems: list[Problem] = []
        read = known_settings(tree, [entry], search.seed, problems)
        settings += [] if problems else read
    return settings


def _text(entry: Node) -> str:
    """A text that is equal for equal values, in whatever order."""
    match entry.value:
        case dict() as entries:
            return str(sorted((str(key), _text(child)) for key, child in entries.items()))
        case list() as items:
            return str(list(map(_text, items)))
        case value:
            return str(value)


def _sections(entry: Node) -> Node:
    trial = {key: child for key, child in entry.value.items() if key != "variables"}
    variables = entry.value.get("variables", Node({}, joined(entry.path, "variables"), entry.where))
    return Node({"trial": Node(trial, entry.path, entry.where), "variables": variables}, entry.path, entry.where)


def _read(node: Node, entry: Node, place: _Place, drawn: Draw, chosen: bool = False) -> _Reading:
    """What a value says of the tree at `node`; `chosen` says whether that is within an entry of a choice."""
    match node.value:
        case Choice() as choice:
            return _chosen(node, choice, entry, place, drawn)
        case Hole() as hole if hole.DRAWN:
            try:
                return _Reading({node.path: hole.held(entry)})
            except ValueError as error:
                return _refused(entry, str(error))
        case dict() as entries if isinstance(entry.value, dict):
            parts = [
                _read(entries[key], written, (*place, key), drawn, chosen)
                if key in entries
                else _refused(written, f"the space has no such entry{instead(key, map(str, entries))}")
                for key, written in entry.value.items()
            ]
            unsaid = (_constants(entries[key], (*place, key)) for key in entries if key not in entry.value)
            return _joined([*parts, _Reading(unsaid=frozenset(itertools.chain.from_iterable(unsaid)))])
        case list() as items if any(holes_in(node)) and len(entry.children) == len(items):
            pairs = zip(items, entry.children, strict=True)
            return _joined([_read(item, written, place, drawn, True) for item, written in pairs])
        case Hole() | Formula():
            why = "every setting has all of its seeds" if isinstance(node.value, Hole) else "a formula computes it"
            return _refused(entry, f"is not drawn: {why}")
    if not chosen and not isinstance(node.value, dict):
        return _refused(entry, f"is no hole: every setting of this space has {shown(node.value)}")
    if _same(node, entry):
        return _Reading()
    return _refused(entry, f"must be {shown(node.value)} here, got {shown(entry.value)}")


def _refused(entry: Node, message: str) -> _Reading:
    return _Reading(problems=(entry.problem(message),))


def _chosen(node: Node, choice: Choice, entry: Node, place: _Place, drawn: Draw) -> _Reading:
    readings = [_read(option, entry, place, drawn, chosen=True) for option in choice.entries]
    fitting = [number for number, each in enumerate(readings) if not each.problems]
    if fitting:
        unsaid = {number: readings[number].unsaid for number in fitting}
        number = drawn([each for each in fitting if not any(map(unsaid[each].__gt__, unsaid.values()))])
        return _Reading({**readings[number].setting, node.path: number})
    if any(isinstance(option.value, dict) for option in choice.entries):
        return min(readings, key=lambda each: len(each.problems))
    values = ", ".join(shown(option.value) for option in choice.entries[:8])
    more = ", …" * (len(choice.entries) > 8)
    return _refused(entry, f"is none of the choice: {values}{more}; got {shown(entry.value)}")


def _same(one: Node, other: Node) -> bool:
    """Whether two values are equal; `inf` is the number."""
    if any(isinstance(each.value, dict) or any(holes_in(each)) for each in (one, other)):
        return False
    first, second = (replace(each, value=infinity(each.value)) for each in (one, other))
    return signature(first) == signature(second)


def _joined(parts: Sequence[_Reading]) -> _Reading:
    setting = dict(itertools.chain.from_iterable(part.setting.items() for part in parts))
    problems = tuple(itertools.chain.from_iterable(part.problems for part in parts))
    unsaid = frozenset(itertools.chain.from_iterable(part.unsaid for part in parts))
    return _Reading(setting, unsaid, problems)


def _constants(node: Node, place: _Place) -> Iterator[_Constant]:
    """Every value of a tree that is no hole and no formula."""
    if isinstance(node.value, dict):
        for key, entry in node.value.items():
            yield from _constants(entry, (*place, key))
    elif not isinstance(node.value, Hole | Formula):
        yield place, _text(node)
