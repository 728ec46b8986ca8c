"""Ray Tune in two ways.

    python -m benchmarks.peers.rivals.ray_tune actors|processes WORK TRIALS FOLDER

`actors` is the way that its manual advises for short trials: a class whose actors are used again, each with a program
that it compiles once. `processes` is a function, as many people write it: each trial starts a process, imports and
compiles.
"""

import sys
from typing import Any

import ray
from ray import tune

from benchmarks.peers import works


def training(config: dict[str, Any]) -> None:
    """Train one trial in a process of its own, and report its result."""
    import jax

    work = works.named(config["work"])
    error, _ = jax.jit(work.trained)(config["rate"], config["seed"], work.data())
    tune.report({"error": float(error)})


class Training(tune.Trainable):
    """Trains one trial after the other."""

    def setup(self, config: dict[str, Any]) -> None:
        import jax

        work = works.named(config["work"])
        self._train, self._data, self._config = jax.jit(work.trained), work.data(), config

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._config = new_config
        return True

    def step(self) -> dict[str, Any]:
        error, _ = self._train(self._config["rate"], self._config["seed"], self._data)
        return {"error": float(error), "done": True}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {}

    def load_checkpoint(self, checkpoint: Any) -> None:
        pass


def main(way: str, name: str, trials: int, folder: str) -> None:
    """Train, and print how many results there are."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    settings = [{"work": name, "rate": rate, "seed": seed} for rate, seed in zip(*works.settings(trials), strict=True)]
    found = tune.Tuner(
        tune.with_resources({"actors": Training, "processes": training}[way], {"cpu": 1}),
        param_space=tune.grid_search(settings),
        tune_config=tune.TuneConfig(reuse_actors=way == "actors"),
        run_config=tune.RunConfig(storage_path=folder, verbose=0),
    ).fit()
    print(len(found) - found.num_errors)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
