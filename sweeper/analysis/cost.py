"""What pending trials may cost, told by the rows of trials like them."""

import statistics
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import jax

from sweeper.analysis.results import trial_of
from sweeper.messages import counted, duration
from sweeper.store.store import Store
from sweeper.trial.trial_spec import TrialSpec


def estimate(store: Store, trials: Iterable[TrialSpec]) -> str:
    """The cost of the trials in words: seconds of one worker, and how many trials nothing is known of.

    A trial costs its steps times the median seconds of a step, and the median seconds of an evaluation, of the rows of
    the same structure, whatever their number of steps.
    """
    pending = list(trials)
    if not pending:
        return "nothing to run"
    shapes = {_shape(trial) for trial in pending}
    per_step: dict[Any, list[float]] = defaultdict(list)
    evaluation: dict[Any, list[float]] = defaultdict(list)
    for row in store.trials().select(["spec", "steps_done", "train_seconds", "evaluation_seconds"]).to_pylist():
        if row["train_seconds"] and row["evaluation_seconds"] and row["steps_done"]:
            trial = trial_of(row["spec"])
            if trial is not None and (shape := _shape(trial)) in shapes:
                per_step[shape].append(row["train_seconds"] / row["steps_done"])
                evaluation[shape].append(row["evaluation_seconds"])
    known = [(trial, shape) for trial in pending if (shape := _shape(trial)) in per_step]
    if not known:
        return "unknown, the store has no trial of this structure yet"
    seconds = sum(
        trial.steps * statistics.median(per_step[shape]) + statistics.median(evaluation[shape])
        for trial, shape in known
    )
    unknown = len(pending) - len(known)
    rest = f", and {counted(unknown, 'trial')} of unknown cost" if unknown else ""
    return f"about {duration(seconds)} of one worker{rest}"


def _shape(trial: TrialSpec) -> Any:
    """Equal for trials that cost the same for every step and every evaluation."""
    return jax.tree.structure(trial.model_copy(update={"steps": 1}))
