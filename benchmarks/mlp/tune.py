"""A sweep by plain Ray Tune with one trial a process, for `benchmarks.experiments`.

    python benchmarks/mlp/tune.py TRIALS STEPS FOLDER

Prints the time at which Ray has started.
"""

import sys
import time

import numpy as np
import ray
from ray import tune


def trial(settings: dict[str, float]) -> None:
    """Train one trial, and report its results."""
    import jax

    from benchmarks.mlp import by_hand

    rate, points = settings["rate"], by_hand.data()
    program = jax.jit(by_hand.train, donate_argnums=2)
    state, loss = jax.jit(by_hand.start)(rate, 0), float("inf")
    for done in range(0, int(settings["steps"]), by_hand.LENGTH):
        state, loss = program(rate, 0, state, done, points)
    tune.report({"train_loss": float(loss), "error": float(by_hand.loss_of(state[0], *points))})


def main(trials: int, steps: int, folder: str) -> None:
    """Train so many trials that differ in the learning rate, each on a core."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    print("started", time.time(), flush=True)
    rates = [float(rate) for rate in np.logspace(-4, -2, trials)]
    found = tune.Tuner(
        tune.with_resources(trial, {"cpu": 1}),
        param_space={"rate": tune.grid_search(rates), "steps": steps},
        run_config=tune.RunConfig(storage_path=folder, verbose=0),
    ).fit()
    if found.num_errors or len(found) != trials:
        sys.exit("trials have failed")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
