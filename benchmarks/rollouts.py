"""Rollouts of the grid world per CPU-second: shared, against every treasure on its own.

    python -m benchmarks.rollouts

The plain version applies the key/value-cached agent to every pair of a treasure and a seed for 2 x 25 steps, batched by
double vmap. Both run at the paper's size, for one set of weights and ten seeds, in this process on one thread, in
turns, and the ratio is of medians, so that a drift of the machine hits both.

How much work is shared depends on the agent, so several agents are timed: fresh networks, which meet few cells and get
lost in most second episodes, and a scripted walk that meets all cells and returns straight to the treasure. The walk is
the same network at the same cost; only its logits are replaced.
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["PJRT_NPROC"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"

import functools
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from models.transformer import Model, Transformer
from sweeper.trial.contracts import Task as BaseTask
from tasks.gridworld import Task, rollout
from tasks.gridworld.environment import ACTIONS

LEFT, UP, RIGHT = (ACTIONS.index(name) for name in ("left", "up", "right"))
ROUNDS = 7
SEEDS = 10
TASK = Task()
MODEL = Model(
    heads=4,
    width=80,
    key_size=10,
    attention="softmax",
    mlp=True,
    layer_norm=True,
    positions="sinusoidal",
    embedding_scale=5.0,
    residual_init="halved",
)


class Guide:
    """The network with its logits replaced by those of a walk: row after row, then straight to the treasure.

    The walk needs the cell of a token, and whether the treasure lies there. Both pass beside the residual stream, and
    are remembered beside keys and values. The network's own logits are computed, and enter with a weight too small to
    matter.
    """

    def __init__(self, network: Transformer):
        self.network = network

    def placed(self, positions: Any) -> Any:
        return jnp.pad(self.network.placed(positions), ((0, 0), (0, 2)))

    def content(self, tokens: Any) -> Any:
        row, column = tokens[:, TASK.noise : -1].reshape(-1, 2, TASK.height).argmax(axis=-1).T
        cell = jnp.where(tokens[:, -1] == 0, 0, row * TASK.width + column)
        marks = jnp.stack([cell, tokens[:, -1] == 1], axis=1)
        return jnp.concatenate([self.network.content(tokens), marks], axis=1)

    def empty_memory(self, tokens: int) -> Any:
        return self.network.empty_memory(tokens), jnp.full((1, tokens, 1), -1.0)

    def step(self, h: Any, past: Any) -> Any:
        logits, own = self.network.step(h[:-2], [(memory, mask) for (memory, _), mask in past])
        shown, found = h[-2], h[-1] == 1
        treasure = jnp.where(found, shown, -1.0)
        known = jnp.stack([treasure, *(jnp.where(mask, past[0, :, 0], -1).max() for (_, past), mask in past)]).max()
        # The token that ends an episode shows the treasure, while the agent is back in the corner.
        row, column = jnp.where(found, 0, shown) // TASK.width, jnp.where(found, 0, shown) % TASK.width
        turning = jnp.where(row % 2 == 0, column == TASK.width - 1, column == 0)
        searching = jnp.where(turning, UP, jnp.where(row % 2 == 0, RIGHT, LEFT))
        action = jnp.where(known < 0, searching, jnp.where(row < known // TASK.width, UP, RIGHT))
        return (jnp.arange(4) == action) + 1e-6 * logits, (own, treasure[None, None, None])


def _programs(agent: Callable[[Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    inputs = TASK.evaluation_inputs()
    shared = jax.jit(lambda network, seeds: TASK.losses(agent(network), inputs, seeds))
    plain = jax.jit(lambda network, seeds: BaseTask.losses(TASK, agent(network), inputs, seeds))
    return shared, plain


def _cpu_seconds(work: Callable[[], Any]) -> float:
    begun = time.process_time()
    jax.block_until_ready(work())
    return time.process_time() - begun


def _medians(works: list[Callable[[], Any]]) -> list[float]:
    for work in works:
        jax.block_until_ready(work())
    rounds = [[_cpu_seconds(work) for work in works] for _ in range(ROUNDS)]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def _useful_tokens(agent: Any, seeds: Any) -> int:
    """How many tokens every version needs: those of each first episode and of each different second episode."""
    steps, found = jax.jit(lambda: rollout.durations(TASK.grid, agent, seeds))()
    first, second, met = np.asarray(steps[0]), np.asarray(steps[1]), np.asarray(found[0])
    unmet = np.where(met, 0, second).max(axis=0)
    return int(first.max(axis=0).sum() + np.where(met, second, 0).sum() + unmet.sum())


def _compare(name: str, agent: Callable[[Any], Any], network: Any, seeds: Any) -> None:
    programs = _programs(agent)
    works = [functools.partial(program, network, seeds) for program in programs]
    losses = [np.asarray(work()) for work in works]
    assert (losses[0] == losses[1]).all(), "the two versions disagree"
    shared, plain = _medians(works)
    useful, pairs = _useful_tokens(agent(network), seeds), losses[0].size
    print(
        f"{name}, mean cost {losses[0].mean():.1f}: {1e3 * shared:.1f} ms shared, {1e3 * plain:.0f} plain, "
        f"{plain / shared:.1f} x; {useful} useful tokens, {1e6 * shared / useful:.1f} us each, of the plain "
        f"{pairs * 2 * TASK.horizon} tokens {1e6 * plain / (pairs * 2 * TASK.horizon):.1f} us",
        flush=True,
    )


def _token_costs(network: Transformer) -> None:
    """Microseconds of one token in a batch of all slots: dense layers alone, and with both memories to attend to."""
    lanes, steps, length = rollout.SLOTS_PER_SEED * SEEDS, 100, TASK.horizon
    memory = jax.tree.map(lambda room: jnp.ones((lanes, *room.shape)), network.empty_memory(length))
    start = jax.random.normal(jax.random.key(0), (lanes, MODEL.width))

    def run(memories: int) -> Callable[[], Any]:
        past = [(memory, jnp.ones((lanes, length), bool))] * memories

        @jax.jit
        def steps_of(h: Any) -> Any:
            def one_step(h: Any, _: Any) -> tuple[Any, None]:
                logits, _ = jax.vmap(network.step)(h, past)
                return h + 1e-3 * logits.sum(axis=1, keepdims=True), None

            return jax.lax.scan(one_step, h, None, length=steps)[0]

        return lambda: steps_of(start)

    dense, attending = (1e6 * t / lanes / steps for t in _medians([run(n) for n in (0, 2)]))
    print(f"one token of {lanes}: {dense:.1f} us in dense layers, {attending:.1f} with attention to two memories")


def main() -> None:
    """Print one line per agent, then what a token costs, then how the cost depends on the number of slots."""
    build = jax.jit(lambda key: MODEL.build(TASK, key))
    networks = [build(jax.random.key(seed)) for seed in range(4)]
    seeds = TASK.sample_seeds(jax.random.key(9), SEEDS)
    for index, network in enumerate(networks):
        _compare(f"fresh network {index}", lambda network: network, network, seeds)
    _compare("walk through all cells", Guide, networks[0], seeds)
    _token_costs(networks[0])
    for slots in (1, 2, 8, TASK.grid.cells):
        rollout.SLOTS_PER_SEED = slots
        _compare(f"{slots} slots a seed, fresh network 3", lambda network: network, networks[3], seeds)
        _compare(f"{slots} slots a seed, walk", Guide, networks[0], seeds)


if __name__ == "__main__":
    main()
