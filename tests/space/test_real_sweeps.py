"""Sweeps as users of other tools write them, as spaces: they are read, and have the settings that they have there.

`real_sweeps/` is a project: an experiment with the settings, and a space for each tool, in the spirit of its examples.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sweeper.space import search_space
from sweeper.space.search_methods import OptunaSearch
from sweeper.space.sweep_spec import SweepSpec
from sweeper.trial.trial import Trial
from tests.experiments import toy

PROJECT = Path(__file__).parent / "real_sweeps"


@dataclass(frozen=True)
class Between:
    """Numbers between two ends, of which no two settings have the same."""

    low: float
    high: float


@dataclass(frozen=True)
class Expected:
    """What the trials of a space are.

    Attributes:
        values: By the path of a field of the experiment, the set of all its values, or what drawn ones lie between.
        joint: What holds for each experiment.
    """

    trials: int
    values: dict[str, set[Any] | Between]
    joint: Callable[[dict[str, Any]], bool] = lambda _: True
    seeds: int = 1


POWERS = {2**n for n in range(3, 12)}
EXPECTED = {
    "rl_zoo": Expected(
        41,
        {"learning_rate": Between(1e-5, 1), "entropy_weight": Between(1e-8, 0.1), "orthogonal": {False, True},
            "model.layers": {(64,), (64, 64), (256, 256)}, "activation": {"tanh", "relu"},
            "discount": {0.9, 0.95, 0.98, 0.99, 0.995, 0.999}},
        lambda of: {of["horizon"], of["batch_size"]} <= POWERS and of["batch_size"] <= of["horizon"],
    ),
    "syne_tune": Expected(
        30,
        {"learning_rate": Between(1e-6, 1), "weight_decay": {1e-6, 1e-5, 1e-4, 1e-3, 1e-2},
            "horizon": {8, 16, 64, 128}, "momentum": {n / 10 for n in range(10)}},
        lambda of: 8 <= of["batch_size"] <= 512,
    ),
    "ray_tune": Expected(
        20 * 2,
        {"optimizer": {"sgd", "adam"}, "clip": {0.1, 0.2, 0.3, 0.4, 0.5}},
        lambda of: of["horizon"] == 2 * of["batch_size"] and of["batch_size"] in range(32, 257, 32)
        and of["final_learning_rate"] == pytest.approx(of["learning_rate"] / 10),
        seeds=2,
    ),
    "hydra": Expected(
        3 * 2 * 2,
        {"environment": {"cartpole", "acrobot"}, "epochs": {1, 3}, "model.name": {"network", "forest"},
            "batch_size": {128}, "learning_rate": {3e-4}},
        lambda of: of["model"] in (
            {"name": "network", "layers": (32,), "dropout": 0.0},
            {"name": "network", "layers": (256, 256), "dropout": 0.2},
            {"name": "forest", "trees": 50, "depth": 8},
        ),
    ),
    "optuna": Expected(
        40,
        {"model.name": {"svm", "forest", "network"}, "model.c": Between(1e-10, 1e10)},
        lambda of: 2 <= of["model"].get("depth", 2) <= 30 and len(of["model"].get("layers", (4,))) in (1, 2)
        and all(4 <= width <= 128 for width in of["model"].get("layers", ())),
    ),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    """The working folder is a copy of the project."""
    experiment = (PROJECT / "experiments" / "training.py").read_text()
    with toy.project(tmp_path_factory.mktemp("real"), training=experiment) as made:
        yield made


@pytest.mark.parametrize("name", EXPECTED)
def test_a_sweep_of_another_tool_has_its_settings_here(name):
    expected = EXPECTED[name]
    trials = _trials(search_space.read(PROJECT / "search_spaces" / f"{name}.yaml"))
    assert len(trials) == expected.trials
    experiments = [trial.model_dump()["experiment"] for trial in trials]
    for path, values in expected.values.items():
        found = [value for each in experiments if (value := _at(each, path)) is not None]
        if isinstance(values, Between):
            assert all(values.low <= value <= values.high for value in found), path
            assert len(set(found)) > 4, path
        else:
            assert set(found) == values, path
    assert [each for each in experiments if not expected.joint(each)] == []
    assert {trial.seed for trial in trials} == set(range(expected.seeds))


def _trials(spec: SweepSpec) -> list[Trial]:
    """Those of the expansion, or of all settings for which a search asks that is told nothing."""
    if not isinstance(spec.search, OptunaSearch):
        return list(spec.expand().trials)
    study = spec.search.study(spec.tree)
    return [trial for _ in range(spec.search.draws) for trial in spec.trials_of(study.ask()).trials]


def _at(experiment: dict[str, Any], path: str) -> Any:
    value: Any = experiment
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value
