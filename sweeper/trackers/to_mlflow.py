"""MLflow: a sweep is an experiment, a trial a run with parameters, metrics, training curves and tags.

The destination is a tracking URI: `sqlite:///mlflow.db`, or the address of a server. (MLflow itself refuses folders of
files, which it only maintains.) MLflow chooses the ids of runs; the tag `sweeper.trial_id` names the trial.
"""

import contextlib
import itertools
import logging
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import sqlalchemy
from sqlalchemy.exc import SQLAlchemyError

# Read at the import: nothing may be sent elsewhere, and a server that goes away is not waited for by the minute.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what MLflow's own code makes other libraries say
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag, ViewType
    from mlflow.exceptions import MlflowException
    from mlflow.store.db.db_types import DATABASE_ENGINES
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

from sweeper.trackers.runs import ExportError, Run, Sweep, Tracker

TRIAL, ROW = "sweeper.trial_id", "sweeper.row"

STATUS = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}

PARAMS, METRICS = 100, 1000  # most parameters and metrics of one call
LONGEST_VALUE, LONGEST_NAME = 5000, 200  # characters of a tag or a parameter, and of a name
ANSWER_SECONDS = 10  # within which a server answers


class MlflowTracker(Tracker):
    def __init__(self, client: MlflowClient):
        self._client = client
        self._experiment = ""
        self._run_ids: dict[str, list[str]] = {}

    def present(self, sweep: Sweep) -> Mapping[str, str]:
        with _one_sentence():
            known = self._client.get_experiment_by_name(sweep.name)
            if known and known.lifecycle_stage != "active":
                restore = f"mlflow experiments restore --experiment-id {known.experiment_id}"
                raise ExportError(f"MLflow: the experiment '{sweep.name}' was deleted; `{restore}` brings it back")
            self._experiment = known.experiment_id if known else self._client.create_experiment(sweep.name)
            self._run_ids, rows = {}, {}
            for run in self._runs():
                trial_id = run.data.tags.get(TRIAL)
                if trial_id is not None:
                    self._run_ids.setdefault(trial_id, []).append(run.info.run_id)
                    if ROW in run.data.tags:
                        rows[trial_id] = run.data.tags[ROW]
            return rows

    def _runs(self) -> Iterator[Any]:
        token = None
        while True:
            page = self._client.search_runs(
                [self._experiment], run_view_type=ViewType.ACTIVE_ONLY, max_results=1000, page_token=token
            )
            yield from page
            if not (token := page.token):
                return

    def add(self, run: Run) -> None:
        begun, ended = (int(moment.timestamp() * 1000) for moment in (run.started, run.finished))
        with _one_sentence():
            for run_id in self._run_ids.get(run.trial_id, []):
                self._client.delete_run(run_id)
            tags = {TRIAL: run.trial_id, "mlflow.runName": run.label}
            tags |= {f"sweeper.{name}": text[:LONGEST_VALUE] for name, text in run.origin.items()}
            run_id = self._client.create_run(self._experiment, start_time=begun, tags=tags).info.run_id
            try:
                self._fill(run, run_id, begun, ended)
            except Exception:
                self._client.set_terminated(run_id, "FAILED", end_time=ended)  # the next export replaces it
                raise

    def _fill(self, run: Run, run_id: str, begun: int, ended: int) -> None:
        names = _names([*run.entries, *run.curves, *run.final])
        params = [Param(names[path], str(value)[:LONGEST_VALUE]) for path, value in run.entries.items()]
        curves = ((names[name], point) for name, curve in run.curves.items() for point in curve)
        points = [Metric(name, value, begun, step) for name, (step, value) in curves]
        points += [Metric(names[name], value, ended, run.steps) for name, value in run.final.items()]
        for start in range(0, len(params), PARAMS):
            self._client.log_batch(run_id, params=params[start : start + PARAMS])
        for start in range(0, len(points), METRICS):
            self._client.log_batch(run_id, metrics=points[start : start + METRICS])
        self._client.set_terminated(run_id, STATUS[run.status], end_time=ended)
        # Last, as it says that the run is complete.
        self._client.log_batch(run_id, tags=[RunTag(ROW, run.row)])


def _names(names: Iterable[str]) -> dict[str, str]:
    """The names that MLflow takes for these; two that would be the same get a number."""
    taken: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^\w. -]", "_", name)[:LONGEST_NAME].lstrip(".") or "_"
        numbered = (plain if number == 1 else f"{plain}_{number}" for number in itertools.count(1))
        taken[name] = taken.get(name) or next(each for each in numbered if each not in taken.values())
    return taken


def tracker(destination: str) -> MlflowTracker:
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    with _one_sentence():
        _require_answer(destination)
        return MlflowTracker(MlflowClient(tracking_uri=destination))


def _require_answer(destination: str) -> None:
    """Ask the server or the database once; MLflow would ask again for minutes, and say nothing."""
    scheme = destination.partition(":")[0].partition("+")[0]
    if scheme in ("http", "https"):
        try:
            http_request(get_default_host_creds(destination), "/", "HEAD", max_retries=0, timeout=ANSWER_SECONDS)
        except MlflowException:  # its text would show a password in the address
            host = destination.rpartition("@")[2]
            raise ExportError(f"MLflow: no server answers at {host}; `curl {host}` may say why") from None
    elif scheme in DATABASE_ENGINES:
        engine = sqlalchemy.create_engine(destination)
        if scheme == "sqlite" and engine.url.database:
            Path(engine.url.database).parent.mkdir(parents=True, exist_ok=True)
        sqlalchemy.inspect(engine).get_table_names()
        engine.dispose()


@contextlib.contextmanager
def _one_sentence() -> Iterator[None]:
    """Errors of MLflow as one sentence, without what its code makes other libraries say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except ModuleNotFoundError as error:
            raise ExportError(f"MLflow: {error.name} is not installed, which this destination needs") from None
        except ExportError:
            raise
        except (MlflowException, SQLAlchemyError, OSError, ValueError) as error:
            raise ExportError(f"MLflow: {str(error).splitlines()[0]}") from None
