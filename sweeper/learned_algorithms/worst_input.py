"""The worst input, searched in stages.

The lowest of many noisy successes is too low, by more the more inputs there are, and the success of the input that
seems worst, measured again, is too high. So few seeds r measure all inputs, many measure the thousand that seem worst,
and fresh ones the hundred that still do. One half of the fresh seeds helps to choose among the finalists,
and the other half judges. The value is unbiased for the inputs that are chosen. What is left is that these may not be
the worst one: the value is then too good, by the noise of the choice at most.
"""

import operator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from sweeper.learned_algorithms.contracts import Network, Outcomes, Task
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.trial.metrics import Metric

STAGES = (1000, 100)
"""How many inputs the second stage measures, and how many the third."""


class Finalists(NamedTuple):
    """The inputs that seem worst after two stages."""

    before: Float[Array | np.ndarray, " input"]  # the mean over the seeds r of the second stage
    by_seed: Float[Array | np.ndarray, "input seed"]  # the values by the fresh seeds r of the third, as many


def tail_of(task: Task, outcomes: Outcomes) -> Shaped[Array, "input seed"]:
    """The quantity by which the task judges its worst inputs, of every pair."""
    tail = task.abilities().tail
    return outcomes.correct if tail == "success" else outcomes.measures[tail]


def finalists(
    trial: TrialSpec,
    network: Network,
    inputs: PyTree,
    values: Float[Array, " input"],
    seeds: int,
    counts: tuple[int, int] = STAGES,
) -> Finalists:
    """The finalists by the tail quantity of the trial's task, of which `values` are the means of the first stage.

    The two further stages, of so many inputs each, have `seeds` fresh seeds r. As many seeds run at once as
    `trial.evaluation` has.
    """
    metric = trial.task.abilities().tail_metric
    before, by_seed = values, values[:, None]
    keys = jax.random.split(jax.random.fold_in(trial.keys().evaluation, 1))
    for key, count in zip(keys, counts, strict=True):
        before = by_seed.mean(axis=1)
        worst = jnp.argsort(before if metric.high_is_good else -before)[:count]
        inputs, before = jax.tree.map(operator.itemgetter(worst), (inputs, before))
        by_seed = _by_seed(trial, network, inputs, key, seeds)
    return Finalists(before, by_seed)


def _by_seed(trial: TrialSpec, network: Network, inputs: PyTree, key: Any, seeds: int) -> Float[Array, "input seed"]:
    """The tail quantity of every pair of an input and one of so many fresh seeds r."""
    task, at_once = trial.task, min(seeds, trial.evaluation.seeds)

    def block(key: Any) -> Float[Array, "input seed"]:
        return tail_of(task, task.outcomes(network, inputs, task.sample_seeds(key, at_once))).astype(jnp.float32)

    blocks = jax.lax.map(block, jax.random.split(key, -(-seeds // at_once)))
    return jnp.concatenate(blocks, axis=1)[:, :seeds] if len(blocks) > 1 else blocks[0]


def worst(metric: Metric, finalists: Finalists) -> tuple[float, float]:
    """The value of the worst input and its standard error.

    Both halves of the fresh seeds choose, together with the stage before, and each is judged by the other.
    """
    before, by_seed = (np.asarray(values, np.float64) for values in finalists)
    halves = np.array_split(by_seed, 2, axis=1)
    judged = []
    for chooses, judges in (halves, halves[::-1]):
        total = before * by_seed.shape[1] + chooses.sum(axis=1)
        judged.append(judges[total.argmin() if metric.high_is_good else total.argmax()])
    variance = np.mean([values.var(ddof=1) for values in judged])
    return float(np.mean([values.mean() for values in judged])), float(np.sqrt(variance / by_seed.shape[1]))
