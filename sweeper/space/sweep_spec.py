"""A search space that has been read, and the trials that it stands for.

A search whose settings are known is expanded into all of its trials. The settings of an adaptive search become trials
one by one, as its study proposes them. In both cases pydantic validates every filled tree, and the message on a refused
value names its place in the author's file.
"""

import functools
import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sweeper.messages import counted, inflected
from sweeper.panels.kinds import Panel
from sweeper.space import formulas, holes, validation_messages
from sweeper.space.problems import Problem, Refused, SearchSpaceError
from sweeper.space.resources import ACCELERATOR_LANES, Resources
from sweeper.space.search import Search
from sweeper.space.yaml_tree import Node, plain
from sweeper.trial.record import Spec
from sweeper.trial.trial_spec import TrialSpec, trial_id

MAX_FAILURES = 1000
"""After this number of problems the rest of a space is not checked."""


@dataclass(frozen=True)
class Expansion:
    """The trials of a space."""

    trials: tuple[TrialSpec, ...]  # each once, in the order of the document
    trial_ids: tuple[str, ...]
    settings: int  # before equal ones were merged and others left out
    left_out: Mapping[str, int] = field(default_factory=dict)  # settings, by the first condition that leaves them out

    @property
    def merged(self) -> int:
        """How many settings are equal to an earlier one, because they differ in nothing that the baseline uses."""
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


@dataclass(frozen=True)
class SweepSpec:
    """A search space that has been read."""

    name: str
    description: str
    panels: tuple[Panel, ...]
    search: Search
    resources: Resources
    path: Path
    text: str = field(repr=False)  # of the file, joined with those that it extends
    overrides: tuple[str, ...]  # what `--set` changed in it
    document: Node = field(repr=False)  # with the overrides
    variants: tuple[Node, ...] = field(repr=False)  # each a whole trial with its holes
    exclusions: tuple[Node, ...] = field(repr=False)  # conditions that leave settings out

    @property
    def pack_lanes(self) -> int | None:
        """At most so many trials in a pack; None for packs of the training seeds of one setting.

        Early stopping compares packs, and so needs settings in packs of their own. The packs of a halving have trials
        of one search each. On a CPU, where lanes take turns, packs of one trial keep more cores busy.
        """
        lanes, gpus = self.resources.lanes, self.resources.gpus
        if self.search.halving is not None:
            return lanes or (self.search.halving.starts if gpus else 1)
        return ACCELERATOR_LANES if lanes is None and gpus and self.search.early_stopping is None else lanes

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that somebody asked for: those by which the search ranks, and those that panels draw."""
        ranked = self.search.metric if self.search.goal else ()
        drawn = (panel.metrics(series) for panel in self.panels for series in panel.series or (None,))
        return tuple(dict.fromkeys(filter(None, (*ranked, *itertools.chain.from_iterable(drawn)))))

    def expand(self) -> Expansion:
        """All trials of a search that does not adapt.

        Raises:
            SearchSpaceError: values that are legal one by one exclude each other.
            ValueError: the search adapts, so that its settings are not known before it runs.
        """
        expansion = self._expansion(self.search.settings(self.variants))
        if not expansion.trials:
            message = f"leaves out every setting, all {expansion.settings:,}"
            raise SearchSpaceError(str(self.path), [Problem("exclude", message, self.document.value["exclude"].where)])
        return expansion

    def trials_of(self, setting: Mapping[str, Any]) -> Expansion:
        """The trials of one setting: one for each of its training seeds and each entry of the axes taken in full.

        Args:
            setting: What `Study.ask` gives: for every hole that is drawn a value, of which real numbers are rounded to
                six digits, or the index of an option.

        Raises:
            SearchSpaceError: values that are legal one by one exclude each other.
        """
        return self._expansion(holes.grid(holes.filled(self.variants[setting.get("variants", 0)], setting)))

    @functools.cached_property
    def _has_formulas(self) -> bool:
        return any(map(holes.has_formula, self.variants))

    def _expansion(self, trees: Iterable[Node]) -> Expansion:
        settings, trials, problems = 0, {}, []
        left_out: Counter[str] = Counter()
        records: dict[tuple[str, str], Spec] = {}
        try:
            for unresolved in trees:
                settings += 1
                tree = formulas.resolved(unresolved) if self._has_formulas else unresolved
                if self.exclusions and (condition := formulas.exclusion_in(tree, self.exclusions)):
                    left_out[condition] += 1
                    continue
                try:
                    trial = _validated(tree, records)
                except ValidationError as error:
                    problems += validation_messages.problems_of(error, tree, TrialSpec)
                    if len(problems) > MAX_FAILURES:
                        break
                else:
                    trials.setdefault(trial_id(trial), trial)
        except Refused as refused:
            problems.append(refused.problem)
        if problems:
            raise SearchSpaceError(str(self.path), problems)
        return Expansion(tuple(trials.values()), tuple(trials), settings, left_out)


def _validated(tree: Node, records: dict[tuple[str, str], Spec]) -> TrialSpec:
    """The trial of a filled tree.

    `records` has the tasks and models of earlier trees by their text, because loading them for every trial is slow;
    those of this tree are added.
    """
    data = plain(tree)
    keys = [(part, repr(data[part])) for part in ("task", "model")]
    known = {part: records[part, text] for part, text in keys if (part, text) in records}
    trial = TrialSpec.model_validate(data | known)
    records |= {(part, text): getattr(trial, part) for part, text in keys}
    return trial


def remarks(trials: Collection[TrialSpec], search: Search) -> list[str]:
    """A line for each kind of doubtful trial among those planned, with the path of the value."""
    lines = []
    cold = [trial for trial in trials if trial.optimizer.warmup_steps > trial.steps]
    if cold:
        steps = f"{cold[0].optimizer.warmup_steps:,} of {cold[0].steps:,} steps"
        lines.append(
            f"  trial.optimizer.warmup_steps: longer than the training of {counted(len(cold), 'trial')} ({steps}), "
            "whose learning rate never reaches its peak"
        )
    name, first = search.early_stopping.first_step if search.early_stopping else ("", 0)
    short = [trial.steps for trial in trials if trial.steps <= first]
    if short:
        subject = f"{counted(len(short), 'trial')} {inflected(len(short), 'is', 'are')}"
        lines.append(
            f"  search.early_stopping.{name}: {subject} never stopped early, as a training of {max(short):,} steps "
            f"ends before step {first + 1:,}"
        )
    return lines
