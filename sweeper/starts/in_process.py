"""Packs one after another in this process, without Ray."""

from sweeper import events, listeners
from sweeper.interruption import Interruption
from sweeper.listeners.heard_start import HeardStart
from sweeper.packs.pack_run import Destination, opened
from sweeper.packs.plan import Work
from sweeper.packs.progress_events import ProgressEvents, label, varying
from sweeper.starts.planned_sweep import PlannedSweep
from sweeper.trial import plugins
from sweeper.trial.fingerprint import LoadedCode


def run_packs(sweep: PlannedSweep, interruption: Interruption) -> None:
    """Train, evaluate and commit all pending trials of a sweep.

    An exception of a task or model passes through, so that its traceback is there to be read; the trials of its pack
    stay pending. So does Ctrl-C, after the pack has left a checkpoint.

    Args:
        sweep: What to run.
        interruption: Where a request to stop arrives; Ctrl-C is an exception here, as in any Python program.

    Raises:
        OtherCodeError: code was edited meanwhile, and this process may import or read the rest of it only now.
    """
    heard = HeardStart(sweep.output.out, sweep.store, sweep.origin.command, interruption.ask)
    with events.Stream(listeners.listeners(heard), warn=sweep.output.complain) as stream:
        stream.emit(sweep.event())
        stream.emit(events.SweepStarted(address=None))
        names = varying(sweep.source.planned.values())
        # Without other packs under way the source always has the next pack, until it is exhausted.
        while interruption.signum is None and (work := sweep.source.next()) is not None:
            stream.emit(events.PackStarted(work.pack.pack_id, label(work.pack, names), work.pending, work.until))
            _run_pack(sweep, work, stream, interruption)
            sweep.source.settle(work.pack.pack_id)
            stream.emit(events.PackEnded(work.pack.pack_id))
            stream.emit(sweep.event())


def _run_pack(sweep: PlannedSweep, work: Work, stream: events.Stream, interruption: Interruption) -> None:
    destination = Destination.of(sweep.store, sweep.origin, sweep.spec.resources)
    share = sweep.spec.resources.device_share
    with plugins.contained():
        run = opened(work.pack, work.pending, destination, segment=work.segment, device_share=share)
    if run.refused_checkpoint is not None:
        stream.emit(events.CheckpointRefused(work.pack.pack_id, work.pack.trial_ids, run.refused_checkpoint))
    told, loaded = ProgressEvents(stream), LoadedCode(work.pack.trials)
    try:
        done = False
        while not done:
            if interruption.signum is not None:
                run.checkpoint()
                return
            loaded.require_unchanged()
            with plugins.contained():
                progress = run.advance()
            told.tell(progress, lambda: work.pack.trial_ids)
            stream.emit(events.Ticked())
            done = progress.phase == "done"
    except KeyboardInterrupt:
        run.checkpoint()
        raise
