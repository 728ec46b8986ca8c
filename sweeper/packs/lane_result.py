"""The result of one lane of a trained pack: the evaluation of its network, or why the trial failed.

Invariant: a result says `finished` or `stopped` only if the weights and every metric are finite.
"""

import dataclasses
import math
import time
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from sweeper.packs.pack_training import PackTraining
from sweeper.packs.packing import lane
from sweeper.packs.trained_trial import weights_of
from sweeper.store.store import Status
from sweeper.training import evaluation
from sweeper.training.trainer import BROKEN_BY, FAILURES
from sweeper.trial import contracts
from sweeper.trial.contracts import ContractError
from sweeper.trial.trial_spec import TrialSpec


@dataclasses.dataclass(frozen=True)
class LaneResult:
    """The part of a row that belongs to one lane; the rest is the same for the whole pack."""

    status: Status
    step: int
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    outcomes: Mapping[str, np.ndarray] | None = None
    network: Mapping[str, np.ndarray] | None = None
    error: Mapping[str, Any] | None = None
    evaluation_seconds: float | None = None
    evaluation_cpu_seconds: float = 0.0


def lane_result(trial: TrialSpec, training: PackTraining, index: int, status: Status, train_loss: float) -> LaneResult:
    """Evaluate the network of a lane.

    Args:
        trial: The trial of the lane.
        training: The training of its pack.
        index: The lane.
        status: Of a trial whose weights and metrics are finite.
        train_loss: The last point of its training curve, which becomes a metric.
    """
    state = training.state
    if failure := int(np.asarray(state.failure)[index]):
        step = int(np.asarray(state.step)[index])
        message = f"{FAILURES[failure]} at step {step}"
        if failure in BROKEN_BY:
            message += f": {contracts.place(trial.task, BROKEN_BY[failure])}"
        return _failed(FAILURES[failure], message, step)
    network = lane(state.network, index)
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(network)):
        # The last update may have made weights infinite, and no further step has shown it.
        return _failed("non-finite weights", f"non-finite weights after step {training.step}", training.step)
    begun, cpu_begun = time.monotonic(), time.process_time()
    try:
        metrics, columns = evaluation.evaluate(trial, network)
    except ContractError as error:
        return _failed("broken contract", str(error), training.step)
    metrics |= {"train_loss": train_loss}
    if spoilt := [name for name, value in metrics.items() if not math.isfinite(value)]:
        return _failed("non-finite evaluation", f"non-finite {', '.join(spoilt)}", training.step)
    return LaneResult(
        status=status,
        step=training.step,
        metrics=metrics,
        outcomes=columns,
        network=weights_of(network),
        evaluation_seconds=time.monotonic() - begun,
        evaluation_cpu_seconds=time.process_time() - cpu_begun,
    )


def _failed(kind: str, message: str, step: int) -> LaneResult:
    return LaneResult(status="failed", step=step, error={"kind": kind, "message": message, "step": step})
