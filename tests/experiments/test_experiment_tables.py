"""Tables of a store with an experiment: its fields and metrics, and nothing of learned algorithms."""

import sys

import pytest

from sweeper.analysis import ready_questions
from sweeper.analysis.sql import QueryError
from sweeper.store.store import Store
from sweeper.trial import plugins
from tests.experiments.toy import TOY, project, toy_trial
from tests.filled_stores import commit, swept
from tests.results import result


@pytest.fixture
def store(tmp_path):
    """A sweep of two settings of the experiment, in a project that has it."""
    filled = Store.open(tmp_path / "store")
    with project(tmp_path, toy=TOY):
        for seed, rate in enumerate((0.1, 0.2)):
            metrics = {"distance": 0.5 + rate, "reach": 1.0}
            commit(filled, toy_trial(seed=seed, rate=rate), result(metrics=metrics))
        swept(filled, name="walks", missing=filled.trials()["trial_id"].to_pylist())
        yield filled


def test_settings_are_ranked_by_the_first_metric_that_the_experiment_declares(store):
    (table,), programs = ready_questions.best(store, "walks")
    assert [*table.columns] == ["rank", "experiment_rate", "seeds", "distance", "reach"]
    assert programs()["experiment_rate"].to_pylist() == [0.1, 0.2]


def test_an_experiment_that_is_gone_is_the_reason_why_nothing_is_ranked(store):
    plugins.PROJECT.joinpath("experiments", "toy.py").unlink()
    sys.modules.pop("experiments.toy")
    plugins.load.cache_clear()
    with pytest.raises(QueryError, match="not here"):
        ready_questions.best(store, "walks")


def test_a_trial_has_its_fields_and_its_metrics(store):
    (table,), _ = ready_questions.show(store, store.trials()["trial_id"][0].as_py())
    assert {"experiment_rate", "distance", "reach", "task"} <= {*table["name"]}
    assert not {"model", "objective", "q", "m"} & {*table["name"]}
