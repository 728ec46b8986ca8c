"""Ray Tune as its manual advises for short trials: a class, `reuse_actors`, and a program compiled once in an actor.

python -m benchmarks.peers.rivals.tune_reused WORK TRIALS FOLDER
"""

import sys
from typing import Any

import ray
from ray import tune

from benchmarks.peers import works


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


def main(name: str, trials: int, folder: str) -> None:
    """Train, and print how many results there are."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    settings = [{"work": name, "rate": rate, "seed": seed} for rate, seed in zip(*works.settings(trials), strict=True)]
    found = tune.Tuner(
        tune.with_resources(Training, {"cpu": 1}),
        param_space=tune.grid_search(settings),
        tune_config=tune.TuneConfig(reuse_actors=True),
        run_config=tune.RunConfig(storage_path=folder, verbose=0),
    ).fit()
    print(len(found) - found.num_errors)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
