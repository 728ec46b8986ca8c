"""Settings that a search tries first, as partial trials: `search.first` of a space.

An entry of `first` becomes a setting as searches draw them, which holds for the path of a hole the index of an option,
or a number. The holes that the entry leaves out are not in it, and the search draws them. Where several entries of a
choice, or several variants, have all that is written, it means a drawn one of them, but none that only adds to another.

Invariant: `written_setting` of a trial of the space is read as the setting of this trial again.
"""

import functools
import itertools
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from sweeper.messages import instead
from sweeper.space import holes
from sweeper.space.formulas import Formula
from sweeper.space.holes import Choice, Hole, holes_in
from sweeper.space.problems import Problem, shown
from sweeper.space.search_methods import Search, Setting
from sweeper.space.yaml_tree import Node, document_tree, joined, plain, signature
from sweeper.trial.field_types import infinity
from sweeper.trial.record import canonical

_Place = tuple[Any, ...]

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
        reading = _Reader(drawn.choice, strict=True).read(tree, _sections(entry))
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


def written_setting(tree: Node, spec: Mapping[str, Any], variables: Mapping[str, Any]) -> dict[str, Any]:
    """The partial trial by which `search.first` means the setting of a trial of the space, as plain data.

    `spec` has every entry of the trial, in mappings; `variables` has values by path, such as `variables.x`.
    """
    nested: dict[str, Any] = {}
    for path, value in variables.items():
        _, *above, last = path.split(".")
        functools.reduce(lambda at, key: at.setdefault(key, {}), above, nested)[last] = value
    whole = document_tree(json.dumps(canonical({"trial": spec, "variables": nested})))
    setting = _Reader(lambda equal: equal[0], strict=False).read(tree, whole).setting
    written = _written(tree, setting, (), None)
    sections = {} if written is _NOTHING else written
    own = sections.get("trial", {})
    return own | {"variables": sections["variables"]} if "variables" in sections else own


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


class _Reader:
    """Reads values into a tree; unless it is `strict`, whatever the tree lacks, or has as no hole, is passed over."""

    def __init__(self, drawn: Callable[[list[Any]], Any], strict: bool):
        self._drawn, self._strict = drawn, strict

    def read(self, node: Node, entry: Node, place: _Place = (), chosen: bool = False) -> _Reading:
        """What a value says of the tree at `node`; `chosen` says whether that is within an entry of a choice."""
        match node.value:
            case Choice() as choice:
                return self._chosen(node, choice, entry, place)
            case Hole() as hole if hole.DRAWN:
                try:
                    return _Reading({node.path: hole.held(entry)})
                except ValueError as error:
                    return _Reading(problems=(entry.problem(str(error)),))
            case dict() as entries if isinstance(entry.value, dict):
                return self._mapping(entries, entry, place, chosen)
            case list() as items if any(holes_in(node)) and len(entry.children) == len(items):
                pairs = zip(items, entry.children, strict=True)
                return _joined([self.read(item, written, place, True) for item, written in pairs])
            case Hole() | Formula():
                why = "every setting has all of its seeds" if isinstance(node.value, Hole) else "a formula computes it"
                return self._refused(entry, f"is not drawn: {why}")
        if not chosen and not isinstance(node.value, dict):
            return self._refused(entry, f"is no hole: every setting of this space has {shown(node.value)}")
        if _same(node, entry):
            return _Reading()
        return _Reading(problems=(entry.problem(f"must be {shown(node.value)} here, got {shown(entry.value)}"),))

    def _refused(self, entry: Node, message: str) -> _Reading:
        return _Reading(problems=(entry.problem(message),) if self._strict else ())

    def _mapping(self, entries: Mapping[Any, Node], entry: Node, place: _Place, chosen: bool) -> _Reading:
        parts = []
        for key, written in entry.value.items():
            if key in entries:
                parts.append(self.read(entries[key], written, (*place, key), chosen))
            elif self._strict:
                message = f"the space has no such entry{instead(key, map(str, entries))}"
                parts.append(_Reading(problems=(written.problem(message),)))
        unsaid = (_constants(entries[key], (*place, key)) for key in entries if key not in entry.value)
        return _joined([*parts, _Reading(unsaid=frozenset(itertools.chain.from_iterable(unsaid)))])

    def _chosen(self, node: Node, choice: Choice, entry: Node, place: _Place) -> _Reading:
        readings = [self.read(option, entry, place, chosen=True) for option in choice.entries]
        fitting = [number for number, each in enumerate(readings) if not each.problems]
        if fitting:
            unsaid = {place: readings[place].unsaid for place in fitting}
            number = self._drawn([place for place in fitting if not any(map(unsaid[place].__gt__, unsaid.values()))])
            return _Reading({**readings[number].setting, node.path: number})
        if any(isinstance(option.value, dict) for option in choice.entries):
            return min(readings, key=lambda each: len(each.problems))
        values = ", ".join(shown(option.value) for option in choice.entries[:8])
        more = ", …" * (len(choice.entries) > 8)
        return _Reading(problems=(entry.problem(f"is none of the choice: {values}{more}; got {shown(entry.value)}"),))


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


_NOTHING = object()


def _constants(node: Node, place: _Place) -> Iterator[_Constant]:
    """Every value of a tree that is no hole and no formula."""
    if isinstance(node.value, dict):
        for key, entry in node.value.items():
            yield from _constants(entry, (*place, key))
    elif not isinstance(node.value, Hole | Formula):
        yield place, _text(node)


def _written(node: Node, setting: Setting, place: _Place, shared: Set[_Constant] | None) -> Any:
    """The plain data of what a setting says of a tree.

    `shared` are the constants that every entry of the choice around has; None outside of choices.
    """
    match node.value:
        case Choice() as choice if node.path in setting:
            option = choice.entries[setting[node.path]]
            in_all = set.intersection(*(set(_constants(each, place)) for each in choice.entries))
            written = _written(option, setting, place, in_all)
            return _written(option, setting, place, frozenset()) if written is _NOTHING and place else written
        case Hole() | Formula():
            return plain(holes.filled(node, setting)) if node.path in setting else _NOTHING
        case dict() as entries:
            parts = {key: _written(entry, setting, (*place, key), shared) for key, entry in entries.items()}
            return {key: part for key, part in parts.items() if part is not _NOTHING} or _NOTHING
        case list() if any(holes_in(node)):
            return plain(holes.filled(node, setting))
    told = shared is not None and (place, _text(node)) not in shared
    return plain(node) if told else _NOTHING
