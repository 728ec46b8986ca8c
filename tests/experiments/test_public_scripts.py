"""Public training scripts, written as experiments, are trained in lanes, killed and resumed bit for bit.

Three of the six are shipped, and tested with all that is shipped: `cartpole_ppo` (purejaxrl), `characters` (a language
model of nanodo's kind) and `classification` (MNIST with flax nnx). The other three are in `public_scripts/`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from sweeper.packs import conformance
from sweeper.packs.packing import Pack
from sweeper.store.store import Store
from sweeper.trial.experiment_trial import ExperimentTrial
from tests.experiments.runs import destination, run_with_deaths, science
from tests.experiments.toy import project
from tests.whole_packs import run_pack

SCRIPTS = Path(__file__).parent / "public_scripts" / "experiments"

ADAM = {"name": "adam", "learning_rate": 1e-2, "warmup_steps": 0}

FIELDS: dict[str, tuple[int, dict[str, Any], dict[str, Any], float]] = {
    "maml": (150, {"learning_rate": 1e-2, "inner_rate": 0.01}, {"inner_rate": 0.02}, 3.6),
    "in_context_regression": (240, {"features": 1, "width": 16, "batches_of_stage": 20, "optimizer": ADAM}, {}, 0.7),
    "evolved_control": (60, {}, {"std": 0.2}, 0.2),
}
"""Steps, fields of all lanes, those of the second lane, and a bound on the first metric after training."""


@pytest.fixture(autouse=True)
def own_project(tmp_path):
    with project(tmp_path, **{name: (SCRIPTS / f"{name}.py").read_text() for name in FIELDS}):
        yield


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("maml", marks=pytest.mark.long),  # compiles
        pytest.param("in_context_regression", marks=pytest.mark.long),  # its attention takes as long again
        pytest.param("evolved_control", marks=pytest.mark.slow),
    ],
)
def test_a_public_script_is_an_experiment(name, tmp_path):
    steps, fields, other, bound = FIELDS[name]
    lanes = [{"name": name, **fields}, {"name": name, **fields, **other}]
    shared = {"steps": steps, "curve_every": steps // 3}
    pack = Pack(
        tuple(
            ExperimentTrial.model_validate({"experiment": lane, "seed": seed, **shared})
            for seed, lane in enumerate(lanes)
        )
    )
    conformance.check_shapes(pack.trials, to_keep=True)

    whole, killed = Store.open(tmp_path / "whole"), Store.open(tmp_path / "killed")
    run_pack(pack, destination(whole))
    run_with_deaths(pack, killed)
    assert science(killed) == science(whole)

    metric = next(iter(pack.trials[0].experiment.metrics))
    for row in whole.trials().to_pylist():
        assert row["status"] == "finished"
        assert json.loads(row["extra_metrics"])[metric] < bound
