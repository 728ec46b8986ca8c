"""A sweep as a study of Optuna, in memory and in a storage that its dashboard shows."""

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
from tests.trackers.exports import IDS, METRICS, asked, served, trial

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


def test_the_dashboard_shows_the_study_and_a_second_one_takes_its_place(store, tmp_path):
    from optuna_dashboard import wsgi

    storage = f"sqlite:///{tmp_path}/studies.db"
    optuna_study.study(store, "cycles", storage)
    store.commit(result(trial(2), metrics=METRICS))
    optuna_study.study(store, "cycles", storage)
    with served(wsgi(storage)) as address:
        (study,) = asked(f"{address}/api/studies")["study_summaries"]
        assert (study["study_name"], study["directions"]) == ("cycles", ["maximize"])
        trials = asked(f"{address}/api/studies/{study['study_id']}?after=0")["trials"]
    shown = {each["value"]: shown for shown in trials for each in shown["user_attrs"] if each["key"] == "trial_ids"}
    states = {IDS[0]: "Complete", IDS[1]: "Fail", IDS[2]: "Complete"}
    assert {key: each["state"] for key, each in shown.items()} == states
    finished = shown[IDS[0]]
    (parameter,) = finished["params"]
    assert (parameter["name"], parameter["param_external_value"]) == ("objective.q", "1.0")
    assert finished["values"] == [0.25]
    assert finished["intermediate_values"] == [{"step": 100, "value": 0.2}, {"step": 200, "value": 0.1}]


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
