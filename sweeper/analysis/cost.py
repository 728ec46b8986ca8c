"""The cost of pending trials, estimated by rows of trials that cost the same.

Trials of one shape have the same programs, but for their number of steps. They cost the same for every step and every
evaluation.
"""

import contextlib
import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from sweeper.messages import counted, duration
from sweeper.packs.packing import shape
from sweeper.store.store import Store
from sweeper.trial import plugins
from sweeper.trial.trial import Trial, trial_of


def estimate(store: Store, trials: Iterable[Trial]) -> str:
    """The cost of trials in words: seconds of one worker, by the medians of what rows of their shapes have taken."""
    by_shape: dict[Any, list[Trial]] = defaultdict(list)
    for trial in trials:
        by_shape[shape(trial)].append(trial)
    if not by_shape:
        return "nothing to run"
    steps: dict[Any, list[float]] = defaultdict(list)
    evaluations: dict[Any, list[float]] = defaultdict(list)
    for row in _measured(store.trials(), "spec"):
        # A plug-in may be gone, or have other fields.
        with contextlib.suppress(plugins.PluginError, ValidationError):
            own = shape(trial_of(json.loads(row["spec"])))
            steps[own].append(row["train_seconds"] / row["steps_done"])
            evaluations[own].append(row["evaluation_seconds"])
    known = by_shape.keys() & steps.keys()
    if not known:
        return "unknown, the store has no trial of this structure yet"
    medians = {key: (statistics.median(steps[key]), statistics.median(evaluations[key])) for key in known}
    seconds = sum(trial.steps * medians[key][0] + medians[key][1] for key in known for trial in by_shape[key])
    unknown = sum(len(by_shape[key]) for key in by_shape.keys() - known)
    rest = f", and {counted(unknown, 'trial')} of unknown cost" if unknown else ""
    return f"about {duration(seconds)} of one worker{rest}"


def _measured(trials: pa.Table, column: str) -> list[dict[str, Any]]:
    """This column, the steps and both seconds of the rows that say what training and evaluation took."""
    times = ["steps_done", "train_seconds", "evaluation_seconds"]
    return [row for row in trials.select([column, *times]).to_pylist() if all(row[name] for name in times)]


def step_seconds(store: Store, trials: Mapping[str, Trial]) -> dict[Any, float]:
    """Seconds of one worker for a training step, by shape, evaluation included: medians over the rows of these trials.

    As listeners are told before a sweep begins, no other row is read; `estimate` reads all rows of the store.
    """
    seconds: dict[Any, list[float]] = defaultdict(list)
    for row in _measured(store.trials(trials), "trial_id"):
        spent = row["train_seconds"] + row["evaluation_seconds"]
        seconds[shape(trials[row["trial_id"]])].append(spent / row["steps_done"])
    return {key: statistics.median(own) for key, own in seconds.items()}
