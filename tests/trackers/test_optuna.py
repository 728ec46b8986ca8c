"""A sweep as a study of Optuna, in memory and in a storage."""

import re
from pathlib import Path
from typing import Any

import pytest

import sweeper
from sweeper.messages import UserError
from sweeper.trackers import optuna_study
from sweeper.trial.trial import trial_id
from tests.results import record, result
from tests.tiny_sweeps import SPACE
from tests.trackers.exports import IDS, METRICS, trial

pytestmark = pytest.mark.slow  # imports of Optuna take seconds


def test_a_study_has_values_parameters_curves_and_statuses(store):
    store.commit(result(trial(1), metrics=METRICS | {"success_worst5": 0.5}))
    store.commit(result(trial(2), metrics=METRICS, status="stopped"))
    study = optuna_study.study(store, "cycles")
    assert study.best_trial.user_attrs["trial_ids"] == IDS[1]
    assert (study.best_value, study.best_params) == (0.5, {"objective.q": 3.0})
    assert study.metric_names == ["success_worst5"]
    assert study.best_trial.intermediate_values == {100: 0.2, 200: 0.1}
    states = {each.user_attrs["trial_ids"]: each.state.name for each in study.get_trials()}
    assert states == dict(zip(IDS, ("COMPLETE", "COMPLETE", "PRUNED"), strict=True))


def test_a_study_in_a_storage_is_replaced_by_a_second_one(store, tmp_path):
    import optuna

    storage = f"sqlite:///{tmp_path}/studies.db"
    optuna_study.study(store, "cycles", storage)
    store.commit(result(trial(2), metrics=METRICS))
    optuna_study.study(store, "cycles", storage)
    (name,) = optuna.get_all_study_names(storage)
    study = optuna.load_study(study_name=name, storage=storage)
    assert (name, study.direction.name) == ("cycles", "MAXIMIZE")
    trials = {each.user_attrs["trial_ids"]: each for each in study.get_trials()}
    states = {IDS[0]: "COMPLETE", IDS[1]: "FAIL", IDS[2]: "COMPLETE"}
    assert {key: each.state.name for key, each in trials.items()} == states
    finished = trials[IDS[0]]
    assert (finished.params, finished.values) == ({"objective.q": 1.0}, [0.25])
    assert finished.intermediate_values == {100: 0.2, 200: 0.1}


def test_a_study_is_minimised_where_the_sweep_is(store):
    text = SPACE + "search: {method: random, trials: 3, metric: loss, mode: min}\n"
    store.record_sweep(record("cycles", IDS, text))
    assert optuna_study.study(store, "cycles").direction.name == "MINIMIZE"


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")  # its plots are experiments
def test_the_guide_makes_a_study_with_plots_and_importances(store, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", Path("docs/trackers.md").read_text(), re.DOTALL)
    settings = [{"objective": {"q": 1.5 + number, "m": 2}, "seed": 5 + number % 2} for number in range(20)]
    further = [result(each, metrics={"success_worst5": place / 20}) for place, each in enumerate(settings)]
    for each in further:
        store.commit(each)
    store.record_sweep(record("quickstart", [IDS[1], *(trial_id(each.trial) for each in further)], SPACE))
    monkeypatch.chdir(Path(store.root).parent)
    names: dict[str, Any] = {}
    exec(code, names)
    states = [each.state.name for each in names["study"].get_trials()]
    assert (states.count("FAIL"), states.count("COMPLETE")) == (1, 20)
    assert (names["study"].best_value, names["study"].best_params["objective.q"]) == (0.95, 20.5)
    with pytest.raises(UserError, match="cycle"):
        sweeper.study("cycle")
