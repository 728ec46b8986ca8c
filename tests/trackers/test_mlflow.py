"""MLflow's own server and client read the exported runs; a server of MLflow takes an export too."""

import shutil
import socket
import warnings

import pytest

from tests.processes import refusal, told
from tests.results import PROVENANCE, STARTED, record
from tests.trackers.exports import IDS, asked, exported, grown, served

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


@pytest.fixture
def server(uri, tmp_path, monkeypatch):
    """The address of MLflow's server for the database; the small package lacks only what its program starts beside."""
    from mlflow.server import app, handlers
    from mlflow.server.constants import ARTIFACT_ROOT_ENV_VAR, BACKEND_STORE_URI_ENV_VAR

    monkeypatch.setenv(BACKEND_STORE_URI_ENV_VAR, uri)
    monkeypatch.setenv(ARTIFACT_ROOT_ENV_VAR, str(tmp_path))
    monkeypatch.setattr(handlers, "_tracking_store", None)
    with served(app) as address:
        yield address


def test_the_server_shows_the_runs(store, uri, server):
    grown(store, uri, "mlflow")

    def api(method, question=None):
        return asked(f"{server}/api/2.0/mlflow/{method}", question)

    experiment = api("experiments/get-by-name?experiment_name=cycles")["experiment"]["experiment_id"]
    found = api("runs/search", {"experiment_ids": [experiment]})["runs"]
    shown = [(IDS.index(tag["value"]), run) for run in found for tag in run["data"]["tags"] if tag["key"] == TRIAL]
    statuses = sorted((number, run["info"]["status"]) for number, run in shown)
    assert statuses == [(0, "FINISHED"), (1, "FAILED"), (1, "FINISHED"), (2, "KILLED")]
    (first,) = (run for number, run in shown if number == 0)
    info, data = first["info"], first["data"]
    assert (info["start_time"], info["end_time"]) == (STARTED.timestamp() * 1000, STARTED.timestamp() * 1000 + 2500)
    assert {"key": "objective.q", "value": "1.0"} in data["params"]
    assert {metric["key"]: metric["value"] for metric in data["metrics"]}["votes_10"] == 0.9
    assert {"key": "sweeper.commit", "value": PROVENANCE.commit} in data["tags"]
    points = api(f"metrics/get-history?run_id={info['run_id']}&metric_key=train_loss")["metrics"]
    assert [(point["step"], point["value"]) for point in points] == [(100, 0.2), (200, 0.1)]

    # The server has the runs, and takes another sweep itself.
    assert exported(store, server, "mlflow") == (0, 3)
    store.record_sweep(record("second", [IDS[0]]))
    assert exported(store, server, "mlflow") == (1, 3)
    second = api("experiments/get-by-name?experiment_name=second")["experiment"]["experiment_id"]
    assert len(api("runs/search", {"experiment_ids": [second]})["runs"]) == 1


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
