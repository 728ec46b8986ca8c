"""Sources of work: which source a search has, and the source of an adaptive search.

The class of a search says what its source has to know (`sweeper.space.search_methods`). A list of trials is planned
whole, and a halving has a module of its own. In an adaptive search the next settings depend on the values of earlier
ones, and every start asks for all of them again, with the values in the store.

Invariants:
    - An adaptive search proposes setting n when exactly the values of the settings up to n - WINDOW have been given to
      it, in order. So the settings depend on the space and on the results alone, never on the number of workers or on
      interruptions.
    - What is added to `search.first` at a later start comes after the settings that earlier starts have planned, which
      the records of these starts say. So what they have run stays a part of the search.
    - The value of a setting is the mean over all of its trials. A setting with a trial that was stopped early has been
      pruned; one with a trial that failed or has no finite value has failed.
"""

import itertools
import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sweeper.messages import counted
from sweeper.packs.checkpointed_trials import holders
from sweeper.packs.halving import HalvingWork
from sweeper.packs.packing import cells
from sweeper.packs.plan import ListedWork, WorkSource, plan
from sweeper.space.known_settings import recorded_settings
from sweeper.space.problems import SearchSpaceError
from sweeper.space.search_methods import Search, Setting
from sweeper.space.search_space import search_of
from sweeper.space.sweep_spec import SweepSpec
from sweeper.store.store import Status, Store, SweepRecord
from sweeper.trial.trial import Trial, trial_id

WINDOW = 8
"""Settings of an adaptive search under way at once."""

MOST_LEFT_OUT = 100
"""Settings in a row that an adaptive search may leave out: it looks at all earlier ones before it proposes the next."""


def work_source(
    spec: SweepSpec,
    store: Store,
    committed: Mapping[str, Status],
    done: frozenset[Status],
    values: Callable[[Iterable[Trial], str], list[float] | None],
    fingerprint: Callable[[Trial], str],
) -> tuple[WorkSource, str]:
    """The source of the work of a sweep, and the plan in a sentence; the store is only read.

    For `committed` and `done` see `plan.plan`, for `values` `AdaptiveWork`, for `fingerprint` `HalvingWork`. Values
    that are legal by themselves and exclude each other are a `SearchSpaceError`.
    """
    search = spec.search
    if search.ADAPTS:
        earlier = [record for record in store.sweeps() if record.name == spec.name] if spec.first else ()
        began, added = _additions(spec, earlier)
        held = holders(store, (), None)
        study, placed = AdaptiveWork(spec, committed, done, values, held, began), []
        for addition in added:
            placed.append((study.turns_within(addition.after), addition.settings))
            study = AdaptiveWork(spec, committed, done, values, held, began, [*placed])
        return study, search.title(len(study.planned))
    if search.halving is not None:
        halving = HalvingWork(spec, search.halving, store, committed, done, fingerprint)
        structures = cells(halving.planned.values())
        return halving, f"{search.title(len(halving.planned))} · {counted(len(structures), 'cell')}"
    expansion = spec.expand()
    held = holders(store, expansion.trials, spec.pack_lanes)
    planned = plan(expansion.by_id, spec.pack_lanes, committed, done, held)
    counts = f"{counted(planned.cells, 'cell')} · {counted(planned.packs, 'pack')}"
    listed = ListedWork(planned)
    listed.note(expansion)
    return listed, f"{expansion.summary} · {counts}"


class _Asked(NamedTuple):
    """A setting that a study has proposed."""

    trials: tuple[Trial, ...]  # none of a setting that is left out, or that cannot be trained
    left_out: bool  # by a condition of the space
    packs: set[str]  # ids of those that have not ended


class _Addition(NamedTuple):
    """Settings that were added to `search.first` at a later start."""

    settings: tuple[Setting, ...]
    after: frozenset[str]  # ids of the trials that were planned before


def _additions(spec: SweepSpec, earlier: Sequence[SweepRecord]) -> tuple[tuple[Setting, ...], list[_Addition]]:
    """What a search tried first when it began, and what was added since; where an entry was removed, it begins anew."""
    known: list[Setting] = []
    planned: frozenset[str] = frozenset()
    added: list[_Addition] = []
    for record in earlier:
        search = search_of(record.text, record.overrides)
        if _but_first(search) != _but_first(spec.search):
            continue  # was another search, of which this one takes nothing up
        had = recorded_settings(spec.tree, search)
        if any(setting not in had for setting in known) or any(setting not in spec.first for setting in had):
            return spec.first, []
        added.append(_Addition(tuple(setting for setting in had if setting not in known), planned))
        known, planned = had, frozenset(record.trial_ids)
    added.append(_Addition(tuple(setting for setting in spec.first if setting not in known), planned))
    return added[0].settings, [each for each in added[1:] if each.settings]


def _but_first(search: Search) -> Mapping[str, Any]:
    return search.model_dump(exclude={"first", "trials", "mode"})  # a mode may be that of the plug-in


class AdaptiveWork(WorkSource):
    """The work of an adaptive search: its settings so far are asked for again, then further ones.

    `metric` gives the values of a metric for trials, without those that are not finished or have no finite value; None
    if one was stopped early. The search begins with the settings `began`, and those of `placed` come after so many
    others. For the other arguments see `plan.plan`.
    """

    def __init__(
        self,
        spec: SweepSpec,
        committed: Mapping[str, Status],
        done: frozenset[Status],
        metric: Callable[[Iterable[Trial], str], list[float] | None],
        holders: Mapping[str, str] | None = None,
        began: Sequence[Setting] = (),
        placed: Sequence[tuple[int, Sequence[Setting]]] = (),
    ):
        super().__init__(done)
        self._study = spec.search.study(spec.tree, began)
        self._placed = placed
        self._spec, self._committed, self._metric, self._holders = spec, committed, metric, holders
        self._settings = (spec.search.trials or 0) + len(began) + sum(len(settings) for _, settings in placed)
        self._asked: list[_Asked] = []
        self._told = 0
        self._advance()
        if self.exhausted and not self.planned and all(each.left_out for each in self._asked):
            spec.refuse_empty(self.settings, self.planned)

    @property
    def exhausted(self) -> bool:
        return not self._waiting and self._told == self._settings

    def expected(self, pending: Collection[str]) -> list[Trial]:
        """The pending trials, and for each setting that is not known yet as many as the known ones have on average."""
        known = list(self.planned.values())
        later = len(known) * (self._settings - len(self._asked)) / len(self._asked)
        return [*super().expected(pending), *itertools.islice(itertools.cycle(known), round(later))]

    def turns_within(self, trial_ids: frozenset[str]) -> int:
        """How many settings were asked for before the first of which some trial is none of these."""
        within = (trial_ids.issuperset(map(trial_id, asked.trials)) for asked in self._asked)
        return sum(1 for _ in itertools.takewhile(bool, within))

    def settle(self, pack_id: str, whole: bool = True) -> None:
        for asked in self._asked:
            asked.packs.discard(pack_id)
        before = len(self.planned)
        self._advance()
        if len(self.planned) > before:
            self.grown()

    def _advance(self) -> None:
        """Ask for settings and tell their values as far as the results allow."""
        while self._told < self._settings:
            if len(self._asked) < min(self._told + WINDOW, self._settings):
                self._asked.append(self._ask())
                if sum(each.left_out for each in self._asked[-MOST_LEFT_OUT:]) == MOST_LEFT_OUT:
                    self._settings = len(self._asked)
                    self.impossible.append(
                        f"the conditions under exclude leave out {MOST_LEFT_OUT} settings in a row: the search ends "
                        f"after {self._settings:,} of {self._spec.search.draws:,}"
                    )
            elif not self._asked[self._told].packs:
                self._tell(self._asked[self._told])
                self._told += 1
            else:
                return

    def _ask(self) -> _Asked:
        for turn, settings in self._placed:
            if turn == len(self._asked):
                self._study.enqueue(settings)
        try:
            asked = self._spec.trials_of(self._study.ask())
        except SearchSpaceError as error:
            self.impossible.append(str(error))
            return _Asked((), False, set())
        self.note(asked)
        # A trial that an earlier setting has planned is under way or done already.
        new = {key: trial for key, trial in asked.by_id.items() if key not in self.planned}
        part = plan(new, self._spec.pack_lanes, self._committed, self.done, self._holders)
        self._extend(part)
        return _Asked(asked.trials, not asked.trials, {work.pack.pack_id for work in part.work})

    def _tell(self, asked: _Asked) -> None:
        trials, search = asked.trials, self._spec.search
        values = [self._metric(trials, name) for name in search.metric]
        if asked.left_out:
            self._study.leave_out(self._told)
        elif any(each is None for each in values):
            self._study.prune(self._told)
        else:
            # A mean over some training seeds would reward a setting for the training seeds that failed.
            means = [statistics.fmean(each) for each in values if each and len(each) == len(trials)]
            self._study.tell(self._told, means if len(means) == len(values) else None)
