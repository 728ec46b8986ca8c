"""hyperoptax: a random search whose trials run at once in one program, or one by one where that is faster.

python -m benchmarks.peers.rivals.hyperoptax_random WORK TRIALS FOLDER
"""

import sys
from typing import Any

import jax
from hyperoptax import LogSpace, RandomSearch  # pyright: ignore[reportMissingImports]  # of the extra `peers`

from benchmarks.peers import works


def main(name: str, trials: int) -> None:
    """Train, and print how many results there are."""
    work = works.named(name)
    data = work.data()

    @jax.jit
    def objective(key: Any, setting: Any) -> Any:
        return work.trained(setting["rate"], jax.random.randint(key, (), 0, 4), data)[0]

    at_once = trials if work.together else 1
    state, search = RandomSearch.init({"rate": LogSpace(1e-4, 1e-2)}, n_parallel=at_once)
    _, (_, errors) = search.optimize(state, jax.random.PRNGKey(0), objective, n_iterations=trials // at_once)
    print(sum(len(each.tolist()) for each in errors))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
