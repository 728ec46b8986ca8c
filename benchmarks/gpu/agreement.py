"""The numbers of the accelerator beside those of the CPU of the same machine."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.shipped_trials import EXPERIMENTS, shipped_experiment, shipped_trial
from sweeper.learned_algorithms import evaluation, evolution, gradient
from sweeper.learned_algorithms.strategy_contract import EvolutionStrategy
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.packs.packing import stack
from sweeper.training import compilation, experiments
from sweeper.trial import vectorisation
from sweeper.trial.experiment_trial import ExperimentTrial

STEPS = 10
"""Training steps after which weights are compared: rounding has had little time to grow."""

FEW = 1
"""Steps of an experiment after which its state is compared: where actions are drawn, rounding may turn one around."""

LANES = 2
"""Lanes of what is compared after training: the programs of several lanes are those that train."""


class Bound(NamedTuple):
    """How far the numbers of two devices may differ."""

    largest: float  # largest difference of a number, relative to the largest number of its array
    differing: float = 0.0  # share of the numbers of an array that may differ more; if it is not 0, a single number may


BOUNDS = {
    "losses": Bound(1e-5),
    # An action is an argmax: where two logits are close, an agent may turn the other way.
    "losses of individuals": Bound(1e-5, differing=0.02),
    "objectives of a generation": Bound(1e-5, differing=0.02),
    "centre and deviations after it": Bound(1e-3, differing=0.02),
    # Adam divides by the size of a gradient: where a gradient is next to nothing, rounding may turn a step around. The
    # running means of the gradients show wrong gradients, and the changes show a wrong step.
    f"gradients of {STEPS} steps, running means": Bound(1e-4),
    f"changes of weights by {STEPS} steps": Bound(1e-2, differing=0.02),
    "success of every input": Bound(1e-5, differing=0.02),
    f"numbers of {FEW} step, means": Bound(1e-4),
    # A step may be many of Adam's: in one of PPO 6 % of the weights differ between the two forms on one CPU.
    f"changes of the state by {FEW} step": Bound(1e-2, differing=0.1),
}


def print_item(name: str, toy: bool) -> bool:
    """Print the table of a task or an experiment; whether all of its bounds were kept."""
    print("| trained | numbers | largest difference | beyond the bound | bound | kept |\n|---|---|---|---|---|---|")
    trial = shipped_experiment(name, toy) if name in EXPERIMENTS else shipped_trial(name, toy)
    all_kept = True
    here = numbers_of(trial)
    with jax.default_device(jax.devices("cpu")[0]), vectorisation.built_for("cpu"):
        defined = numbers_of(trial)
    for numbers, bound in BOUNDS.items():
        if numbers not in here:
            continue
        expected = defined[numbers]
        difference = np.abs(here[numbers] - expected) / max(1e-30, float(np.abs(expected).max()))
        beyond = int((~(difference <= bound.largest)).sum())  # NaN is beyond any bound
        allowed = max(1, int(bound.differing * difference.size)) if bound.differing else 0
        kept = beyond <= allowed and bool(np.isfinite(here[numbers]).all() and np.isfinite(expected).all())
        all_kept &= kept
        limit = f"{bound.largest:g}" + (f" but for {bound.differing:.0%}" if bound.differing else "")
        print(
            f"| {name} | {numbers} | {difference.max():.1e} | {beyond} of {difference.size} | {limit} "
            f"| {'yes' if kept else 'NO'} |",
            flush=True,
        )
    print()
    return all_kept


def numbers_of(trial: TrialSpec | ExperimentTrial) -> dict[str, np.ndarray]:
    """The numbers to compare, computed on the default device in the form that is being built."""
    return _of_experiment(trial) if isinstance(trial, ExperimentTrial) else _of_task(trial)


def _of_experiment(trial: ExperimentTrial) -> dict[str, np.ndarray]:
    lanes = stack([trial.model_copy(update={"seed": trial.seed + lane}) for lane in range(LANES)])
    data = experiments.data_of(lanes)
    begun = compilation.compiled(experiments.init, lanes, data)(lanes, data)
    program = compilation.compiled(experiments.advance, lanes, begun, data, FEW, static_argnums=3)
    ended, numbers = program(lanes, begun, data)
    begun, ended = (_flat(_of_reals(state.network)) for state in (begun, ended))
    return {f"numbers of {FEW} step, means": _flat(numbers), f"changes of the state by {FEW} step": ended - begun}


def _of_reals(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]


def _of_task(trial: TrialSpec) -> dict[str, np.ndarray]:
    def losses(trial: TrialSpec) -> Any:
        network = trial.model.build(trial.task, trial.keys().weights)
        inputs = trial.task.sample_inputs(trial.keys().training, trial.batch_size)
        return trial.task.losses(network, inputs, trial.task.sample_seeds(trial.keys().evaluation, 10))

    computed = np.asarray(compilation.compiled(losses, trial)(trial))
    stacked = stack([trial.model_copy(update={"seed": trial.seed + lane}) for lane in range(LANES)])
    _, columns = evaluation.evaluate(trial, trial.model.build(trial.task, trial.keys().weights))
    success = {"success of every input": columns["success"]}
    if isinstance(trial.optimizer, EvolutionStrategy):
        begun = evolution.start(stacked)
        objectives = evolution.in_process(stacked, begun.distribution(), np.asarray(begun.step))
        told, _ = evolution.stride(stacked, begun, evolution.STRIDE)
        return success | {
            "losses of individuals": computed,
            "objectives of a generation": np.concatenate([np.ravel(block) for block in objectives]),
            "centre and deviations after it": _flat(told.distribution()),
        }
    begun = gradient.start(stacked)
    ended, _ = compilation.compiled(gradient.advance, stacked, begun, STEPS, static_argnums=2)(stacked, begun)
    return success | {
        "losses": computed,
        f"gradients of {STEPS} steps, running means": _flat(optax.tree.get(ended.optimizer, "mu")),
        f"changes of weights by {STEPS} steps": _flat(ended.network) - _flat(begun.network),
    }


def _flat(tree: Any) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])
