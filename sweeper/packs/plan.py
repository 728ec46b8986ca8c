"""The work of a start: the planned trials minus the committed ones, in packs.

The results store is the only memory. A listed search is planned whole. In an adaptive search the next settings depend
on the values of earlier ones, and every start asks for all of them again, with the values in the store. Both are a
`WorkSource` of `Work`: a pack with all of its trials, because a checkpoint holds all lanes, and the ids of the pending
trials.

Invariants:
    - Packs are cut from all planned trials, committed or not, so that a pack is the same at every start.
    - A trial of which another pack has left a checkpoint, before the space was changed, goes on from there.
    - An adaptive search proposes setting n when exactly the values of the settings up to n - WINDOW have been given to
      it, in order. So the settings depend on the space and on the results alone, never on the number of workers or on
      interruptions.
    - The value of a setting is the mean over all of its training seeds. A setting with a training seed that failed, was
      stopped early or has no finite value counts as failed.
"""

import abc
import statistics
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sweeper.packs.packing import Pack, cells, packs, structure
from sweeper.space.problems import SearchSpaceError
from sweeper.space.sweep_spec import SweepSpec
from sweeper.store.store import Status
from sweeper.trial.trial_spec import TrialSpec, trial_id

WINDOW = 8
"""Settings of an adaptive search under way at once."""


@dataclass(frozen=True)
class Segment:
    """A part of the training of a pack, for a search that compares trials while they train.

    Attributes:
        until: Training steps at its end, which is the first end of a stride at or after this step.
        ending: What happens there. `pause` leaves a checkpoint and no rows, apart from those of trials that failed.
            `stop` evaluates and commits the trials, as `stopped`. `finish` is for the last step of a trial.
        parent: Id of the pack whose checkpoint has these trials among others. The training goes on from there, unless
            the pack has a checkpoint of its own.
    """

    until: int
    ending: Literal["pause", "stop", "finish"]
    parent: str | None = None


@dataclass(frozen=True)
class Work:
    """A pack, and the ids of its pending trials.

    Attributes:
        pack: The pack.
        pending: Ids of its trials that have no committed row yet.
        segment: The part of the training to do; None for the whole training.
    """

    pack: Pack
    pending: tuple[str, ...]
    segment: Segment | None = None

    @property
    def until(self) -> int:
        """Training steps of each trial at the end of the work."""
        return self.pack.trials[0].steps if self.segment is None else self.segment.until

    @property
    def steps(self) -> int:
        """Training steps of the pending trials together, those of earlier segments included."""
        return self.until * len(self.pending)


@dataclass(frozen=True)
class Plan:
    """A sweep whose trials are known, held against a store.

    Attributes:
        trials: All trials by id, in order.
        committed: The trials that are done, with their status.
        cells: Number of different structures, each compiled once.
        packs: Number of packs of all trials.
        work: The packs with pending trials.
        done: Statuses of rows whose trials need not run.
    """

    trials: dict[str, TrialSpec]
    committed: Mapping[str, Status]
    cells: int
    packs: int
    work: tuple[Work, ...]
    done: frozenset[Status]


def done_statuses(early_stopping: bool, retry_failed: bool) -> frozenset[Status]:
    """The statuses of rows whose trials need not run.

    Args:
        early_stopping: Whether the sweep stops trials early. In any other sweep a stopped trial is trained to its last
            step.
        retry_failed: Whether failed trials are run again.
    """
    done: set[Status] = {"finished"}
    if early_stopping:
        done.add("stopped")
    if not retry_failed:
        done.add("failed")
    return frozenset(done)


def plan(
    trials: Iterable[TrialSpec],
    lanes: int | None,
    committed: Mapping[str, Status],
    done: frozenset[Status],
    holders: Mapping[str, str] | None = None,
) -> Plan:
    """The planned trials minus those that are done.

    Args:
        trials: The planned trials.
        lanes: See `packing.packs`.
        committed: Status of every row in the store.
        done: See `done_statuses`.
        holders: See `continued_checkpoint.holders`.
    """
    planned = {trial_id(trial): trial for trial in trials}
    settled: dict[str, Status] = {key: status for key, status in committed.items() if key in planned and status in done}
    all_packs = packs(tuple(planned.values()), lanes, holders)
    left = (tuple(key for key in pack.trial_ids if key not in settled) for pack in all_packs)
    work = (_work(pack, pending, holders or {}) for pack, pending in zip(all_packs, left, strict=True))
    return Plan(
        trials=planned,
        committed=settled,
        cells=len(cells(tuple(planned.values()))),
        packs=len(all_packs),
        work=tuple(item for item in work if item.pending),
        done=done,
    )


def _work(pack: Pack, pending: tuple[str, ...], holders: Mapping[str, str]) -> Work:
    """The work on a pack; of a checkpoint of another pack only the pending trials go on."""
    holder = holders.get(pack.trial_ids[0])
    if holder in (None, pack.pack_id) or not pending:
        return Work(pack, pending)
    return Work(pack.part(pending), pending, Segment(pack.trials[0].steps, "finish", parent=holder))


class WorkSource(abc.ABC):
    """Hands out work in order, and learns when a pack has ended.

    Attributes:
        done: Statuses of rows whose trials need not run.
        planned: All trials known so far by id, committed ones included.
        steps: Training steps of all trials that were pending, together.
        impossible: For each setting that cannot be trained, a message that says why.
        grown: Called when more trials are planned, before they are handed out.
    """

    def __init__(self, done: frozenset[Status]) -> None:
        self.done = done
        self.planned: dict[str, TrialSpec] = {}
        self.steps = 0
        self.impossible: list[str] = []
        self.grown: Callable[[], None] = lambda: None
        self._waiting: deque[Work] = deque()

    @property
    @abc.abstractmethod
    def exhausted(self) -> bool:
        """Whether there will be no more work."""

    def next(self) -> Work | None:
        """The next pack; None when there is no more work, or none before another pack has ended."""
        return self._waiting.popleft() if self._waiting else None

    def upcoming(self) -> tuple[Work, ...]:
        """The packs that `next` would return now, in order."""
        return tuple(self._waiting)

    @property
    def held_up(self) -> tuple[str, ...]:
        """Ids of the trials that could not be run, because they wait for others that were not trained."""
        return ()

    def expected(self, pending: Collection[str]) -> list[TrialSpec]:
        """The pending trials with as many steps as they are likely to be trained for."""
        return [self.planned[key] for key in pending]

    def put_back(self, work: Work) -> None:
        """Take back work that no worker could take up; `next` hands it out again."""
        self._waiting.appendleft(work)

    @abc.abstractmethod
    def settle(self, pack_id: str, whole: bool = True) -> None:
        """Take note that the pack has ended; the store says which of its trials are committed.

        Args:
            pack_id: The pack.
            whole: Whether its worker came to the end of the work. Lost work is not handed out again.

        Raises:
            StoreError: `grown` raised it.
        """

    def _extend(self, plan: Plan) -> None:
        self.planned.update(plan.trials)
        self.steps += sum(work.steps for work in plan.work)
        self._waiting.extend(plan.work)


class ListedWork(WorkSource):
    """The work of a listed search, all known before the first pack runs.

    The first pack of every program goes first. So workers that start together compile different programs, and later
    packs find these in the node's compilation cache.
    """

    def __init__(self, plan: Plan):
        super().__init__(plan.done)
        self._extend(plan)
        first: dict[Any, Work] = {}
        for work in plan.work:
            first.setdefault(structure(work.pack.trials[0]), work)
        leading = {work.pack.pack_id for work in first.values()}
        self._waiting = deque([*first.values(), *(work for work in plan.work if work.pack.pack_id not in leading)])

    @property
    def exhausted(self) -> bool:
        return not self._waiting

    def settle(self, pack_id: str, whole: bool = True) -> None:
        pass


class AdaptiveWork(WorkSource):
    """The work of an adaptive search: its settings so far are asked for again, then further ones.

    Args:
        spec: A space with an adaptive search.
        committed: Status of every committed trial at the start.
        done: See `done_statuses`.
        metric: Gives the values of `search.metric` for trials, without those that are not finished or have no finite
            value.
        holders: See `continued_checkpoint.holders`.
    """

    def __init__(
        self,
        spec: SweepSpec,
        committed: Mapping[str, Status],
        done: frozenset[Status],
        metric: Callable[[Iterable[TrialSpec]], list[float]],
        holders: Mapping[str, str] | None = None,
    ):
        super().__init__(done)
        self._study = spec.search.study(spec.variants)
        self._spec, self._committed, self._metric, self._holders = spec, committed, metric, holders
        self._settings = spec.search.trials or 0
        self._trials: list[tuple[TrialSpec, ...]] = []
        self._open: list[set[str]] = []
        self._told = 0
        self._advance()

    @property
    def exhausted(self) -> bool:
        return not self._waiting and self._told == self._settings

    def settle(self, pack_id: str, whole: bool = True) -> None:
        for packs_of_setting in self._open:
            packs_of_setting.discard(pack_id)
        before = len(self.planned)
        self._advance()
        if len(self.planned) > before:
            self.grown()

    def _advance(self) -> None:
        """Ask for settings and tell their values as far as the results allow."""
        while self._told < self._settings:
            if len(self._trials) < min(self._told + WINDOW, self._settings):
                self._ask()
            elif not self._open[self._told]:
                self._tell()
            else:
                return

    def _ask(self) -> None:
        try:
            trials = self._spec.trials_of(self._study.ask())
        except SearchSpaceError as error:
            self.impossible.append(str(error))
            trials = ()
        # A trial that an earlier setting has planned is under way or done already.
        new = (trial for trial in trials if trial_id(trial) not in self.planned)
        part = plan(new, self._spec.pack_lanes, self._committed, self.done, self._holders)
        self._extend(part)
        self._trials.append(trials)
        self._open.append({work.pack.pack_id for work in part.work})

    def _tell(self) -> None:
        trials = self._trials[self._told]
        values = self._metric(trials)
        # A mean over some training seeds would reward a setting for the training seeds that failed.
        complete = len(values) == len(trials) > 0
        self._study.tell(self._told, statistics.fmean(values) if complete else None)
        self._told += 1
