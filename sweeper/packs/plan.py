"""What a start has to run: the planned trials minus the committed ones, in packs.

The results store is the only memory. A grid or random search is planned whole; an Optuna search is a conversation, in
which the next settings depend on what earlier ones gave, and which is replayed from the store at every start. Both are
a `Source` of `Work`: a pack with all of its trials, so that a checkpoint finds its lanes again, and the ids among
them that are still pending.

Invariants:
    - Packs are cut from the planned trials, whatever has been committed, so that a pack is the same at every start.
    - Setting n of an Optuna search is asked when exactly the settings up to n - WINDOW have been told, in order. So
      the settings depend on the space and on the results alone, never on the number of workers or on interruptions.
"""

import statistics
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sweeper.packs.packing import Pack, cells, packs
from sweeper.space.search_space import SearchSpaceError, SweepSpec
from sweeper.store.store import Status
from sweeper.trial.trial_spec import TrialSpec, trial_id

WINDOW = 8
"""Settings of an Optuna search under way at once."""


@dataclass(frozen=True)
class Work:
    """A pack and those of its trials that have no committed row yet."""

    pack: Pack
    pending: tuple[str, ...]

    @property
    def steps(self) -> int:
        """Training steps of the pending trials together."""
        return sum(
            trial.steps for trial, key in zip(self.pack.trials, self.pack.trial_ids, strict=True) if key in self.pending
        )


@dataclass(frozen=True)
class Plan:
    """A sweep whose trials are known, held against a store.

    Attributes:
        trials: All of them by id, in order.
        committed: Those that need not run, with their status.
        cells: Number of different structures, each compiled once.
        packs: Number of packs of all trials.
        work: What is to run.
        finished: Ids of the packs whose trials have all been committed, none of them as failed.
    """

    trials: dict[str, TrialSpec]
    committed: Mapping[str, Status]
    cells: int
    packs: int
    work: tuple[Work, ...]
    finished: frozenset[str]


def plan(trials: Iterable[TrialSpec], lanes: int | None, committed: Mapping[str, Status], retry_failed: bool) -> Plan:
    """The planned trials minus the committed ones; a failed row counts as committed unless it is to be retried."""
    planned = {trial_id(trial): trial for trial in trials}
    settled: dict[str, Status] = {
        key: status for key, status in committed.items() if key in planned and not (retry_failed and status == "failed")
    }
    all_packs = packs(tuple(planned.values()), lanes)
    work = (Work(pack, tuple(key for key in pack.trial_ids if key not in settled)) for pack in all_packs)
    sound = {key for key, status in settled.items() if status != "failed"}
    return Plan(
        trials=planned,
        committed=settled,
        cells=len(cells(tuple(planned.values()))),
        packs=len(all_packs),
        work=tuple(item for item in work if item.pending),
        # A failed trial may be retried, from the checkpoint.
        finished=frozenset(pack.pack_id for pack in all_packs if sound.issuperset(pack.trial_ids)),
    )


class Listed:
    """Work that is known beforehand.

    Attributes:
        planned: All trials by id, committed ones included.
        steps: Training steps of all pending trials together.
        finished: Ids of the packs that had nothing to run at the start.
    """

    def __init__(self, plan: Plan):
        self.planned = plan.trials
        self.finished = plan.finished
        self.steps = sum(work.steps for work in plan.work)
        self._waiting = deque(plan.work)

    @property
    def exhausted(self) -> bool:
        """Whether nothing more will come."""
        return not self._waiting

    def next(self) -> Work | None:
        """The next pack; None when there is none any more."""
        return self._waiting.popleft() if self._waiting else None

    def put_back(self, work: Work) -> None:
        """Hand this work out once more: it could not be taken up."""
        self._waiting.appendleft(work)

    def settle(self, pack_id: str) -> None:
        """The pack has ended, whatever became of its trials."""


class Study:
    """An Optuna study (tree-structured Parzen estimator) that is replayed from the store and then carried on.

    Args:
        spec: A space with `search.method: optuna`.
        committed: Status of every committed trial at the start.
        retry_failed: Whether failed rows are to run again.
        metric: Value of `search.metric` of the trials given, those without a value left out.

    Attributes:
        planned: All trials asked for so far by id, committed ones included.
        steps: Training steps of those that were pending, together.
        finished: Ids of the packs that had nothing to run when they were asked for.
        impossible: Settings whose values exclude each other: what is wrong with each.
    """

    def __init__(
        self,
        spec: SweepSpec,
        committed: Mapping[str, Status],
        retry_failed: bool,
        metric: Callable[[Iterable[TrialSpec]], list[float]],
    ):
        import optuna  # a second of import that only this search needs

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(seed=spec.search.seed, constant_liar=True)
        direction = "maximize" if spec.search.mode == "max" else "minimize"
        self._study = optuna.create_study(sampler=sampler, direction=direction)
        self._failed = optuna.trial.TrialState.FAIL
        self._distributions = spec.distributions()
        self._spec, self._committed, self._retry_failed, self._metric = spec, committed, retry_failed, metric
        self._settings = spec.search.trials or 0
        self._asked: list[Any] = []
        self._trials: list[tuple[TrialSpec, ...]] = []
        self._open: list[set[str]] = []
        self._told = 0
        self._waiting: deque[Work] = deque()
        self.planned: dict[str, TrialSpec] = {}
        self.steps = 0
        self.finished: frozenset[str] = frozenset()
        self.impossible: list[str] = []
        self._advance()

    @property
    def exhausted(self) -> bool:
        """Whether nothing more will come."""
        return not self._waiting and self._told == self._settings

    def next(self) -> Work | None:
        """The next pack; None when there is none before another has ended, or none any more."""
        return self._waiting.popleft() if self._waiting else None

    def put_back(self, work: Work) -> None:
        """Hand this work out once more: it could not be taken up."""
        self._waiting.appendleft(work)

    def settle(self, pack_id: str) -> None:
        """The pack has ended, whatever became of its trials; the study may ask for more."""
        for packs_of_setting in self._open:
            packs_of_setting.discard(pack_id)
        self._advance()

    def _advance(self) -> None:
        """Asks and tells as far as the results at hand allow."""
        while self._told < self._settings:
            if len(self._asked) < min(self._told + WINDOW, self._settings):
                self._ask()
            elif not self._open[self._told]:
                self._tell()
            else:
                return

    def _ask(self) -> None:
        trial = self._study.ask(self._distributions)
        self._asked.append(trial)
        try:
            trials = self._spec.trials_of(trial.params)
        except SearchSpaceError as error:
            self.impossible.append(str(error))
            trials = ()
        # What an earlier setting has brought along is under way or done already.
        part = plan(
            (trial for trial in trials if trial_id(trial) not in self.planned),
            self._spec.resources.lanes,
            self._committed,
            self._retry_failed,
        )
        self.planned.update(part.trials)
        self.finished |= part.finished
        self.steps += sum(work.steps for work in part.work)
        self._trials.append(trials)
        self._open.append({work.pack.pack_id for work in part.work})
        self._waiting.extend(part.work)

    def _tell(self) -> None:
        values = self._metric(self._trials[self._told])
        trial = self._asked[self._told]
        if values:
            self._study.tell(trial, statistics.fmean(values))
        else:
            self._study.tell(trial, state=self._failed)
        self._told += 1


Source = Listed | Study
"""Hands out work in order, and is told when a pack has ended."""
