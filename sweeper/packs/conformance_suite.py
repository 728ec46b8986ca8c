"""The whole conformance suite: what `sweeper check` and the tests hold plug-ins against, beyond what every start does.

A start checks shapes and a few values (`conformance`). The suite adds what takes longer: gradients, groups, networks
token by token, and the order of objectives. Every check raises a `ContractError` for the first mistake that it finds.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sweeper.packs import conformance
from sweeper.packs.trained_trial import network_of, weights_of
from sweeper.training.objective import drawn_pairs
from sweeper.trial import vectorisation
from sweeper.trial.contracts import ContractError, Network, Task, broken
from sweeper.trial.objective_contract import Batch
from sweeper.trial.trial_spec import TrialSpec

TOKENS = 7
"""Tokens of the sequences that networks read."""

PLATFORMS = ("cpu", "cuda")
"""Platforms that a program is made for: on a CPU like cases take turns, for a GPU they are computed at once."""


def mistakes(trial: TrialSpec) -> Iterator[str]:
    """Everything that is wrong with the task, the model and the objective of a trial, a line each."""
    try:
        conformance.check_shapes([trial])
        conformance.check_values([trial])
    except ContractError as error:
        yield str(error)
        return  # the other checks would stumble over it
    for check in (*CHECKS, *OBJECTIVE_CHECKS):
        try:
            check(trial)
        except ContractError as error:
            yield str(error)


# Tasks


def check_groups(trial: TrialSpec) -> None:
    """Every evaluation input is in a group, whatever is beside it, and no group is empty."""
    task = trial.task
    if (groups := task.abilities().groups) is None:
        return
    inputs = task.evaluation_inputs()
    numbers = np.asarray(jax.jit(groups.of)(inputs))
    if (empty := sorted(set(range(groups.count)) - set(numbers.tolist()))) or not (numbers < groups.count).all():
        gives = f"groups {sorted(set(numbers.tolist()))[:10]}"
        raise broken(task, "abilities", gives, f"0 to {groups.count - 1}" + (f", {empty[0]} too" if empty else ""))
    last = np.asarray(groups.of(jax.tree.map(lambda leaf: leaf[-1:], inputs)))
    if last.tolist() != [numbers[-1]]:
        raise broken(task, "abilities", f"group {last.tolist()} for an input alone", f"{numbers[-1]}, as among others")


def check_gradients(trial: TrialSpec, platform: str = "cpu", rtol: float = 1e-3, atol: float = 1e-4) -> None:
    """The gradients of `losses` are finite, and those of `loss`."""
    task = trial.task
    if not task.abilities().differentiable:
        return
    network = jax.jit(trial.model.build)(task, jax.random.key(0))
    inputs, seeds = drawn_pairs(trial, *jax.random.split(jax.random.key(1)))
    inputs = jax.tree.map(lambda leaf: leaf[: conformance.INPUTS], inputs)
    with vectorisation.built_for(platform):
        gradient = jax.jit(jax.grad(lambda network: task.losses(network, inputs, seeds).mean()))(network)
    plain = jax.jit(jax.grad(lambda network: Task.losses(task, network, inputs, seeds).mean()))(network)
    for shared, defined in zip(jax.tree.leaves(gradient), jax.tree.leaves(plain), strict=True):
        if not np.isfinite(defined).all():
            bad = float(np.asarray(defined)[~np.isfinite(defined)][0])
            raise broken(task, "loss", f"{bad:.4g} as its gradient with a fresh network", "finite")
        if not np.allclose(shared, defined, rtol=rtol, atol=atol * (1 + np.abs(defined).max())):
            most = float(np.abs(shared - defined).max())
            raise broken(task, "losses", f"a gradient that is {most:.4g} off", "that of loss")


# Models


def _reading(trial: TrialSpec) -> tuple[Network, Any]:
    """A network whose biases are not zero, and a sequence of its tokens."""
    task, model = trial.task, trial.model
    network = jax.jit(lambda key: jax.tree.map(lambda w: 1.3 * w + 0.02, model.build(task, key)))(jax.random.key(5))
    return network, jax.random.normal(jax.random.key(6), (TOKENS, task.token_size()))


def _agree(network: Network, method: str, gives: str, values: Any, must: str, defined: Any, rtol: float) -> None:
    if np.shape(values) != np.shape(defined) or not np.allclose(values, defined, rtol=rtol, atol=0.1 * rtol):
        raise broken(network, method, gives, must)


def check_weights(trial: TrialSpec) -> None:
    """A network is made again of its named weights, which is what the store keeps; weights come from the key alone."""
    build = jax.jit(trial.model.build)
    network, again, other = (build(trial.task, jax.random.key(key)) for key in (0, 0, 1))
    kept = network_of(trial, weights_of(network))
    for copy, of in ((again, "an equal key"), (kept, "its own named weights")):
        equal = jax.tree.map(lambda one, two: bool((one == two).all()), network, copy)
        if not jax.tree.all(equal):
            raise broken(trial.model, "build", f"other weights of {of}", "the same")
    if jax.tree.all(jax.tree.map(lambda one, two: bool((one == two).all()), network, other)):
        raise broken(trial.model, "build", "the same weights for every key", "drawn from the key")


def check_embedding(trial: TrialSpec) -> None:
    """A network embeds content and place, and positions are 0, 1, 2 ... if none are given."""
    network, tokens = _reading(trial)
    positions = jnp.arange(TOKENS)[::-1] % trial.task.context_size()
    apart = network.content(tokens) + network.placed(positions)
    _agree(network, "embed", "another sum", network.embed(tokens, positions), "content and placed", apart, 1e-5)
    plain = network.embed(tokens, jnp.arange(TOKENS))
    _agree(network, "embed", "without positions others", network.embed(tokens), "0, 1, 2 ...", plain, 1e-6)


def check_steps(trial: TrialSpec) -> None:
    """Steps give the logits of the whole sequence; tokens read some earlier ones, which lie in two memories."""
    network, tokens = _reading(trial)
    mask = jnp.tri(TOKENS, dtype=bool) & (jax.random.bernoulli(jax.random.key(7), 0.6, (TOKENS, TOKENS)))
    mask = mask | jnp.eye(TOKENS, dtype=bool)
    half = TOKENS // 2

    @jax.jit
    def stepwise(network: Network, h: Any) -> Any:
        front, back = network.empty_memory(half), network.empty_memory(TOKENS - half)
        logits = []
        for t in range(TOKENS):
            earlier = mask[t] & (jnp.arange(TOKENS) < t)
            answer, own = network.step(h[t], [(front, earlier[:half]), (back, earlier[half:][::-1])])
            logits.append(answer)
            place = t if t < half else TOKENS - 1 - t
            written = jax.tree.map(
                lambda room, new, p=place: room.at[..., p, :].set(new[..., 0, :]), (front, back)[t >= half], own
            )
            front, back = (written, back) if t < half else (front, written)
        return jnp.stack(logits)

    try:
        found = stepwise(network, network.embed(tokens))
    except NotImplementedError:
        return
    _agree(network, "step", "other logits", found, "those of the whole sequence", network(tokens, mask), 1e-4)


def check_depth(trial: TrialSpec) -> None:
    """A token depends on tokens within the depth, and on no others."""
    network, _ = _reading(trial)
    count = network.depth + 2
    tokens = jax.random.normal(jax.random.key(8), (count, trial.task.token_size()))
    chain = jnp.abs(jnp.arange(count)[:, None] - jnp.arange(count)) == 1  # each token reads its two neighbours
    first = jax.jit(jax.jacobian(lambda tokens: network(tokens, chain, jnp.zeros(count, int))[0]))(tokens)
    reached = [position for position in range(count) if bool(jnp.any(first[:, position] != 0))]
    if max(reached, default=0) != network.depth:
        gives = f"{network.depth}, and a token depends on tokens {max(reached, default=0)} steps away"
        raise broken(network, "depth", gives, "that number of steps")


def check_polynomial(trial: TrialSpec) -> None:
    """A polynomial is its network written out."""
    network, tokens = _reading(trial)
    if (polynomial := network.polynomial()) is None:
        return
    mask = jax.random.bernoulli(jax.random.key(7), 0.5, (TOKENS, TOKENS))
    h = network.embed(tokens)
    for layer in polynomial.layers:
        h = h + (mask * (h @ layer.score() @ h.T)) @ h @ layer.update()
    logits = h @ polynomial.readout + polynomial.bias
    _agree(network, "polynomial", "other logits", logits, "those of the network", network(tokens, mask), 1e-4)


# Objectives


def check_order(trial: TrialSpec) -> None:
    """The order of the inputs does not count, and no larger loss gives a smaller value."""
    objective, rng = trial.objective, np.random.default_rng(0)
    division = trial.task.abilities().groups

    @jax.jit
    def value(losses: Any, groups: Any) -> Any:
        batch = Batch(losses, groups if objective.needs_groups else None, jnp.float32(0.25))
        return objective.value(batch, state)

    groups = jnp.arange(12, dtype=jnp.int32) % (1 if division is None else division.count)
    state = objective.initial_state(trial.task)
    for losses in (rng.random(12), 100 * rng.random(12), rng.integers(0, 2, 12)):
        losses = jnp.asarray(losses, jnp.float32)
        order = rng.permutation(12)
        before, shuffled = value(losses, groups), value(losses[order], groups[order])
        if not np.allclose(before, shuffled, rtol=1e-4, atol=1e-6):
            raise broken(objective, "value", f"{before:.6g} and {shuffled:.6g} for two orders of a batch", "the same")
        for index in range(12):
            raised = value(losses.at[index].add(1.0), groups)
            if raised < before - 1e-4 * abs(before) - 1e-6:
                raise broken(objective, "value", f"{raised:.6g} after {before:.6g} when a loss rises", "no smaller")


Check = Callable[[TrialSpec], None]
MODEL_CHECKS: tuple[Check, ...] = (check_weights, check_embedding, check_steps, check_depth, check_polynomial)
CHECKS: tuple[Check, ...] = (check_groups, check_gradients, *MODEL_CHECKS)
OBJECTIVE_CHECKS: tuple[Check, ...] = (check_order,)
