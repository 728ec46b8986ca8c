"""Training by gradient: a pure function of the trial.

`init` and `advance` take trials and states with a leading lane axis; every lane is one trial. Time enters only through
the step counter in the state, which is folded into the trial's keys. So the numbers do not depend on where a training
is cut into chunks, by a checkpoint or by the death of a machine.

A step of `policy_gradient` follows the gradient of a surrogate (`sweeper.learned_algorithms.policy_gradient`); all else
is the same.

A lane whose loss or gradient is not finite is frozen at that step, with its reason; the other lanes go on.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from sweeper.learned_algorithms import policy_gradient
from sweeper.learned_algorithms.contracts import Network
from sweeper.learned_algorithms.objective import (
    batch_of,
    drawn_pairs,
    failure_of,
    names_of_own_curves,
    next_state,
    own_curves,
)
from sweeper.learned_algorithms.policy_gradient import PolicyCurve
from sweeper.learned_algorithms.trained_weights import trained, with_trained
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.training import compilation
from sweeper.training.trainer import Trainer, over_lanes
from sweeper.trial import vectorisation
from sweeper.trial.optimizer_contract import GradientOptimizer

if TYPE_CHECKING:
    # The driver imports this module, trains nothing, and must not wait for optax, which is imported where it is used.
    import optax

STRIDE = 100
"""Largest number of steps of one program, and steps from one point of a curve to the next."""


class TrainState(NamedTuple):
    """State of a training; outside of this module every leaf has a leading lane axis."""

    network: Network
    optimizer: PyTree  # optax's state
    step: Int[Array, "*lane"]  # steps done
    failure: Int[Array, "*lane"]  # 0, or a key of `objective.FAILURES`
    objective: PyTree  # the objective's state


class StepCurve(NamedTuple):
    """Means over a chunk of steps."""

    train_loss: Float[Array, "*lane"]
    """The trial's objective."""
    mean_loss: Float[Array, "*lane"]
    """The mean over the inputs, on the same batches."""
    own: tuple[Float[Array, "*lane"], ...] = ()
    """The curves of the trial's task and objective."""


def _transformation(trial: TrialSpec) -> "optax.GradientTransformation":
    assert isinstance(trial.optimizer, GradientOptimizer)
    return trial.optimizer.transformation(trial.steps)


def _init(trial: TrialSpec, network: Network | None) -> TrainState:
    if network is None:
        network = trial.initial_network()
    optimizer = _transformation(trial).init(trained(network))
    return TrainState(network, optimizer, jnp.int32(0), jnp.int32(0), trial.objective.initial_state(trial.task))


def _drawn(trial: TrialSpec, step: Int[Array, ""]) -> PyTree:
    """What is drawn for a step: inputs, seeds r, and what else its trainer draws."""
    key = jax.random.fold_in(trial.keys().training, step)
    if trial.optimizer.TRAINER == "policy_gradient":
        return policy_gradient.drawn(trial, key)
    return drawn_pairs(trial, *jax.random.split(key))


def _value(
    trial: TrialSpec, pairs: tuple[PyTree, PyTree], step: Int[Array, ""], state: PyTree, network: Network
) -> tuple[Float[Array, ""], tuple[StepCurve, PyTree, Int[Array, ""]]]:
    """The objective of a step; and its curve, the objective's next state, and a number of `objective.FAILURES`."""
    inputs, seeds = pairs
    batch, mean_loss, broken = batch_of(trial, network, inputs, seeds, step)
    state = next_state(trial, batch, state)
    loss = trial.objective.value(batch, state)
    own = jax.lax.stop_gradient(own_curves(trial, network, inputs, seeds, batch, state))
    return loss, (StepCurve(loss, mean_loss, own), state, broken)


def _joined(
    trial: TrialSpec, state: TrainState
) -> tuple[TrainState, Callable[[Any], Network], Callable[[TrainState], TrainState]]:
    """For an accelerator the weights are one vector, and so is each moment: a tree needs kernels for each leaf.

    An optimiser that looks at matrices keeps the tree, and so does a network with constants.

    Returns:
        The state of `_step`, the network of its weights, and the way back to the state as it was.
    """
    assert isinstance(trial.optimizer, GradientOptimizer)
    has_constants = trained(state.network) is not state.network
    if vectorisation.in_turns() or not trial.optimizer.ELEMENTWISE or has_constants:
        return state, lambda weights: weights, lambda moved: moved
    _, network = ravel_pytree(state.network)

    def is_tree(node: Any) -> bool:
        return isinstance(node, type(state.network))

    def split(moved: TrainState) -> TrainState:
        return jax.tree.map(lambda old, new: network(new) if is_tree(old) else new, state, moved, is_leaf=is_tree)

    joined = jax.tree.map(lambda node: ravel_pytree(node)[0] if is_tree(node) else node, state, is_leaf=is_tree)
    return joined, network, split


def _step(
    trial: TrialSpec, network: Callable[[Any], Network], drawn: PyTree, state: TrainState
) -> tuple[TrainState, StepCurve | PolicyCurve]:
    import optax

    value_of = policy_gradient.sampled_value if trial.optimizer.TRAINER == "policy_gradient" else _value
    of_step = functools.partial(value_of, trial, drawn, state.step, state.objective)
    weights = trained(state.network)
    value = jax.value_and_grad(lambda weights: of_step(network(with_trained(state.network, weights))), has_aux=True)
    (loss, (curve, objective_state, broken)), gradient = value(weights)
    changes, optimizer = _transformation(trial).update(gradient, state.optimizer, weights)
    moved_network = with_trained(state.network, jax.tree.map(jnp.add, weights, changes))

    failure = jnp.where(jnp.isfinite(loss), jnp.where(jnp.isfinite(optax.tree.norm(gradient)), 0, 2), 1)
    failure = jnp.where(broken > 0, broken, failure)
    failure = jnp.where(state.failure > 0, state.failure, failure)
    moved = TrainState(moved_network, optimizer, state.step + 1, state.failure, objective_state)
    kept = jax.tree.map(lambda new, old: jnp.where(failure == 0, new, old), moved, state)
    return kept._replace(failure=failure), curve


def init(trials: TrialSpec, networks: Network | None = None) -> TrainState:
    """The state before the first step, for trials stacked along a lane axis, with these networks or fresh ones."""
    return over_lanes(_init, trials, networks)


def advance(trials: TrialSpec, state: TrainState, length: int) -> tuple[TrainState, StepCurve | PolicyCurve]:
    """`length` steps of every lane and the means over them; nothing is read by the host in between."""

    def run(trial: TrialSpec, state: TrainState) -> tuple[TrainState, StepCurve | PolicyCurve]:
        joined, network, split = _joined(trial, state)
        step = functools.partial(_step, trial, network)
        if vectorisation.in_turns():
            moved, curve = jax.lax.scan(lambda state, _: step(_drawn(trial, state.step), state), joined, length=length)
            return split(moved), jax.tree.map(jnp.mean, curve)

        # For an accelerator all steps are drawn at once, and curves are summed up as they come: each step has a few
        # kernels less. A lane that has failed goes on with what is drawn; only its curve depends on that.
        drawn = jax.vmap(functools.partial(_drawn, trial))(state.step + jnp.arange(length))

        def one_step(carry: Any, drawn: Any) -> tuple[Any, None]:
            moved, curve = step(drawn, carry[0])
            return (moved, jax.tree.map(jnp.add, carry[1], curve)), None

        curve = jax.eval_shape(lambda: step(_drawn(trial, state.step), joined)[1])
        start = joined, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), curve)
        (moved, total), _ = jax.lax.scan(one_step, start, drawn)
        return split(moved), jax.tree.map(lambda leaf: leaf / length, total)

    return over_lanes(run, trials, state)


def start(trials: TrialSpec, networks: Network | None = None) -> TrainState:
    """`init`, by this process's program for it."""
    return compilation.kept(init, trials, networks, runs_once=True)(trials, networks)


def stride(trials: TrialSpec, state: TrainState, length: int) -> tuple[TrainState, StepCurve | PolicyCurve]:
    """`advance`, by this process's program for it; the memory of the old state is used again."""
    return compilation.kept(advance, trials, state, static=(length,), trains=True, donate_argnums=1)(trials, state)


def programs(trials: TrialSpec) -> list[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """The programs of `Trainer.programs`."""
    state = jax.eval_shape(init, trials)
    return [(init, (trials,)), (functools.partial(advance, length=1), (trials, state))]


def memory(trials: TrialSpec) -> int:
    """Bytes of the device that `stride` needs, as the compiler says."""
    state, length = jax.eval_shape(init, trials), min(STRIDE, trials.steps)
    return compilation.kept(advance, trials, state, static=(length,), trains=True, donate_argnums=1).memory_bytes()


TRAINER = Trainer(
    stride_steps=STRIDE,
    curves=("train_loss", "mean_loss"),
    curve_interval=lambda _: STRIDE,
    start=start,
    stride=stride,
    programs=programs,
    memory=memory,
    failure=failure_of,
    own_curves=names_of_own_curves,
)

POLICY_TRAINER = dataclasses.replace(TRAINER, curves=("train_loss", "mean_loss", "worst_loss", "entropy"))
