"""Events in words, one or two lines each, for a terminal as for a log."""

from collections.abc import Sequence

from sweeper import events
from sweeper.events import Event
from sweeper.messages import counted, duration, inflected, printable


def sentences(event: Event) -> list[str]:
    """Lines about an event; none for an event that only changes counts. Foreign text in them is made printable."""
    return [printable(line) for line in _lines(event)]


def _lines(event: Event) -> list[str]:
    match event:
        case events.SweepStarted(address):
            return [f"running on {'this machine' if address is None else f'the Ray cluster at {address}'}"]
        case events.ResourcesAwaited(bundle):
            wanted = " and ".join(counted(amount, name) for name, amount in bundle.items())
            return [f"no node of the cluster has the {wanted} that a pack takes yet; waiting for one"]
        case events.LanesChosen(_, lanes, trial_ids, reason):
            return [f"{lanes:,} of {counted(len(trial_ids), 'trial')} of a pack are trained at once: {reason}"]
        case events.CheckpointRefused(_, trial_ids, reason):
            return [f"the checkpoint of {_named(trial_ids)} {reason}: its training starts anew"]
        case events.WorkerDied(_, trial_ids, started=True):
            return [f"a worker died with {_named(trial_ids)}; the pack goes on from its last checkpoint"]
        case events.WorkerDied(_, trial_ids, started=False):
            return [f"a worker died before it took up {_named(trial_ids)}; the pack is started again"]
        case events.WorkerStuck(_, trial_ids, seconds):
            return [f"nothing new of {_named(trial_ids)} for {duration(seconds)}: the pack is tried in another worker"]
        case events.PackFailed(_, trial_ids, reason, log):
            return [f"{_named(trial_ids)} failed: {reason}"] + ([f"  traceback on {log}"] if log else [])
        case events.TrialsLost(_, trial_ids, reason):
            return [f"{_named(trial_ids)} could not be committed: {reason}"]
        case events.SweepStopping(cause, packs):
            why = "interrupted" if cause == "interrupted" else "nothing can be committed any more"
            return [f"{why}: {counted(packs, 'running pack')} asked to leave a checkpoint"]
        case events.SweepStopped(packs, checkpoints, finished):
            return [_stopped(packs, checkpoints, finished)] if packs else []
        case _:
            return []


def _stopped(packs: int, checkpoints: int, finished: int) -> str:
    """How packs have ended that were asked to leave a checkpoint."""
    parts = [f"{checkpoints:,} of {counted(packs, 'pack')} left a checkpoint"]
    if finished:
        parts.append(f"{finished:,} finished")
    if anew := packs - checkpoints - finished:
        parts.append(f"{anew:,} had none to leave and {inflected(anew, 'starts', 'start')} anew")
    return ", ".join(parts)


def _named(trial_ids: Sequence[str]) -> str:
    others = len(trial_ids) - 1
    return f"trial {trial_ids[0]}" + (f" and {others:,} more of its pack" if others else "")
