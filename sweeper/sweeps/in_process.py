"""The packs of a sweep in this process, one after another, without Ray.

What an exception means is said in `sweeper.packs.failures`, as for workers.
"""

import contextlib
import dataclasses
import functools
import io
import math
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from sweeper import events
from sweeper.events import Listener
from sweeper.interruption import Interruption
from sweeper.packs import failures
from sweeper.packs.device_memory import room_for_lanes
from sweeper.packs.failures import commit_failed
from sweeper.packs.pack_run import Destination, PackRun
from sweeper.packs.plan import ListedWork, Work
from sweeper.packs.progress_events import PackEvents, preparing, printed_lines
from sweeper.space.early_stopping import StoppingRule
from sweeper.sweeps.output import Output
from sweeper.sweeps.sweep_plan import SweepPlan
from sweeper.temporary_folders import remove_those_of_the_dead
from sweeper.training.kind import kind_of
from sweeper.trial import jax_settings
from sweeper.trial.loaded_code import LoadedCode, imported_files
from sweeper.trial.trial import used_plug_ins

LOOK_SECONDS = 1.0  # between two looks at the files of the code
LONG_SECONDS = 120.0  # of training by one pack, from which on idle cores are told


def trained(
    plan: SweepPlan, listeners: Sequence[Listener], output: Output, interruption: Interruption
) -> tuple[list[events.TrialsLost], bool]:
    """Train all packs; returns the trials that could not be committed, and whether the store took no more commits.

    The first Ctrl-C is answered between two strides, in which the state is nowhere whole. It is an `OtherCodeError` if
    code was edited since this process has loaded it; once its programs are made, it may be edited.
    """
    LoadedCode(used_plug_ins(plan.trials.values())).require_unchanged()
    failures.log_no_callbacks()
    remove_those_of_the_dead()
    with events.Stream(listeners, warn=output.complain) as stream, interruption.answered_by("note"):
        return _Loop(plan, stream, interruption).run()


class _Loop:
    """Follows every pack from its start to its end."""

    def __init__(self, plan: SweepPlan, stream: events.Stream, interruption: Interruption):
        self._plan, self._stream, self._interruption = plan, stream, interruption
        early_stopping = plan.spec.search.early_stopping
        self._rule = None if early_stopping is None else StoppingRule(early_stopping)
        self._code, self._imported = LoadedCode(used_plug_ins(plan.trials.values())), frozenset[Path]()
        self._looked = -math.inf  # when the files of the code were looked at
        self._destination = Destination.of(plan.store, plan.origin, plan.spec.resources)
        self._events = PackEvents(stream, plan.source, plan.event)
        self._progress: events.PackProgressed | None = None  # of the pack that is trained
        self._is_alone = len(plan.source.upcoming()) == 1 and isinstance(plan.source, ListedWork)  # the pack

    def run(self) -> tuple[list[events.TrialsLost], bool]:
        source = self._plan.source
        self._stream.emit(self._plan.event())
        self._stream.emit(events.SweepStarted(address=None))
        # Without other packs under way the source always has the next pack, until it is exhausted.
        while not (self._interruption.asked or self._events.refused) and (work := source.next()) is not None:
            self._events.started(work)
            self._progress, trouble = None, None
            try:
                self._train(work)
            except Exception as error:
                rows = {} if self._progress is None else self._progress.rows
                commit = functools.partial(commit_failed, self._plan.store, self._plan.origin, work, committed=rows)
                trouble = failures.trouble(error, self._progress, commit)
            self._events.done(work, trouble)
            self._events.ended(work, self._progress is not None and self._progress.phase == "done")
        for kind in set(map(kind_of, source.planned.values())):
            kind.forget_data()
        if self._events.refused:
            self._stream.emit(events.SweepStopping("store refuses", packs=0))
        return self._events.losses, self._events.refused

    def _train(self, work: Work) -> None:
        """Train, evaluate and commit a pack, or leave a checkpoint when the sweep is to stop."""
        jax_settings.put_back()  # an earlier pack may have changed one
        resources, pack_id = self._plan.spec.resources, work.pack.pack_id
        self._tell(work, preparing(work))
        with self._prints_told(pack_id):
            run = PackRun(
                work.pack,
                work.pending,
                self._destination,
                segment=work.segment,
                room=room_for_lanes(resources.device_share),
                early_stopping=self._plan.spec.search.early_stopping,
            )
        progress = run.progress()
        if progress.phase == "training":
            self._tell(work, dataclasses.replace(progress, phase="compiling"))
        while progress.phase != "done":
            if self._interruption.asked:
                self._leave(run)
                return
            self._require_unchanged()
            with self._prints_told(pack_id):
                progress = run.advance()
                if self._rule is not None and self._rule.stops(progress):
                    run.stop_early()
                    progress = run.progress()
            self._imported = self._imported or imported_files()
            self._tell(work, progress)
            self._tell_of_idle_cores(work, progress)

    def _tell_of_idle_cores(self, work: Work, progress: events.PackProgressed) -> None:
        """Tell once that a long training of one pack could use more cores.

        Packs are not cut by what they cost: they would be others at the next start, which knows the cost. Lanes that
        train together stay together, as their number counts.
        """
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        lanes, rate = len(work.pending), progress.steps_per_second
        seconds = (progress.steps - progress.step) * lanes / rate if rate else 0.0
        if self._is_alone and min(cores, lanes) > 1 and seconds >= LONG_SECONDS and progress.phase == "training":
            self._is_alone = False
            if not work.pack.trials[0].lanes_together:
                self._stream.emit(events.CoresIdle(work.pack.pack_id, cores, seconds, -(-lanes // cores)))

    def _require_unchanged(self) -> None:
        """Look once a second whether files were edited that this process may still read."""
        if time.monotonic() >= self._looked + LOOK_SECONDS:
            self._code.require_unchanged(self._imported)
            self._looked = time.monotonic()

    def _leave(self, run: PackRun) -> None:
        limit = self._interruption.limit or ""
        self._stream.emit(events.SweepStopping("limit" if limit else "interrupted", 1, limit))
        run.checkpoint()
        self._events.left(self._plan.store, {run.pack_id}, ())

    @contextlib.contextmanager
    def _prints_told(self, pack_id: str) -> Iterator[None]:
        """Tell what plug-ins print in this block."""
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                yield
        finally:
            if lines := printed_lines(printed.getvalue()):
                self._stream.emit(events.PluginPrinted(pack_id, lines))

    def _tell(self, work: Work, progress: events.PackProgressed) -> None:
        self._progress = progress
        self._events.progressed(work, progress)
        self._stream.emit(events.Ticked())
