"""What `sweeper check` and the tests hold plug-ins against, beyond what every start does.

A start checks shapes and a few values. The suite adds what takes longer: gradients, groups, networks token by token,
the order of objectives, and some steps of an optimiser.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sweeper.learned_algorithms.checks.values import INPUTS, quick_program
from sweeper.learned_algorithms.contracts import EmbeddingNetwork, Network, PolynomialNetwork, StepwiseNetwork, Task
from sweeper.learned_algorithms.objective import drawn_pairs
from sweeper.learned_algorithms.objective_contract import Batch
from sweeper.learned_algorithms.trainers import trainer_by_optimizer
from sweeper.learned_algorithms.trial_spec import Baseline, TrialSpec
from sweeper.messages import printable_lines
from sweeper.training.named_weights import network_of, weights_of
from sweeper.trial import plugins, vectorisation
from sweeper.trial.contract_checks import attributed, broken
from sweeper.trial.optimizer_contract import GradientOptimizer

TOKENS = 7
"""Tokens of the sequences that networks read."""


class Example:
    """A trial, and networks of it that several checks look at.

    Attributes:
        trial: The trial.
    """

    def __init__(self, trial: TrialSpec):
        self.trial = trial

    @functools.cached_property
    def networks(self) -> tuple[Network, Network, Network]:
        """Networks as the model builds them: two of equal keys, and one of another."""
        program = quick_program(lambda trial, seed: trial.model.build(trial.task, jax.random.key(seed)), self.trial, 0)
        first, again, other = (program(seed) for seed in (0, 0, 1))
        return first, again, other

    @functools.cached_property
    def network(self) -> Network:
        """A network whose biases are not zero."""
        return jax.tree.map(lambda weight: 1.3 * weight + 0.02, self.networks[0])

    def tokens(self, count: int = TOKENS) -> Any:
        """A sequence of tokens."""
        draws = np.random.default_rng(6).standard_normal((count, self.trial.task.token_size()))
        return draws.astype(np.float32)

    def read(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a function of the network and more arguments."""
        given = (self.network, *arguments)
        return quick_program(lambda _, *given: function(*given), self.trial, *given)(*given)


# Tasks


def check_groups(example: Example) -> None:
    """Every evaluation input is in a group, whatever is beside it, and no group is empty."""
    task = example.trial.task
    groups = task.abilities().groups
    if groups is None:
        return

    def numbered(trial: TrialSpec) -> Any:
        inputs = trial.task.evaluation_inputs()
        return groups.of(inputs), groups.of(jax.tree.map(lambda leaf: leaf[-1:], inputs))

    numbers, last = quick_program(numbered, example.trial)()
    if (empty := sorted(set(range(groups.count)) - set(numbers.tolist()))) or not (numbers < groups.count).all():
        gives = f"groups {sorted(set(numbers.tolist()))[:10]}"
        raise broken(task, "abilities", gives, f"0 to {groups.count - 1}" + (f", {empty[0]} too" if empty else ""))
    if last.tolist() != [numbers[-1]]:
        raise broken(task, "abilities", f"group {last.tolist()} for an input alone", f"{numbers[-1]}, as among others")


def check_gradients(example: Example, platform: str = "cpu", rtol: float = 1e-3, atol: float = 1e-4) -> None:
    """The gradients of `losses` are finite, and those of `loss`."""
    task = example.trial.task
    if not task.abilities().differentiable:
        return

    def gradients(trial: TrialSpec, network: Network) -> Any:
        inputs, seeds = drawn_pairs(trial, *jax.random.split(jax.random.key(1)))
        inputs = jax.tree.map(lambda leaf: leaf[:INPUTS], inputs)
        shared = jax.grad(lambda network: trial.task.losses(network, inputs, seeds).mean())(network)
        with vectorisation.built_for("cpu"):
            plain = jax.grad(lambda network: Task.losses(trial.task, network, inputs, seeds).mean())(network)
        return shared, plain

    network = example.networks[0]
    found = quick_program(gradients, example.trial, network, platform=platform)(network)
    for shared, defined in zip(*map(jax.tree.leaves, found), strict=True):
        if not np.isfinite(defined).all():
            bad = float(defined[~np.isfinite(defined)][0])
            raise broken(task, "loss", f"{bad:.4g} as its gradient with a fresh network", "finite")
        if not np.allclose(shared, defined, rtol=rtol, atol=atol * (1 + np.abs(defined).max())):
            most = float(np.abs(shared - defined).max())
            raise broken(task, "losses", f"a gradient that is {most:.4g} off", "that of loss")


# Models


def _agree(network: Network, method: str, gives: str, values: Any, must: str, defined: Any, rtol: float) -> None:
    if np.shape(values) != np.shape(defined) or not np.allclose(values, defined, rtol=rtol, atol=0.1 * rtol):
        raise broken(network, method, gives, must)


def check_weights(example: Example) -> None:
    """A network is made again of its named weights, which is what the store keeps; weights come from the key alone."""
    (network, again, other), model = example.networks, example.trial.model
    kept = network_of(example.trial, weights_of(network))
    for copy, of in ((again, "an equal key"), (kept, "its own named weights")):
        if not jax.tree.all(jax.tree.map(np.array_equal, network, copy)):
            raise broken(model, "build", f"other weights of {of}", "the same")
    if jax.tree.all(jax.tree.map(np.array_equal, network, other)):
        raise broken(model, "build", "the same weights for every key", "drawn from the key")


def check_mask(example: Example) -> None:
    """The logits of a token depend on no token that it does not reach through the mask."""
    count = example.trial.task.context_size()
    first_half = np.arange(count) < count // 2
    tokens = example.tokens(count)
    others = np.where(first_half[:, None], tokens, 2 - tokens)

    def both(network: Network, *sequences: Any) -> Any:
        mask = jnp.asarray(first_half[:, None] == first_half)
        return [network(sequence, mask)[: count // 2] for sequence in sequences]

    found, defined = example.read(both, tokens, others)
    _agree(example.network, "__call__", "logits of tokens beyond the mask", found, "of those within it", defined, 1e-5)


def check_embedding(example: Example) -> None:
    """A network embeds content and place, and positions are 0, 1, 2 ... if none are given."""
    network = example.network
    if not isinstance(network, EmbeddingNetwork):
        return

    def parts(network: EmbeddingNetwork, tokens: Any, positions: Any) -> Any:
        apart = network.content(tokens) + network.placed(positions)
        return network.embed(tokens, positions), apart, network.embed(tokens), network.embed(tokens, jnp.arange(TOKENS))

    positions = np.arange(TOKENS)[::-1] % example.trial.task.context_size()
    together, apart, plain, counted = example.read(parts, example.tokens(), positions)
    _agree(network, "embed", "another sum", together, "content and placed", apart, 1e-5)
    _agree(network, "embed", "without positions others", plain, "0, 1, 2 ...", counted, 1e-6)


def check_steps(example: Example) -> None:
    """Steps give the logits of the whole sequence; tokens read some earlier ones, which lie in two memories."""
    if not isinstance(example.network, StepwiseNetwork):
        return
    half, numbers = TOKENS // 2, np.arange(TOKENS)
    mask = np.tri(TOKENS, dtype=bool) & (np.random.default_rng(7).random((TOKENS, TOKENS)) < 0.6)
    mask |= np.eye(TOKENS, dtype=bool)

    def both(network: StepwiseNetwork, tokens: Any) -> Any:
        h = network.embed(tokens)

        def one_step(memories: Any, t: Any) -> Any:
            front, back = memories
            earlier = jnp.asarray(mask)[t] & (numbers < t)
            answer, own = network.step(h[t], [(front, earlier[:half]), (back, earlier[half:][::-1])])

            def written(room: Any, new: Any, place: Any) -> Any:
                return room.at[..., place, :].set(new[..., 0, :], mode="drop")

            # Of either memory; a place beyond its end is nowhere.
            places = t, jnp.where(t < half, TOKENS, TOKENS - 1 - t)
            front, back = (
                jax.tree.map(lambda room, new, place=place: written(room, new, place), memory, own)
                for memory, place in zip(memories, places, strict=True)
            )
            return (front, back), answer

        memories = network.empty_memory(half), network.empty_memory(TOKENS - half)
        return jax.lax.scan(one_step, memories, numbers)[1], network(tokens, jnp.asarray(mask))

    found, whole = example.read(both, example.tokens())
    _agree(example.network, "step", "other logits", found, "those of the whole sequence", whole, 1e-4)


def check_depth(example: Example) -> None:
    """A token depends on tokens within the depth, and on no others."""
    network = example.network
    if not isinstance(network, EmbeddingNetwork):
        return
    count = network.depth + 2
    chain = np.abs(np.arange(count)[:, None] - np.arange(count)) == 1  # each token reads its two neighbours

    def first(network: EmbeddingNetwork, tokens: Any) -> Any:
        return jax.jacobian(lambda tokens: network(tokens, jnp.asarray(chain), jnp.zeros(count, int))[0])(tokens)

    jacobian = example.read(first, example.tokens(count))
    reached = max((position for position in range(count) if np.any(jacobian[:, position] != 0)), default=0)
    if reached != network.depth:
        gives = f"{network.depth}, and a token depends on tokens {reached} steps away"
        raise broken(network, "depth", gives, "that number of steps")


def check_polynomial(example: Example) -> None:
    """A polynomial is its network written out."""
    if not isinstance(example.network, PolynomialNetwork):
        return
    mask = np.random.default_rng(7).random((TOKENS, TOKENS)) < 0.5

    def both(network: PolynomialNetwork, tokens: Any) -> Any:
        if (polynomial := network.polynomial()) is None:
            return None
        h = network.embed(tokens)
        for layer in polynomial.layers:
            h = h + (mask * (h @ layer.score() @ h.T)) @ h @ layer.update()
        return h @ polynomial.readout + polynomial.bias, network(tokens, jnp.asarray(mask))

    if (found := example.read(both, example.tokens())) is not None:
        _agree(example.network, "polynomial", "other logits", found[0], "those of the network", found[1], 1e-4)


# Objectives


def check_order(example: Example) -> None:
    """The order of the inputs does not count, and no larger loss gives a smaller value."""
    trial, rng = example.trial, np.random.default_rng(0)
    division = trial.task.abilities().groups
    groups = np.arange(12, dtype=np.int32) % (1 if division is None else division.count)
    orders = [rng.permutation(12) for _ in range(3)]
    drawn = [rng.random(12), 100 * rng.random(12), rng.integers(0, 2, 12)]
    # Of each batch: as it is, in another order, and with each loss raised.
    losses = np.array(
        [[batch, batch[order], *(batch + np.eye(12))] for batch, order in zip(drawn, orders, strict=True)]
    )
    places = np.array([[groups, groups[order], *[groups] * 12] for order in orders])

    def value(trial: TrialSpec, losses: Any, groups: Any) -> Any:
        objective = trial.objective
        batch = Batch(losses, groups if objective.needs_groups else None, jnp.float32(0.25))
        return objective.value(batch, objective.initial_state(trial.task))

    given = losses.reshape(-1, 12).astype(np.float32), places.reshape(-1, 12)
    values = quick_program(jax.vmap(value, (None, 0, 0)), trial, *given)(*given)
    for before, shuffled, *raised in values.reshape(3, -1):
        if not np.allclose(before, shuffled, rtol=1e-4, atol=1e-6):
            gives = f"{before:.6g} and {shuffled:.6g} for two orders of a batch"
            raise broken(trial.objective, "value", gives, "the same")
        if min(raised) < before - 1e-4 * abs(before) - 1e-6:
            gives = f"{min(raised):.6g} after {before:.6g} when a loss rises"
            raise broken(trial.objective, "value", gives, "no smaller")


# Optimisers


def check_training(example: Example) -> None:
    """The steps of a training move the weights, are finite, and are the same for a lane wherever it stands.

    A trial of one step is an example for other checks, and is passed over.
    """
    trial, optimizer = example.trial, example.trial.optimizer
    if trial.steps == 1:
        return
    trainer = trainer_by_optimizer(trial)
    method = "transformation" if isinstance(optimizer, GradientOptimizer) else "tell"

    def trained(*seeds: int) -> tuple[Any, Any]:
        """The weights of each lane before and after the training."""
        leaves, form = jax.tree.flatten(trial)
        seeded = [np.array([leaf] * len(seeds), np.float32 if isinstance(leaf, float) else np.int32) for leaf in leaves]
        stacked = jax.tree.unflatten(form, seeded).model_copy(update={"seed": np.array(seeds, np.int32)})
        with attributed(optimizer, method):
            state = trainer.start(stacked)
            before = jax.tree.map(np.array, state.network)  # its memory is used again
            for done in range(0, trial.steps, trainer.stride_steps):
                state, _ = trainer.stride(stacked, state, min(trainer.stride_steps, trial.steps - done))
        if failure := int(np.asarray(state.failure).max()):
            reason = trainer.failure(trial, failure).reason
            raise broken(optimizer, method, f"{reason} in {trial.steps} steps", "finite numbers")
        return before, jax.tree.map(np.array, state.network)

    (before, after), (_, swapped) = trained(0, 1), trained(1, 0)
    if all(map(np.array_equal, *map(jax.tree.leaves, (before, after)))):
        raise broken(optimizer, method, f"weights that {trial.steps} steps do not change", "a step")
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(after)):
        raise broken(optimizer, method, f"weights that are not finite after {trial.steps} steps", "finite numbers")
    if not all(map(np.array_equal, jax.tree.leaves(after), [leaf[::-1] for leaf in jax.tree.leaves(swapped)])):
        raise broken(optimizer, method, "other weights to a lane that stands elsewhere", "the same")


Check = Callable[[Example], None]
MODEL_CHECKS: dict[str, Check] = {
    "weights": check_weights,
    "mask": check_mask,
    "embedding": check_embedding,
    "steps": check_steps,
    "depth": check_depth,
    "polynomial": check_polynomial,
}
OBJECTIVE_CHECKS: dict[str, Check] = {"order": check_order}
CHECKS: dict[str, dict[str, Check]] = {
    "task": {"groups": check_groups},
    "model": {"gradients": check_gradients} | MODEL_CHECKS,
    "objective": OBJECTIVE_CHECKS,
    "optimizer": {"training": check_training},
}
"""All checks by what is checked beside the task, and by name."""


def further_checks(trial: TrialSpec) -> dict[str, Callable[[], None]]:
    """The checks of a trial's plug-ins by words."""
    example, task = Example(trial), trial.task.name
    beside = {kind: f" with {getattr(trial, kind).name}" for kind in ("model", "objective", "optimizer")}
    return {
        f"{name} of {task}{beside.get(kind, '')}": functools.partial(check, example)
        for kind, checks in CHECKS.items()
        for name, check in checks.items()
    }


# Trials on which a plug-in is checked: a task with every model, the other plug-ins with one or some tasks

STEPS = 8
"""Steps of the trials that train, to check an optimiser."""


def examples(kind: plugins.Kind, name: str) -> list[TrialSpec]:
    """Trials with a plug-in; pydantic's `ValidationError` if there are none with its defaults."""
    plugin: Any = plugins.load(kind, name)
    tasks = [plugin()] if kind == "task" else _tasks(kind == "objective" and plugin.needs_groups)
    models = [name] if kind == "model" else [other for other, _ in _others("model")]
    written = {kind: {"name": name}} if kind in ("objective", "optimizer") else {}
    return [
        TrialSpec.model_validate({
            "task": task, "model": {"name": model}, "baseline": Baseline.Aq_R, "batch_size": 12,
            "steps": STEPS if kind == "optimizer" else 1,
            "optimizer": {"name": "adam" if task.abilities().differentiable else "pgpe"}, **written,
        })
        for task in tasks
        for model in (models if kind == "task" else models[:1])
    ]  # fmt: skip


def _tasks(with_groups: bool) -> list:
    """The project's own tasks, or else a small one that comes with this package."""
    own = {file.stem for file in (plugins.PROJECT / "tasks").glob("*.py")} if plugins.PROJECT != plugins.SHIPPED else ()
    tasks = [task() for name, task in _others("task") if name in own]
    suitable = [task for task in tasks if not with_groups or task.abilities().groups is not None]
    return suitable or [plugins.load("task", "coloring")(vertices=5)]


def _others(kind: plugins.Kind) -> Iterator[tuple[str, Any]]:
    """The plug-ins of a kind, by name; one that cannot be loaded is no fault of the file that is checked."""
    for name in plugins.names(kind):
        try:
            yield name, plugins.load(kind, name)
        except plugins.PluginError as error:
            first = str(error).splitlines()[0]
            print(printable_lines(f"not checked with the {kind} {name}, which cannot be loaded: {first}"))
