"""A script by hand: all trials in one program, at once, or one after the other where that is faster.

python -m benchmarks.peers.rivals.vmap WORK TRIALS FOLDER
"""

import sys
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.peers import works


def main(name: str, trials: int) -> None:
    """Train, and print how many results there are."""
    work = works.named(name)
    rates, seeds = map(jnp.asarray, works.settings(trials))

    def train(rates: Any, seeds: Any, data: Any) -> Any:
        if work.together:
            return jax.vmap(work.trained, in_axes=(0, 0, None))(rates, seeds, data)
        return jax.lax.map(lambda setting: work.trained(setting[0], setting[1], data), (rates, seeds))

    errors, _ = jax.jit(train)(rates, seeds, work.data())
    print(len(errors.tolist()))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
