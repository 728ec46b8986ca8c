"""A search space that has been read, and the trials that it stands for.

A search whose settings are known is expanded into all of its trials. The settings of an adaptive search become trials
one by one, as its study proposes them. In both cases pydantic validates every filled tree, and the message on a refused
value names its place in the author's file.
"""

import contextlib
import functools
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
from pydantic import ValidationError

from sweeper.messages import counted, inflected
from sweeper.panels.kinds import Panel
from sweeper.space import formulas, holes, validation_messages
from sweeper.space.limits import Limits
from sweeper.space.problems import Problem, Refused, SearchSpaceError, shown
from sweeper.space.resources import ACCELERATOR_LANES, LANES_TOGETHER, Resources
from sweeper.space.search_methods import Search
from sweeper.space.yaml_tree import Node, descendant, entry_at, plain
from sweeper.trial.kinds import declared_with
from sweeper.trial.record import Spec, canonical
from sweeper.trial.start_from import StartError
from sweeper.trial.trial import Trial, leaf_values, record_of, trial_id, trial_of

MAX_FAILURES = 1000
"""After this number of problems the rest of a space is not checked."""


@dataclass(frozen=True)
class Expansion:
    """The trials of a space."""

    trials: tuple[Trial, ...]  # each once, in the order of the document
    trial_ids: tuple[str, ...]
    settings: int  # before equal ones were merged and others left out
    left_out: Mapping[str, int] = field(default_factory=dict)  # settings, by the first condition that leaves them out
    examples: Sequence[Trial] = ()  # the first trial of each setting that was drawn
    # Values of variables by their paths, such as `variables.x`, of each trial by id; empty of a space without any
    variables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def merged(self) -> int:
        """How many settings are equal to an earlier one, because they differ in nothing that a training uses."""
        return self.settings - sum(self.left_out.values()) - len(self.trials)

    @property
    def summary(self) -> str:
        """Such as "40 settings, 18 equal to others, 22 trials"."""
        left_out = sum(self.left_out.values())
        if not self.merged and not left_out:
            return counted(self.settings, "trial")
        parts = [counted(self.settings, "setting")]
        parts += [f"{left_out:,} left out"] if left_out else []
        parts += [f"{self.merged:,} equal to others"] if self.merged else []
        return ", ".join([*parts, counted(len(self.trials), "trial")])


def _without_store(trial: Trial) -> Trial:
    if trial.start_from is not None:
        raise StartError("which trial this is, a plan finds in a store")
    return trial


@dataclass(frozen=True)
class SweepSpec:
    """A search space that has been read."""

    name: str
    description: str
    panels: tuple[Panel, ...]
    search: Search
    resources: Resources
    limits: Limits
    path: Path
    text: str = field(repr=False)  # of the file, joined with those that it extends
    overrides: tuple[str, ...]  # what `--set` changed in it
    document: Node = field(repr=False)  # with the overrides
    # Variables and the whole trial, with their holes; of several variants the choice among such trees
    tree: Node = field(repr=False)
    exclusions: tuple[Node, ...] = field(repr=False)  # conditions that leave settings out
    # The same trial with the id of the trial that it starts from, or a `StartError` (`sweeper.packs.start_from`)
    found: Callable[[Trial], Trial] = field(default=_without_store, repr=False)

    @property
    def pack_lanes(self) -> int | None:
        """At most so many trials in a pack; None for packs of the training seeds of one setting.

        Early stopping compares packs, and so needs settings in packs of their own. The packs of a halving have trials
        of one search each. On a CPU, where lanes take turns, packs of one trial keep more cores busy.
        """
        lanes, gpus = self.resources.lanes, self.resources.gpus
        if self.search.halving is not None:
            return lanes or (self.search.halving.starts if gpus else 1)
        if lanes is not None or self.search.early_stopping is not None:
            return lanes
        return ACCELERATOR_LANES if gpus else LANES_TOGETHER if self._lanes_together else None

    @functools.cached_property
    def _lanes_together(self) -> bool:
        """Whether trials of the space run together on a CPU."""
        for probe in holes.probes(self.tree):
            with contextlib.suppress(Refused, ValidationError):  # a combination that the space leaves out
                return trial_of(plain(formulas.resolved(probe).value["trial"])).lanes_together
        return False

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that somebody asked for: those by which the search ranks, and those that panels draw."""
        ranked = self.search.metric if self.search.goal else ()
        panels = [panel for panel in self.panels if panel.SOURCE in ("column", "outcome")]  # others have no such column
        drawn = (panel.metrics(series) for panel in panels for series in panel.series or (None,))
        return tuple(dict.fromkeys(filter(None, (*ranked, *itertools.chain.from_iterable(drawn)))))

    def expand(self) -> Expansion:
        """All trials of a search; a `ValueError` if it adapts, so that its settings are not known before it runs.

        Values that are legal one by one and exclude each other are a `SearchSpaceError`.
        """
        expansion = self._expansion(self.search.settings(self.tree))
        self.refuse_empty(expansion.settings, expansion.trials)
        return expansion

    def refuse_empty(self, settings: int, trials: Collection[Any]) -> None:
        """Refuse a space that has these settings and no trials, because all of them are left out."""
        if not trials:
            message = f"leaves out every setting, all {settings:,}"
            raise SearchSpaceError(str(self.path), [Problem("exclude", message, self.document.value["exclude"].where)])

    def trials_of(self, setting: Mapping[str, Any]) -> Expansion:
        """The trials of one setting: one for each of its training seeds and each entry of the axes taken in full.

        The setting is what `Study.ask` gives: for every hole that is drawn the index of an option, or a number, which
        is rounded to six digits if it is real. Errors are those of `expand`.
        """
        return self._expansion([holes.grid(holes.filled(self.tree, setting))])

    @functools.cached_property
    def _has_formulas(self) -> bool:
        return any(True for _ in holes.formulas_in(self.tree))

    @functools.cached_property
    def _has_unprobed(self) -> bool:
        """Whether a setting may have values that no probe holds, nor two probes enclose."""
        return self._has_formulas or not all(hole.value.BOUNDED for hole in holes.holes_in(self.tree))

    def _expansion(self, drawn: Iterable[Iterable[Node]]) -> Expansion:
        settings, trials, problems = 0, {}, []
        examples: dict[int, Trial] = {}
        variables: dict[str, Mapping[str, Any]] = {}
        left_out: Counter[str] = Counter()
        records: dict[tuple[str, str], Spec] = {}
        checked: set[tuple[Any, ...]] = set()
        try:
            for number, unresolved in ((number, tree) for number, trees in enumerate(drawn) for tree in trees):
                settings += 1
                setting = formulas.resolved(unresolved) if self._has_formulas else unresolved
                if self.exclusions and (condition := formulas.exclusion_in(setting, self.exclusions)):
                    left_out[condition] += 1
                    continue
                tree, named = setting.value["trial"], plain(setting.value["variables"])
                try:
                    trial = self.found(_validated(tree, records))
                    problems += unrepresentable(trial, tree, checked, _UNPROBED) if self._has_unprobed else ()
                except StartError as error:
                    at = descendant(tree, ("start_from",))
                    problems.append(Problem(at.path, str(error), at.where))
                except ValidationError as error:
                    problems += validation_messages.problems_of(error, tree, record_of(tree.value))
                else:
                    if (key := trial_id(trial)) not in trials and named:
                        variables[key] = dict(leaf_values(canonical(named), "variables."))
                    trials.setdefault(key, trial)
                    examples.setdefault(number, trial)
                if len(problems) > MAX_FAILURES:
                    break
        except Refused as refused:
            problems.append(refused.problem)
        if problems:
            raise SearchSpaceError(str(self.path), problems)
        return Expansion(tuple(trials.values()), tuple(trials), settings, left_out, tuple(examples.values()), variables)


def _validated(tree: Node, records: dict[tuple[str, str], Spec]) -> Trial:
    """The trial of a filled tree.

    `records` has the plug-ins of earlier trees by their text, because loading them for every trial is slow; those of
    this tree are added.
    """
    data = plain(tree)
    declared = declared_with(data)
    own = [part for part in declared.parts if part in data and part not in declared.completed]
    keys = [(part, repr(data[part])) for part in own]
    known = {part: records[part, text] for part, text in keys if (part, text) in records}
    trial = trial_of(data | known)
    records |= {(part, text): getattr(trial, part) for part, text in keys}
    return trial


_UNPROBED = ("normal[0]", ".formula")
"""Ends of the paths of values that no probe holds."""

_MAX_INTEGER = int(np.iinfo(np.int32).max)
_MAX_FLOAT, _MIN_FLOAT = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)


def unrepresentable(
    trial: Trial, tree: Node, checked: set[tuple[Any, ...]], ends: tuple[str, ...] = ("",)
) -> Iterator[Problem]:
    """The values written in `tree` that the float32 and int32 of a compiled program cannot hold.

    `Traced` values are inputs of the program. In float32 a learning rate of 1e-50 is 0, which trains nothing, and in
    int32 3e9 steps of warm-up are no number at all. `trial.steps` is no input, but the program counts steps in int32.

    The tree has no holes, and `trial` is its trial. Values that are in `checked` already are skipped, others are added.
    Only values are looked at whose paths have one of the `ends`.
    """
    records = tuple(type(getattr(trial, part)) for part in trial.DECLARED.parts)
    leaves = [(tuple(key.name for key in path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(trial)]
    for location, leaf in [(("steps",), trial.steps), *leaves]:
        # The value as written: its trial may replace it, but another trial of the space uses it.
        at = entry_at(tree, location)
        if at is None or not isinstance(at.value, int | float) or not at.path.endswith(ends):
            continue
        if (records, location, at.value) in checked:
            continue
        checked.add((records, location, at.value))
        if message := _mistake(trial, location, type(leaf)(at.value)):
            yield Problem(at.path, message, at.where)


def _mistake(trial: Trial, location: tuple[str, ...], value: int | float) -> str | None:
    if isinstance(value, int):
        return f"must be at most {_MAX_INTEGER:,}, got {shown(value)}" if value > _MAX_INTEGER else None
    if math.isinf(value):
        return None
    if abs(value) > _MAX_FLOAT:
        return f"must be at most {_MAX_FLOAT:.3g} in single precision, got {shown(value)}"
    # Processors may round numbers below the smallest normal number to 0.
    if 0 < abs(value) < _MIN_FLOAT:
        return f"is 0 in single precision, got {shown(value)}; the smallest number above 0 is {_MIN_FLOAT:.3g}"
    rounded = float(np.float32(value))
    data = trial.model_dump()
    functools.reduce(dict.__getitem__, location[:-1], data)[location[-1]] = rounded
    try:
        trial_of(data)
    except ValidationError:
        return f"is {rounded:g} in single precision, which is out of bounds, got {shown(value)}"
    return None


def remarks(trials: Collection[Trial], search: Search) -> list[str]:
    """A line for each kind of doubtful trial among those planned, with the path of the value."""
    lines = []
    doubts: dict[str, list[str]] = defaultdict(list)
    for trial in trials:
        for path, words in trial.doubts():
            doubts[path].append(words)
    for path, of_trials in doubts.items():
        lines.append(f"  trial.{path}: of {counted(len(of_trials), 'trial')} {of_trials[0]}")
    name, first = search.early_stopping.first_step if search.early_stopping else ("", 0)
    short = [trial.steps for trial in trials if trial.steps <= first]
    if short:
        subject = f"{counted(len(short), 'trial')} {inflected(len(short), 'is', 'are')}"
        lines.append(
            f"  search.early_stopping.{name}: {subject} never stopped early, as a training of {max(short):,} steps "
            f"ends before step {first + 1:,}"
        )
    return lines
