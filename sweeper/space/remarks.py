"""Remarks on doubtful values of a planned sweep, printed before it runs; none of them refuses the sweep."""

from collections.abc import Collection

from sweeper.messages import counted, inflected
from sweeper.space.search import Search
from sweeper.trial.trial_spec import TrialSpec


def remarks(trials: Collection[TrialSpec], search: Search) -> list[str]:
    """A line for each kind of doubtful trial, with the path of the value.

    Args:
        trials: The planned trials.
        search: How their settings are taken.
    """
    return [*_never_warm(trials), *_never_stopped(trials, search)]


def _never_warm(trials: Collection[TrialSpec]) -> list[str]:
    never_warm = [
        (trial.optimizer.warmup_steps, trial.steps) for trial in trials if trial.optimizer.warmup_steps > trial.steps
    ]
    if not never_warm:
        return []
    warmup, steps = never_warm[0]
    return [
        f"  trial.optimizer.warmup_steps: longer than the training of {counted(len(never_warm), 'trial')} "
        f"({warmup:,} of {steps:,} steps), whose learning rate never reaches its peak"
    ]


def _never_stopped(trials: Collection[TrialSpec], search: Search) -> list[str]:
    if search.early_stopping is None:
        return []
    grace = search.early_stopping.grace_steps
    short = [trial.steps for trial in trials if trial.steps <= grace]
    if not short:
        return []
    subject = f"{counted(len(short), 'trial')} {inflected(len(short), 'is', 'are')}"
    return [
        f"  search.early_stopping.grace_steps: {subject} never stopped early, as a training of {max(short):,} steps "
        f"ends before step {grace + 1:,}"
    ]
