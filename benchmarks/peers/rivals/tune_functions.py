"""Ray Tune as many people write it: a function, so that each trial starts a process, imports and compiles.

python -m benchmarks.peers.rivals.tune_functions WORK TRIALS FOLDER
"""

import sys
from typing import Any

import ray
from ray import tune


def training(config: dict[str, Any]) -> None:
    """Train one trial, and report its result."""
    import jax

    from benchmarks.peers import works

    work = works.named(config["work"])
    error, _ = jax.jit(work.trained)(config["rate"], config["seed"], work.data())
    tune.report({"error": float(error)})


def main(name: str, trials: int, folder: str) -> None:
    """Train, and print how many results there are."""
    from benchmarks.peers import works

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    settings = [{"work": name, "rate": rate, "seed": seed} for rate, seed in zip(*works.settings(trials), strict=True)]
    found = tune.Tuner(
        tune.with_resources(training, {"cpu": 1}),
        param_space=tune.grid_search(settings),
        run_config=tune.RunConfig(storage_path=folder, verbose=0),
    ).fit()
    print(len(found) - found.num_errors)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
