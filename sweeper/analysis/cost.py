"""The cost of pending trials, estimated by rows of trials that cost the same.

Trials of one shape have the same programs, but for their number of steps. They cost the same for every step and every
evaluation.
"""

import contextlib
import json
import statistics
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

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
    times = ["steps_done", "train_seconds", "evaluation_seconds"]
    for row in store.trials().select(["spec", *times]).to_pylist():
        if not all(row[name] for name in times):
            continue
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
