"""The work of a start: the planned trials minus the committed ones, in packs.

The results store is the only memory. A `WorkSource` hands out `Work`: a pack with all of its trials, because a
checkpoint holds all lanes, and the ids of the pending trials. The sources of searches that are not planned whole stand
in `work_sources` and `halving`.

Invariants:
    - Packs are cut from all planned trials, committed or not, so that a pack is the same at every start.
    - A trial of which another pack has left a checkpoint, before the space was changed, goes on from there.
"""

import abc
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sweeper.events import PackProgressed
from sweeper.packs.packing import Pack, packs, structure
from sweeper.space.sweep_spec import Expansion
from sweeper.store.store import Status
from sweeper.trial.trial import Trial


@dataclass(frozen=True)
class Segment:
    """A part of the training of a pack, for a search that compares trials while they train.

    `pause` leaves a checkpoint and no rows, apart from those of trials that failed. `stop` evaluates and commits the
    trials, as `stopped`. `finish` is for the last step of a trial.
    """

    until: int  # training steps at its end, which is the first end of a stride at or after this step
    ending: Literal["pause", "stop", "finish"]
    # Id of the pack whose checkpoint, with these trials among others, is continued unless the pack has its own
    parent: str | None = None


@dataclass(frozen=True)
class Work:
    """A pack, and the ids of its trials that have no committed row yet."""

    pack: Pack
    pending: tuple[str, ...]
    segment: Segment | None = None  # the part of the training to do; None for the whole training

    @property
    def until(self) -> int:
        """Training steps of each trial at the end of the work."""
        return self.pack.trials[0].steps if self.segment is None else self.segment.until


class Run(abc.ABC):
    """The work on a pack while it is done, in strides; at the end every pending trial is committed."""

    rows: dict[str, Status]  # status of every trial that this run has committed, by id

    @abc.abstractmethod
    def advance(self) -> PackProgressed:
        """One stride; a run whose phase is `done` does nothing."""

    @abc.abstractmethod
    def progress(self) -> PackProgressed:
        """Progress of the run."""

    def checkpoint(self) -> None:  # noqa: B027  a run may have nothing to save
        """Save what the next run of this pack goes on from, beside the trials that are committed."""

    def stop_early(self) -> None:  # noqa: B027  nor anything to end
        """End the training here, if there is one, and commit the trials as trained so far."""


@dataclass(frozen=True)
class Plan:
    """A sweep whose trials are known, held against a store."""

    trials: dict[str, Trial]  # all trials by id, in order
    committed: Mapping[str, Status]  # status of the trials that are done
    cells: int  # number of different structures, each compiled once
    packs: int  # number of packs of all trials
    work: tuple[Work, ...]  # the packs with pending trials
    done: frozenset[Status]  # statuses of rows whose trials need not run


def done_statuses(early_stopping: bool, retry_failed: bool) -> frozenset[Status]:
    """The statuses of rows whose trials need not run; a stopped trial is done in a sweep that stops trials early."""
    done: dict[Status, bool] = {"finished": True, "stopped": early_stopping, "failed": not retry_failed}
    return frozenset(status for status, is_done in done.items() if is_done)


def plan(
    planned: Mapping[str, Trial],
    lanes: int | None,
    committed: Mapping[str, Status],
    done: frozenset[Status],
    holders: Mapping[str, str] | None = None,
) -> Plan:
    """The planned trials, by id, minus those that are done, whose status in the store (`committed`) is one of `done`.

    For `lanes` see `packing.packs`, for `holders` `checkpointed_trials.holders`.
    """
    settled: dict[str, Status] = {key: status for key, status in committed.items() if key in planned and status in done}
    all_packs = packs(tuple(planned.values()), lanes, holders, tuple(planned))
    left = (tuple(key for key in pack.trial_ids if key not in settled) for pack in all_packs)
    work = (_work(pack, pending, holders or {}) for pack, pending in zip(all_packs, left, strict=True))
    return Plan(
        trials=dict(planned),
        committed=settled,
        cells=len({structure(pack.trials[0]) for pack in all_packs}),
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
    """Hands out work in order, and learns when a pack has ended."""

    def __init__(self, done: frozenset[Status]) -> None:
        self.done = done  # statuses of rows whose trials need not run
        self.planned: dict[str, Trial] = {}  # all trials known so far by id, committed ones included
        self.impossible: list[str] = []  # for each setting that cannot be trained, a message that says why
        self.settings = 0  # number of settings so far, those that are left out included
        self.left_out: Counter[str] = Counter()  # how many of them each condition of the space leaves out
        self.variables: dict[str, Mapping[str, Any]] = {}  # see `Expansion.variables`
        self.grown: Callable[[], None] = lambda: None  # called when more trials are planned, before they are handed out
        self._waiting: deque[Work] = deque()
        self._programs: dict[Any, int] = {}  # numbers from 1, by structure

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

    def program(self, pack: Pack) -> int:
        """The number of the compiled program that trains a pack, from 1."""
        return self._programs.setdefault(structure(pack.trials[0]), len(self._programs) + 1)

    @property
    def programs(self) -> int:
        """How many compiled programs the packs known so far need."""
        return len(self._programs)

    @property
    def held_up(self) -> tuple[str, ...]:
        """Ids of the trials that could not be run, because they wait for others that were not trained."""
        return ()

    def expected(self, pending: Collection[str]) -> list[Trial]:
        """The pending trials with as many steps as they are likely to be trained for."""
        return [self.planned[key] for key in pending]

    def steps(self, pending: Collection[str]) -> Mapping[int, int]:
        """Training steps of the `expected` trials together, by the number of their program; 0 if it is not known."""
        return {0: sum(trial.steps for trial in self.expected(pending))}

    def note(self, expansion: Expansion) -> None:
        """Take note of further settings, and of the trials that they stand for."""
        self.settings += expansion.settings
        self.left_out.update(expansion.left_out)
        for key, values in expansion.variables.items():
            self.variables.setdefault(key, values)

    def put_back(self, work: Work) -> None:
        """Take back work that no worker could take up; `next` hands it out again."""
        self._waiting.appendleft(work)

    @abc.abstractmethod
    def settle(self, pack_id: str, whole: bool = True) -> None:
        """Take note that the pack has ended; the store says which of its trials are committed.

        Unless its worker came to the end of the work (`whole`), the work is lost, and not handed out again. A
        `StoreError` of `grown` passes through.
        """

    def _extend(self, plan: Plan) -> None:
        self.planned.update(plan.trials)
        for work in plan.work:
            self.program(work.pack)
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
        self._steps = Counter[int]()
        for work in plan.work:
            self._steps[self.program(work.pack)] += work.until * len(work.pending)

    @property
    def exhausted(self) -> bool:
        return not self._waiting

    def steps(self, pending: Collection[str]) -> Mapping[int, int]:
        return self._steps

    def settle(self, pack_id: str, whole: bool = True) -> None:
        pass
