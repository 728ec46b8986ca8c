"""What a planned sweep can do and probably should not: told before it runs, and no reason to refuse it."""

from collections.abc import Collection

from sweeper.messages import counted
from sweeper.trial.trial_spec import Adam, TrialSpec


def remarks(trials: Collection[TrialSpec]) -> list[str]:
    """A line for each kind of doubtful trial, with the path of the value."""
    never_warm = [
        (trial.optimizer.warmup_steps, trial.steps)
        for trial in trials
        if isinstance(trial.optimizer, Adam) and trial.optimizer.warmup_steps > trial.steps
    ]
    if not never_warm:
        return []
    warmup, steps = never_warm[0]
    return [
        f"  trial.optimizer.warmup_steps: longer than the training of {counted(len(never_warm), 'trial')} "
        f"({warmup:,} of {steps:,} steps), whose learning rate never reaches its peak"
    ]
