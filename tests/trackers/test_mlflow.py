"""MLflow's own server and client read the exported runs; a server of MLflow takes an export too."""

import shutil
import socket
import sys
import time
import warnings

import pytest

from sweeper.trackers import runs
from tests.processes import refusal, told
from tests.results import PROVENANCE, STARTED, record
from tests.trackers.exports import IDS, asked, exported, grown, served

pytestmark = [
    pytest.mark.slow,  # imports of MLflow take seconds
    pytest.mark.filterwarnings("ignore"),  # of MLflow's own code
]


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """An empty database, in a folder that the export makes; MLflow makes its tables in a second."""
    file = tmp_path_factory.mktemp("mlflow") / "new" / "mlflow.db"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mlflow import MlflowClient

        runs.tracker("mlflow", f"sqlite:///{file}")
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
    tags = [{each["key"]: each["value"] for each in run["data"]["tags"]} for run in found]
    shown = {of_run["sweeper.trial_id"]: run for of_run, run in zip(tags, found, strict=True)}
    assert len(found) == len(IDS)
    assert [shown[each]["info"]["status"] for each in IDS] == ["FINISHED", "FINISHED", "KILLED"]
    info, data = shown[IDS[0]]["info"], shown[IDS[0]]["data"]
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


def test_a_run_that_a_killed_export_left_half_written_is_written_again(made, uri, monkeypatch):
    from mlflow import MlflowClient

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "log_batch", killed)
        told("export", uri, "--to", "mlflow", "--results", made.url, code=130)
    assert exported(made, uri, "mlflow") == (2, 0)
    client = MlflowClient(uri)
    assert len(client.search_runs([client.get_experiment_by_name("cycles").experiment_id])) == 2  # pyright: ignore


def test_what_mlflow_cannot_reach_is_one_sentence_at_once(made, tmp_path, monkeypatch):
    def refused(uri: str) -> str:
        return refusal("export", uri, "--to", "mlflow", "--results", made.url)

    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("an export waits without a word"))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        told = refused(f"http://me:secret@{address}")
    assert address in told
    assert "secret" not in told
    (tmp_path / "text.db").write_text("no database " * 100)
    monkeypatch.setitem(sys.modules, "pymysql", None)
    for uri, named in (
        (f"sqlite:///{tmp_path}/text.db", "file is not a database"),
        (f"sqlite:///{tmp_path}", "unable to open database file"), (f"sqlite:///{tmp_path}/text.db/x.db", "text.db"),
        ("mysql+pymysql://me:secret@127.0.0.1/runs", "pymysql"), ("mysql+none://127.0.0.1/runs", "mysql.none"),
        ("postgresql://host:port/runs", "port"),
    ):  # fmt: skip
        assert named in refused(uri)


def test_an_experiment_that_was_deleted_can_be_restored(made, uri):
    from mlflow import MlflowClient

    exported(made, uri, "mlflow")
    client = MlflowClient(uri)
    client.delete_experiment(client.get_experiment_by_name("cycles").experiment_id)  # pyright: ignore
    told = refusal("export", uri, "--to", "mlflow", "--results", made.url)
    assert "mlflow experiments restore --experiment-id 1" in told
    client.restore_experiment("1")
    assert exported(made, uri, "mlflow") == (0, 2)


def test_names_are_those_that_mlflow_takes_and_stay_apart():
    from mlflow.utils.validation import _validate_metric_name

    from sweeper.trackers.to_mlflow import _names

    names = [
        "win %",
        "win _",
        "win ?",
        "a/b",
        "..",
        "../x",
        ".",
        "\x1b[2J",
        "x" * 300,
        "x" * 301,
        "objective.q",
        "größe",
    ]
    taken = _names(names)
    assert (list(taken), len(set(taken.values()))) == (names, len(names))
    assert taken["objective.q"] == "objective.q"
    for name in taken.values():
        _validate_metric_name(name)
