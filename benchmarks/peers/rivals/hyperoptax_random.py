"""hyperoptax: a random search whose trials run at once in one program.

python -m benchmarks.peers.rivals.hyperoptax_random WORK TRIALS FOLDER
"""

import sys

import jax
from hyperoptax import LogSpace, RandomSearch  # pyright: ignore[reportMissingImports]  # of the extra `peers`

from benchmarks.peers import works


def main(name: str, trials: int) -> None:
    """Train, and print how many results there are."""
    work = works.named(name)
    data = work.data()

    def objective(key, setting):
        return work.trained(setting["rate"], jax.random.randint(key, (), 0, 4), data)[0]

    state, search = RandomSearch.init({"rate": LogSpace(1e-4, 1e-2)}, n_parallel=trials)
    _, history = search.optimize(state, jax.random.PRNGKey(0), objective, n_iterations=1)
    print(history[1].size)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
