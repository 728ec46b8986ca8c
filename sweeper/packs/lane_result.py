"""The row of one lane of a trained pack: the evaluation of its network, or why the trial failed.

Invariant: a row says `finished` or `stopped` only if the weights and every metric are finite.
"""

import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import replace

import jax
import numpy as np

from sweeper.packs import device_memory
from sweeper.packs.pack_training import PackTraining
from sweeper.packs.packing import lane
from sweeper.packs.trained_trial import weights_of
from sweeper.store.store import TrialResult
from sweeper.training import evaluation
from sweeper.training.trainer import BROKEN_BY, FAILURES
from sweeper.trial import contracts
from sweeper.trial.contracts import ContractError
from sweeper.trial.trial_spec import TrialSpec


def lane_result(row: TrialResult, training: PackTraining, index: int) -> TrialResult:
    """The row of the lane `index` with metrics, outcomes, network and timings, or as that of a failed trial.

    The given row has what is known before the evaluation. Its status is for a trial whose weights and metrics are
    finite, and the last point of its training curve becomes a metric.
    """
    state, trial = training.state, row.trial
    if failure := int(np.asarray(state.failure)[index]):
        step = int(np.asarray(state.step)[index])
        message = f"{FAILURES[failure]} at step {step}"
        if failure in BROKEN_BY:
            message += f": {contracts.place(trial.task, BROKEN_BY[failure])}"
        return _failed(row, training, FAILURES[failure], message, step)
    network = lane(state.network, index)
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(network)):
        # The last update may have made weights infinite, and no further step has shown it.
        message = f"non-finite weights after step {training.step}"
        return _failed(row, training, "non-finite weights", message, training.step)
    begun, cpu_begun = time.monotonic(), time.process_time()
    try:
        metrics, outcomes = evaluation.evaluate(trial, network)
    except ContractError as error:
        return _failed(row, training, "broken contract", str(error), training.step)
    metrics |= {"train_loss": [value for _, name, value in row.curves if name == "train_loss"][-1]}
    if spoilt := [name for name, value in metrics.items() if not math.isfinite(value)]:
        return _failed(row, training, "non-finite evaluation", f"non-finite {', '.join(spoilt)}", training.step)
    weights, spent = weights_of(network), (time.monotonic() - begun, time.process_time() - cpu_begun)
    timings = _timings(training, training.step, *spent)
    return replace(row, metrics=metrics, outcomes=outcomes, network=weights, timings=timings)


def mean_metric(trials: Sequence[TrialSpec], training: PackTraining, metric: str) -> float:
    """The mean of a metric over the sound lanes of a pack, by the protocol of each trial; NaN if no lane has it."""
    values = []
    for index, trial in enumerate(trials):
        if not np.asarray(training.state.failure)[index]:
            with contextlib.suppress(ContractError):  # the row will say so
                metrics, _ = evaluation.evaluate(trial, lane(training.state.network, index))
                values.append(metrics.get(metric, math.nan))
    finite = [value for value in values if math.isfinite(value)]
    return float(np.mean(finite)) if finite else math.nan


def _failed(row: TrialResult, training: PackTraining, kind: str, message: str, step: int) -> TrialResult:
    error = {"kind": kind, "message": message, "step": step}
    return replace(row, status="failed", error=error, timings=_timings(training, step))


def _timings(
    training: PackTraining, step: int, evaluation_seconds: float | None = None, evaluation_cpu_seconds: float = 0.0
) -> dict[str, float]:
    """The timings of one lane, which has its share of those of the pack."""
    seconds = {name: value / len(training.lane_steps) for name, value in training.seconds.items()}
    if evaluation_seconds is not None:
        seconds["evaluation_seconds"] = evaluation_seconds
    wall = sum(seconds.get(f"{part}_seconds", 0.0) for part in ("compile", "train", "evaluation"))
    return seconds | {
        "cpu_seconds": seconds["cpu_seconds"] + evaluation_cpu_seconds,
        "wall_seconds": wall,
        "steps_done": float(step),
        "steps_per_second": step / seconds["train_seconds"] if seconds["train_seconds"] else 0.0,
        "peak_memory_bytes": float(device_memory.peak_bytes()),
    }
