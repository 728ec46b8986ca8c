"""MLflow's own client reads the exported runs."""

import shutil
import socket
import warnings

import pytest

from tests.processes import refusal, told
from tests.results import PROVENANCE, STARTED, record
from tests.trackers.exports import IDS, exported, grown

pytestmark = [
    pytest.mark.slow,  # imports of MLflow take seconds
    pytest.mark.filterwarnings("ignore"),  # of MLflow's own code
]

TRIAL = "sweeper.trial_id"


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """An empty database; MLflow makes its tables in a second."""
    file = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient

        MlflowClient(f"sqlite:///{file}").search_experiments()
    return file


@pytest.fixture
def uri(database, tmp_path):
    """A copy of it."""
    return f"sqlite:///{shutil.copy(database, tmp_path)}"


def test_mlflow_has_the_runs(store, uri):
    from mlflow import MlflowClient

    grown(store, uri, "mlflow")
    client = MlflowClient(uri)

    def runs(sweep):
        return client.search_runs([client.get_experiment_by_name(sweep).experiment_id])  # pyright: ignore

    shown = [(IDS.index(run.data.tags[TRIAL]), run) for run in runs("cycles")]
    statuses = sorted((number, run.info.status) for number, run in shown)
    assert statuses == [(0, "FINISHED"), (1, "FAILED"), (1, "FINISHED"), (2, "KILLED")]
    (first,) = (run for number, run in shown if number == 0)
    began = STARTED.timestamp() * 1000
    assert (first.info.start_time, first.info.end_time) == (began, began + 2500)
    assert (first.data.params["objective.q"], first.data.metrics["votes_10"]) == ("1.0", 0.9)
    assert first.data.tags["sweeper.commit"] == PROVENANCE.commit
    points = client.get_metric_history(first.info.run_id, "train_loss")
    assert [(point.step, point.value) for point in points] == [(100, 0.2), (200, 0.1)]
    store.record_sweep(record("second", [IDS[0]]))
    assert exported(store, uri, "mlflow") == (1, 3)
    assert len(runs("second")) == 1


def test_a_run_that_a_killed_export_left_half_written_is_not_taken_for_whole(made, uri, monkeypatch):
    from mlflow import MlflowClient

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "log_batch", killed)
        told("export", uri, "--to", "mlflow", "--results", made.url, code=130)
    assert exported(made, uri, "mlflow") == (2, 0)


def test_what_mlflow_cannot_reach_is_one_sentence(made):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        told = refusal("export", f"http://me:secret@{address}", "--to", "mlflow", "--results", made.url)
    assert "secret" not in told
    assert "mlruns" in refusal("export", "mlruns", "--to", "mlflow", "--results", made.url)
