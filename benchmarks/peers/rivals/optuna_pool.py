"""Optuna with a journal, and two processes of joblib that keep their compiled program.

python -m benchmarks.peers.rivals.optuna_pool WORK TRIALS FOLDER
"""

import functools
import sys
from typing import Any

import optuna
from joblib import Parallel, delayed  # pyright: ignore[reportMissingImports]  # of the extra `peers`
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from benchmarks.peers import works

PROCESSES = 2


def study(folder: str) -> optuna.Study:
    """The study of the folder."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = JournalStorage(JournalFileBackend(f"{folder}/journal.log"))
    return optuna.create_study(study_name="peers", storage=storage, load_if_exists=True)


@functools.cache
def program(name: str) -> tuple[Any, Any]:
    """The training of one trial, compiled once in a process, and its data."""
    import jax

    work = works.named(name)
    return jax.jit(work.trained), work.data()


def optimise(name: str, folder: str, trials: int) -> None:
    """Take so many of the queued trials."""

    def objective(trial: optuna.Trial) -> float:
        train, data = program(name)
        rate, seed = trial.suggest_float("rate", 1e-4, 1e-2, log=True), trial.suggest_int("seed", 0, 3)
        return float(train(rate, seed, data)[0])

    study(folder).optimize(objective, n_trials=trials)


def main(name: str, trials: int, folder: str) -> None:
    """Train, and print how many results there are."""
    queue = study(folder)
    for rate, seed in zip(*works.settings(trials), strict=True):
        queue.enqueue_trial({"rate": rate, "seed": seed})
    shares = [len(range(first, trials, PROCESSES)) for first in range(PROCESSES)]
    Parallel(n_jobs=PROCESSES)(delayed(optimise)(name, folder, share) for share in shares)
    print(sum(trial.value is not None for trial in study(folder).trials))


if __name__ == "__main__":
    from benchmarks.peers.rivals import optuna_pool  # joblib sends a function of a named module by its name

    optuna_pool.main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
