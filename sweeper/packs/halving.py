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
    - No segment of a trial is handed out twice in one process. The next start of the sweep runs lost work.
"""

import contextlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from sweeper.packs import checkpoint
from sweeper.packs.pack_training import curve_window, lane_curves, restored
from sweeper.packs.packing import Pack, packs
from sweeper.packs.plan import Segment, Work, WorkSource
from sweeper.packs.rung_losses import stored_losses
from sweeper.space.halving_search import HalvingSearch
from sweeper.space.problems import Problem, SearchSpaceError
from sweeper.space.sweep_spec import SweepSpec
from sweeper.store.store import Status, Store, StoreError
from sweeper.store.superseded import supersede
from sweeper.training.trainers import trainer_of
from sweeper.trial.trial_spec import TrialSpec, trial_id


class HalvingWork(WorkSource):
    """The work of a successive halving.

    Attributes:
        searches: Ids of the trials of each search, in the order of their seeds.
    """

    def __init__(
        self,
        spec: SweepSpec,
        store: Store,
        committed: Mapping[str, Status],
        done: frozenset[Status],
        fingerprint: Callable[[TrialSpec], str | None],
    ):
        """Reads rows, curves and checkpoints of the trials; writes nothing.

        Args:
            spec: A space with a successive halving.
            store: Where rows and checkpoints are.
            committed: Status of every committed trial at the start.
            done: See `plan.done_statuses`.
            fingerprint: Fingerprint of the code of this start, for a trial; checkpoints of other code do not count.

        Raises:
            SearchSpaceError: a rung lies before the first point of a training curve.
            StoreError: the store cannot be read.
        """
        super().__init__(done)
        assert isinstance(spec.search, HalvingSearch)
        self._store, self._fingerprint = store, fingerprint
        self._search, self._rungs = spec.search, spec.search.rungs
        groups = spec.search.searches(spec.expand().trials)
        self.searches = [tuple(map(trial_id, starts)) for starts in groups]
        self.planned = {trial_id(trial): trial for starts in groups for trial in starts}
        self._refuse_early_rungs(spec)
        # Lanes take turns on a CPU, so that packs of one trial keep more cores busy.
        lanes = spec.resources.lanes or (spec.search.starts if spec.resources.gpus else 1)
        cut = (pack for starts in groups for pack in packs(starts, lanes))
        self._pack = {key: number for number, pack in enumerate(cut) for key in pack.trial_ids}
        self._rows: dict[str, Status] = {}
        self._losses: dict[str, tuple[float, ...]] = defaultdict(tuple)
        self._holder: dict[str, str] = {}
        self._lanes: dict[str, tuple[str, ...]] = {}
        self._open: dict[str, Work] = {}
        self._given: set[tuple[str, Segment]] = set()
        self._read_rows([key for key in self.planned if committed.get(key) in done])
        for name in store.listing("checkpoints"):
            self._read_checkpoint(PurePosixPath(name).stem)
        self.steps = sum(self._segments())
        self._advance()

    def _refuse_early_rungs(self, spec: SweepSpec) -> None:
        first = self._rungs[0].steps
        for trial in self.planned.values():
            window = curve_window(trainer_of(trial), trial)
            if first < window:
                text = f"is before the first point of the training curve, at step {window:,}"
                raise SearchSpaceError(str(spec.path), [Problem("search.rungs[0].steps", text)])

    @property
    def exhausted(self) -> bool:
        return not self._open

    def next(self) -> Work | None:
        work = super().next()
        if work is not None and work.until < work.pack.trials[0].steps:
            # A row of another sweep, or of the same one with other rungs, which ends before this segment does.
            short = [key for key in work.pending if self._rows.get(key) == "stopped"]
            if short:
                supersede(self._store, short)
                for key in short:
                    del self._rows[key]
        return work

    def settle(self, pack_id: str) -> None:
        work = self._open.pop(pack_id, None)
        if work is None:
            return
        with contextlib.suppress(OSError, StoreError):  # then the next start reads the pack's trials from the store
            self._read_rows(work.pack.trial_ids)
            self._read_checkpoint(pack_id)
        self._advance()

    @property
    def held_up(self) -> tuple[str, ...]:
        return tuple(key for key in self.planned if key not in self._rows)

    def expected(self, pending: Collection[str]) -> list[TrialSpec]:
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

    # ----------------------------------------------------------------------------------------------------------------
    # What the store knows
    # ----------------------------------------------------------------------------------------------------------------

    def _read_rows(self, trial_ids: Collection[str]) -> None:
        """Take the status and the losses of trials from their rows and curves."""
        for key, stored in stored_losses(self._search, self._store, trial_ids).items():
            self._rows[key] = stored.status
            self._learn(key, stored.losses)

    def _read_checkpoint(self, pack_id: str) -> None:
        """Take the losses of trials from a checkpoint, if they are trials of the sweep and the code is the same."""
        saved = checkpoint.load(self._store, pack_id)
        first = None if saved is None else self.planned.get(saved.trial_ids[0])
        if saved is None or first is None or saved.fingerprint != self._fingerprint(first):
            return
        self._lanes[pack_id] = saved.trial_ids
        training = restored(None, saved.notes)
        for lane, key in enumerate(saved.trial_ids):
            if key in self.planned:
                curves = lane_curves(trainer_of(first), first, training, lane)
                points = [(step, value) for step, name, value in curves if name == "train_loss"]
                losses = self._search.losses(points, training.lane_steps[lane])
                if self._learn(key, losses) or key not in self._holder:
                    self._holder[key] = pack_id

    def _learn(self, key: str, losses: tuple[float, ...]) -> bool:
        """Take the losses of a trial at the rungs; returns whether these are news."""
        news = len(losses) > len(self._losses[key])
        if news:
            self._losses[key] = losses
        return news

    def _note_finished(self) -> None:
        """Find the checkpoints whose trials all have a row; those of failed trials stay, for a retry."""
        for pack_id, lanes in self._lanes.items():
            if all(self._rows.get(key) in ("finished", "stopped") for key in lanes):
                self.finished |= {pack_id}

    # ----------------------------------------------------------------------------------------------------------------
    # What is next
    # ----------------------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        self._note_finished()
        for search in self.searches:
            for keys, segment in self._due(search):
                self._hand_out(keys, segment)

    def _due(self, search: Sequence[str]) -> list[tuple[list[str], Segment]]:
        """The work of a search, as far as its rungs are decided; trials that go on stand first."""
        alive, stops = list(search), []
        for number, rung in enumerate(self._rungs):
            reached = [key for key in alive if len(self._losses[key]) > number]
            missing = [key for key in alive if key not in reached and self._rows.get(key) != "failed"]
            if missing:
                return [(missing, Segment(rung.steps, "pause")), *stops]
            alive = self._search.going_on(number, {key: self._losses[key] for key in reached})
            losers = [key for key in reached if key not in alive and key not in self._rows]
            stops.append((losers, Segment(rung.steps, "stop")))
        winners = [key for key in alive if self._rows.get(key) not in ("finished", "failed")]
        return [(winners, Segment(self.planned[search[0]].steps, "finish")), *stops]

    def _hand_out(self, keys: Iterable[str], segment: Segment) -> None:
        """Queue the segment for those of the trials that have not been given it yet, pack by pack."""
        parts: dict[tuple[int, str | None], list[str]] = defaultdict(list)
        for key in keys:
            if (key, segment) not in self._given:
                self._given.add((key, segment))
                parts[self._pack[key], self._holder.get(key)].append(key)
        for (_, parent), names in parts.items():
            pack = Pack(tuple(self.planned[key] for key in sorted(names, key=lambda key: self.planned[key].seed)))
            work = Work(pack, pack.trial_ids, replace(segment, parent=parent))
            self._open[pack.pack_id] = work
            self._waiting.append(work)

    def _segments(self) -> Iterator[int]:
        """Last steps of the segments that this process may hand out, one for each trial of a segment."""
        for search in self.searches:
            alive, rows = len(search), sum(key in self._rows for key in search)
            for number, rung in enumerate(self._rungs):
                reached = sum(len(self._losses[key]) > number for key in search)
                yield from [rung.steps] * max(alive - reached, 0)
                stopped, alive = max(alive - rung.keep, 0), min(rung.keep, alive)
                yield from [rung.steps] * max(stopped - rows, 0)
                rows = max(rows - stopped, 0)
            yield from [self.planned[search[0]].steps] * max(alive - rows, 0)
