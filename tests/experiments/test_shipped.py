"""Every shipped experiment keeps its contract, learns, and is the same after an interruption."""

import json
from typing import Any

import numpy as np
import pytest

from sweeper.packs import conformance
from sweeper.packs.packing import Pack, lane, stack
from sweeper.packs.trained_trial import load
from sweeper.store.store import Store
from sweeper.training.kind import kind_of, trainer_of
from sweeper.trial import plugins
from sweeper.trial.experiment_trial import ExperimentTrial
from tests.experiments.runs import destination, run_with_deaths, science
from tests.whole_packs import run_pack

FAST = {"name": "adam", "learning_rate": 1e-2, "warmup_steps": 0}

SMALL: dict[str, dict[str, Any]] = {
    "classification": {"points": 200, "turns": 0.25, "width": 8, "depth": 1, "batch_size": 16, "optimizer": FAST},
    "gridworld_best_responses": {"height": 3, "width": 3, "horizon": 9, "tokens": 9, "kept": 64, "samples": 64},
    "characters": {"context": 4, "width": 8, "blocks": 1, "heads": 2, "batch_characters": 32, "optimizer": FAST},
}
"""Sizes at which an experiment is quick; one that is not listed is tested with its defaults."""

NAMES = [name for name in plugins.names("experiment") if name != "gridworld_noise"]  # a student, with tests of its own
QUICK = ("classification",)
"""What compiles in a few seconds; the others are tested in CI."""

STEPS = 60


def pack_of(name: str) -> Pack:
    """Two training seeds, in strides of a third of the training."""
    fields = {"experiment": {"name": name, **SMALL.get(name, {})}, "steps": STEPS, "curve_every": STEPS // 3}
    return Pack(tuple(ExperimentTrial.model_validate(fields | {"seed": seed}) for seed in (0, 1)))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in QUICK else pytest.mark.long) for name in NAMES],
)
def test_a_shipped_experiment_keeps_its_contract_learns_and_survives_its_death(name, tmp_path):
    pack = pack_of(name)
    conformance.check_shapes(pack.trials, to_keep=True)

    whole = Store.open(tmp_path / "whole")
    run_pack(pack, destination(whole))
    rows = whole.trials().to_pylist()
    assert [row["status"] for row in rows] == ["finished", "finished"]

    killed = Store.open(tmp_path / "killed")
    run_with_deaths(pack, killed)
    assert science(killed) == science(whole)

    metric, mode = next(iter(pack.trials[0].experiment.metrics.items()))
    fresh = trainer_of(pack.trials[0]).start(stack(pack.trials)).network
    for index, row in enumerate(sorted(rows, key=lambda row: row["seed"])):
        before = kind_of(pack.trials[0]).evaluate(pack.trials[index], lane(fresh, index), 0).metrics[metric]
        after = (row | json.loads(row["extra_metrics"]))[metric]
        assert after > before if mode == "max" else after < before
        load(row["trial_id"], whole)


@pytest.mark.slow  # compiles
def test_the_stored_network_of_a_classification_is_called_with_points(tmp_path):
    """With its running statistics, and dropping nothing: it does as well as its row says."""
    pack, store = pack_of("classification"), Store.open(tmp_path)
    run_pack(pack, destination(store))
    for row in store.trials().to_pylist():
        loaded = load(row["trial_id"], store)
        points, arms = loaded.trial.experiment.data()["held_out"]
        right = np.asarray(loaded.network(points)).argmax(axis=1) == np.asarray(arms)
        assert right.mean() == pytest.approx(json.loads(row["extra_metrics"])["accuracy"], abs=1e-6)
