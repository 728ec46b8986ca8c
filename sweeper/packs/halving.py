"""Successive halving as a source of work: trials that are compared at rungs, decided anew from the store each time.

The next work of a search follows from the space and from three facts about each trial, all in the store: its row, the
curve of its row, and the checkpoint that holds its state with its curve so far. So every start makes the same
decisions, after any interruption, and with any number of workers.

Invariants:
    - A rung is decided when every trial that goes on to this rung has a loss there or has failed before, and not
      earlier.
    - The loss of a trial at a rung is a point of its stored curve. Stopped, finished and unfinished trainings have the
      same points, whichever sweep trained them.
    - Of equal losses the lower training seed goes on. A trial that fails later keeps its loss at the rung.
    - After a pack the store is read again. Another sweep that trains the same trials at once may have replaced or
      removed a checkpoint, or committed a trial at an earlier rung; then the segment is handed out again.
    - Lost work is for the next start of the sweep.
"""

import contextlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

import pyarrow.compute as pc

from sweeper.messages import counted
from sweeper.packs import checkpoint
from sweeper.packs.pack_training import curve_window, evaluation_points, lane_curves, restored
from sweeper.packs.packing import Pack, packs
from sweeper.packs.plan import Segment, Work, WorkSource
from sweeper.space.halving import Halving
from sweeper.space.problems import SearchSpaceError
from sweeper.space.sweep_spec import SweepSpec
from sweeper.space.yaml_tree import descendant
from sweeper.store.store import Status, Store, StoreError
from sweeper.training.kind import trainer_of
from sweeper.training.trainer import curve_names
from sweeper.trial.trial import Trial, trial_id

MOST_TIMES = 20
"""How often a segment of a trial is handed out. Other sweeps disturb it once for each of their own segments."""


Losses = tuple[float, ...]
"""The losses of a trial at the rungs, as far as it has come; see `Halving.losses`."""


def stored_losses(
    halving: Halving, store: Store, trial_ids: Collection[str]
) -> tuple[dict[str, Status], dict[str, Losses]]:
    """The status of the rows of those of the trials that have one, and the losses of their curves, by id."""
    rows = store.trials(trial_ids).select(["trial_id", "status", "steps_done"]).to_pylist()
    points = store.curves([row["trial_id"] for row in rows])
    points = points.filter(pc.field("metric") == halving.curve)
    curves: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for key, step, value in zip(*(points[name].to_pylist() for name in ("trial_id", "step", "value")), strict=True):
        curves[key].append((step, value))
    losses = {row["trial_id"]: halving.losses(curves[row["trial_id"]], row["steps_done"] or 0) for row in rows}
    return {row["trial_id"]: row["status"] for row in rows}, losses


def searches_of(space: SweepSpec) -> list[tuple[str, ...]]:
    """Ids of the trials of every search of a space, in the order of the document; empty for any other method."""
    halving = space.search.halving
    if halving is None:
        return []
    return [tuple(map(trial_id, starts)) for starts in halving.searches(space.expand().trials)]


def winners_of(space: SweepSpec, searches: Sequence[Sequence[str]], store: Store) -> frozenset[str]:
    """The trials that passed the last rung of their search, finished or not; empty if trials are not compared.

    A search in which a trial has not come to its next rung has no winner yet.
    """
    halving = space.search.halving
    if halving is None:
        return frozenset()
    statuses, losses = stored_losses(halving, store, [key for search in searches for key in search])
    return halving.winners(searches, losses, {key for key, status in statuses.items() if status == "failed"})


class HalvingWork(WorkSource):
    """The work of a successive halving; `searches` has the ids of the trials of each search, in order of their seeds.

    The work follows from rows, curves and checkpoints, which are read; nothing is written.
    """

    def __init__(
        self,
        spec: SweepSpec,
        halving: Halving,
        store: Store,
        committed: Mapping[str, Status],
        done: frozenset[Status],
        fingerprint: Callable[[Trial], str],
    ):
        """For `committed` and `done` see `plan.plan`. Checkpoints of another fingerprint than a trial's do not count.

        A rung without a value, or not before the end of a training, is a `SearchSpaceError`.
        """
        super().__init__(done)
        self._halving, self._rungs, self._store, self._fingerprint = halving, halving.rungs, store, fingerprint
        expansion = spec.expand()
        self.note(expansion)
        searches = halving.searches(expansion.trials)
        self.searches = [tuple(map(trial_id, starts)) for starts in searches]
        self.planned = {trial_id(trial): trial for starts in searches for trial in starts}
        _refuse_rungs_without_value(spec, halving, self.planned.values())
        self._status: dict[str, Status] = {}  # of the rows that count
        self._stored: dict[str, Losses] = {}  # that these rows have
        self._losses: dict[str, Losses] = defaultdict(tuple)  # of rows and checkpoints
        self._holders: dict[str, str] = {}  # by trial the id of the pack whose checkpoint holds it
        self._read_rows([key for key in self.planned if committed.get(key) in done])
        for pack_id in checkpoint.pack_ids(store):
            self._read_checkpoint(pack_id)
        cut = [pack for starts in searches for pack in packs(starts, spec.pack_lanes)]
        self._pack = {key: number for number, pack in enumerate(cut) for key in pack.trial_ids}
        self._open: dict[str, Work] = {}
        self._given: Counter[tuple[str, Segment]] = Counter()
        self._under_way: set[tuple[str, Segment]] = set()
        for pack in cut:
            self.program(pack)
        self._advance()

    def _read_rows(self, trial_ids: Collection[str]) -> None:
        """Take the status and the losses of trials from their rows and curves."""
        statuses, losses = stored_losses(self._halving, self._store, trial_ids)
        self._status |= statuses
        self._stored |= losses
        for key, of_trial in losses.items():
            self._learn(key, of_trial)

    def _read_checkpoint(self, pack_id: str) -> None:
        """Take the losses of trials from a checkpoint, if they are trials of the sweep and the code is the same."""
        saved = checkpoint.load(self._store, pack_id)
        first = None if saved is None else self.planned.get(saved.trial_ids[0])
        if saved is None or first is None or saved.identity.fingerprint != self._fingerprint(first):
            return
        training = restored(None, saved.notes)
        for lane, key in enumerate(saved.trial_ids):
            if key in self.planned:
                curves = lane_curves(trainer_of(first), first, training, lane)
                measured = [*curves, *evaluation_points(training, lane)]
                points = [(step, value) for step, name, value in measured if name == self._halving.curve]
                losses = self._halving.losses(points, training.lane_steps[lane])
                if self._learn(key, losses) or key not in self._holders:
                    self._holders[key] = pack_id

    def _learn(self, key: str, losses: Losses) -> bool:
        """Take the losses of a trial at the rungs; returns whether these are news."""
        news = len(losses) > len(self._losses[key])
        if news:
            self._losses[key] = losses
        return news

    @property
    def exhausted(self) -> bool:
        return not self._open

    def settle(self, pack_id: str, whole: bool = True) -> None:
        work = self._open.pop(pack_id, None)
        if work is None:
            return
        with contextlib.suppress(OSError, StoreError):  # then the next start reads the pack's trials from the store
            self._read_rows(work.pack.trial_ids)
            self._read_checkpoint(pack_id)
            if whole and work.segment is not None:
                segment = replace(work.segment, parent=None)
                self._under_way -= {(key, segment) for key in work.pack.trial_ids}
        self._advance()

    @property
    def held_up(self) -> tuple[str, ...]:
        due = {key for search in self.searches for keys, _ in self._due(search) for key in keys}
        return tuple(key for key in self.planned if key in due or key not in self._status)

    def expected(self, pending: Collection[str]) -> list[Trial]:
        trials = []
        for search in self.searches:
            left = [self.planned[key] for key in search if key in pending]
            lengths = self._lengths(search)
            # Most trials with a row were stopped early.
            trials += [
                trial.model_copy(update={"steps": steps})
                for trial, steps in zip(left, lengths[len(lengths) - len(left) :], strict=True)
            ]
        return trials

    def _lengths(self, search: Sequence[str]) -> list[int]:
        """Training steps of the trials of a search, the shortest first."""
        kept = [len(search), *(min(rung.keep, len(search)) for rung in self._rungs), 0]
        steps = [*(rung.steps for rung in self._rungs), self.planned[search[0]].steps]
        ends = [before - after for before, after in itertools.pairwise(kept)]
        return [length for length, count in zip(steps, ends, strict=True) for _ in range(count)]

    def _advance(self) -> None:
        for search in self.searches:
            for keys, segment in self._due(search):
                self._hand_out(keys, segment)

    def _due(self, search: Sequence[str]) -> list[tuple[list[str], Segment]]:
        """The work of a search, as far as its rungs are decided; trials that go on stand first."""
        failed = [key for key in search if self._status.get(key) == "failed"]
        now = self._halving.decided(search, self._losses, failed)
        stops = [
            ([key for key in losers if not self._ends(key, number)], Segment(self._rungs[number].steps, "stop"))
            for number, losers in enumerate(now.stopped)
        ]
        if now.missing:
            return [(list(now.missing), Segment(self._rungs[len(now.stopped)].steps, "pause")), *stops]
        winners = [key for key in now.alive if self._status.get(key, "stopped") == "stopped"]
        return [(winners, Segment(self.planned[search[0]].steps, "finish")), *stops]

    def _ends(self, key: str, number: int) -> bool:
        """Whether the row of a trial has its loss at a rung, so that the trial may be stopped there."""
        return key in self._status and (self._status[key] != "stopped" or len(self._stored[key]) > number)

    def _hand_out(self, keys: Iterable[str], segment: Segment) -> None:
        """Queue the segment for those of the trials that are not under way to its end, pack by pack."""
        parts: dict[tuple[int, str | None], list[str]] = defaultdict(list)
        for key in keys:
            given = key, segment
            if given not in self._under_way and self._given[given] < MOST_TIMES:
                self._under_way.add(given)
                self._given[given] += 1
                parts[self._pack[key], self._holders.get(key)].append(key)
        for (_, parent), names in parts.items():
            pack = Pack(tuple(self.planned[key] for key in sorted(names, key=lambda key: self.planned[key].seed)))
            work = Work(pack, pack.trial_ids, replace(segment, parent=parent))
            self._open[pack.pack_id] = work
            self._waiting.append(work)


def _refuse_rungs_without_value(spec: SweepSpec, halving: Halving, trials: Iterable[Trial]) -> None:
    """Refuse a rung before the first point of the curve that decides, and a rung not before the end of a training.

    A metric is evaluated at multiples of `Trial.evaluate_every`, and of a stopped trial at its last step. So the rungs
    are such multiples: then stopped trials and others have their values at the same steps.
    """

    def refuse(message: str, *location: str | int) -> NoReturn:
        raise SearchSpaceError(str(spec.path), [descendant(spec.document, ("search", *location)).problem(message)])

    rungs = halving.rungs
    last = len(rungs) - 1
    for trial in trials:
        trainer, every, window = trainer_of(trial), trial.evaluate_every, 0
        if halving.curve in curve_names(trainer, trial):
            window = curve_window(trainer, trial)
        elif every is None:
            refuse(f"the metric {halving.curve} is no curve of trials without trial.evaluate_every", "curve")
        else:
            window = -(-every // trainer.stride_steps) * trainer.stride_steps
            for number, rung in enumerate(rungs):
                if rung.steps % every:
                    message = f"is no multiple of trial.evaluate_every, which is {every:,}"
                    refuse(message, "rungs", number, "steps")
        if rungs[0].steps < window:
            refuse(f"is before the first point of the curve, at step {window:,}", "rungs", 0, "steps")
        if rungs[last].steps >= trial.steps:
            end = f"the end of a training of {counted(trial.steps, 'step')}"
            refuse(f"step {rungs[last].steps:,} is not before {end}", "rungs", last, "steps")
