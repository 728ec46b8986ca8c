"""A search space that has been read, and the trials that it stands for.

A search whose settings are known is expanded into all of its trials. The settings of an adaptive search become trials
one by one, as its study proposes them. In both cases pydantic validates every filled tree, and the message on a refused
value names its place in the author's file.
"""

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweeper.messages import counted, inflected
from sweeper.panels.panel import Panel
from sweeper.space import holes
from sweeper.space.holes import Choice
from sweeper.space.limits import Limits
from sweeper.space.problems import Problem, SearchSpaceError
from sweeper.space.resources import ACCELERATOR_LANES, LANES_TOGETHER, Resources
from sweeper.space.search_methods import Search, Setting
from sweeper.space.settings import Settings
from sweeper.space.trial_names import TrialNames
from sweeper.space.varied_entries import varied_entries
from sweeper.space.yaml_tree import Node, joined, plain
from sweeper.trial.record import canonical
from sweeper.trial.start_from import StartError, starts_in
from sweeper.trial.trial import Trial, leaf_values, trial_id


@dataclass(frozen=True)
class Expansion:
    """The trials of a space."""

    trials: tuple[Trial, ...]  # each once, in the order of the document
    trial_ids: tuple[str, ...]
    settings: int  # before equal ones were merged and others left out
    left_out: Mapping[str, int] = field(default_factory=dict)  # settings, by the first condition that leaves them out
    # Values of variables by their paths, such as `variables.x`, of each trial by id; empty of a space without any
    variables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def by_id(self) -> dict[str, Trial]:
        """The trials by their ids."""
        return dict(zip(self.trial_ids, self.trials, strict=True))

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


def _written(node: Node, path: str = "") -> Iterator[str]:
    """The dotted path of every entry of a tree with holes, also of those that only some records of a choice have."""
    if isinstance(node.value, dict):
        for key, entry in node.value.items():
            yield from _written(entry, joined(path, key))
    elif isinstance(node.value, Choice) and any(isinstance(option.value, dict) for option in node.value.entries):
        for option in node.value.entries:
            yield from _written(option, path)
    else:
        yield path.removeprefix("trial.")


def _without_store(trial: Trial) -> Trial:
    for path, _ in starts_in(trial):
        raise StartError("which trial this is, a plan finds in a store", path)
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
    first: tuple[Setting, ...] = ()  # what the search tries before all else
    # The same trial with the ids of those whose networks it needs, or a `StartError` (`sweeper.packs.start_from`)
    found: Callable[[Trial], Trial] = field(default=_without_store, repr=False)

    @functools.cached_property
    def names(self) -> TrialNames:
        """The names that the trials will have."""
        return TrialNames(self.probes())

    def probes(self) -> Iterator[Trial]:
        """Trials that together have every value of every axis."""
        # A probe with a mistake is a combination that the space leaves out; there may be any number of them.
        probes = Settings(self.tree).trials([holes.probes(self.tree)], failures=math.inf)
        return map(self._known, (trial for _, trial in probes))

    def _known(self, trial: Trial) -> Trial:
        """The trial as `found`, or as it is where nothing is found, such as without a store."""
        try:
            return self.found(trial)
        except StartError:
            return trial

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
        return ACCELERATOR_LANES if gpus else LANES_TOGETHER if self.names.lanes_together else None

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that somebody asked for: those by which the search ranks, and those that panels draw."""
        ranked = self.search.metric if self.search.goal else ()
        panels = [panel for panel in self.panels if panel.SOURCE in ("column", "outcome")]  # others have no such column
        drawn = (panel.metrics(series) for panel in panels for series in panel.series or (None,))
        return tuple(dict.fromkeys(filter(None, (*ranked, *itertools.chain.from_iterable(drawn)))))

    @property
    def entries(self) -> tuple[str, ...]:
        """What the file says of its trials, by dotted path: entries that it varies, and then the others written."""
        return tuple(dict.fromkeys([*varied_entries(self.tree), *_written(self.tree)]))

    def expand(self) -> Expansion:
        """All trials of a search; a `ValueError` if it adapts, so that its settings are not known before it runs.

        Values that are legal one by one and exclude each other are a `SearchSpaceError`.
        """
        expansion = self._expansion(self.search.settings(self.tree, self.first))
        self.refuse_empty(expansion.settings, expansion.trials)
        return expansion

    def refuse_empty(self, settings: int, trials: Collection[Any]) -> None:
        """Refuse a space that has these settings and no trials, because all of them are left out."""
        if not trials:
            message = f"leaves out every setting, all {settings:,}"
            raise SearchSpaceError(str(self.path), [Problem("exclude", message, self.document.value["exclude"].where)])

    def trials_of(self, setting: Mapping[str, Any]) -> Expansion:
        """The trials of one setting: one for each of its training seeds.

        The setting is what `OptunaStudy.ask` gives: for every hole that is drawn the index of an option, or a number,
        which is rounded to six digits if it is real. Errors are those of `expand`.
        """
        return self._expansion([holes.grid(holes.filled(self.tree, setting))])

    def _expansion(self, drawn: Iterable[Iterable[Node]]) -> Expansion:
        settings = Settings(self.tree, self.exclusions, self.found)
        trials: dict[str, Trial] = {}
        variables: dict[str, Mapping[str, Any]] = {}
        for setting, trial in settings.trials(drawn):
            key, named = trial_id(trial), plain(setting.value["variables"])
            if key not in trials and named:
                variables[key] = dict(leaf_values(canonical(named), "variables."))
            trials.setdefault(key, trial)
        if settings.problems:
            raise SearchSpaceError(str(self.path), settings.problems)
        found = tuple(trials.values())
        return Expansion(found, tuple(trials), settings.count, settings.left_out, variables)


def remarks(trials: Collection[Trial], search: Search) -> list[str]:
    """A line for each kind of doubtful trial among those planned, with the path of the value."""
    lines = []
    doubts: dict[str, list[str]] = defaultdict(list)
    for trial in trials:
        for path, words in trial.doubts():
            doubts[path].append(words)
    for path, of_trials in doubts.items():
        lines.append(f"  trial.{path}: of {counted(len(of_trials), 'trial')} {of_trials[0]}")
    first = search.early_stopping.grace_steps if search.early_stopping else 0
    short = [trial.steps for trial in trials if trial.steps <= first]
    if short:
        subject = f"{counted(len(short), 'trial')} {inflected(len(short), 'is', 'are')}"
        ends = f"a training of {max(short):,} steps ends before step {first + 1:,}"
        lines.append(f"  search.early_stopping.grace_steps: {subject} never stopped early, as {ends}")
    return lines
