"""MLflow: a sweep is an experiment, a trial a run with parameters, metrics, training curves and tags.

The destination is a tracking URI: `sqlite:///mlflow.db`, or the address of a server. (MLflow itself refuses folders of
files, which it only maintains.) MLflow chooses the ids of runs; the tag `sweeper.trial_id` names the trial. The tag
`sweeper.run` names the row that was exported, and is written last, as it says that the run is whole.
"""

import functools
import logging
import os
import re
import warnings
from pathlib import Path

# Read at the import: nothing may be sent elsewhere, and a server that goes away is not waited for by the minute.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what MLflow's own code makes other libraries say
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param

from sweeper.trackers.runs import Run, Sweep, Target

WHOLE = "sweeper.run"

STATUS = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}

PARAMS, METRICS = 100, 1000  # most parameters and metrics of one call
LONGEST = 5000  # characters of a tag or a parameter


def target(destination: str, sweep: Sweep) -> Target:
    logging.getLogger("mlflow").setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    if destination.startswith("sqlite:///"):  # in a folder that is not there MLflow would try for an hour
        Path(destination.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    client = MlflowClient(tracking_uri=destination)
    known = client.get_experiment_by_name(sweep.name)
    experiment = known.experiment_id if known else client.create_experiment(sweep.name)
    present, token = set[str](), None
    while token != "":
        page = client.search_runs([experiment], max_results=1000, page_token=token)
        present |= {run.data.tags[WHOLE] for run in page if WHOLE in run.data.tags}
        token = page.token or ""
    return Target(present, functools.partial(_add, client, experiment))


def _add(client: MlflowClient, experiment: str, run: Run) -> None:
    begun, ended = (int(moment.timestamp() * 1000) for moment in (run.started, run.finished))
    tags = {"sweeper.trial_id": run.trial_id} | {f"sweeper.{name}": text for name, text in run.origin.items()}
    tags = {name: text[:LONGEST] for name, text in tags.items()}
    run_id = client.create_run(experiment, start_time=begun, tags=tags, run_name=run.label).info.run_id
    params = [Param(_name(path), str(value)[:LONGEST]) for path, value in run.entries.items()]
    metrics = [Metric(_name(name), value, ended, run.steps) for name, value in run.final.items()]
    for name, curve in run.curves.items():
        metrics += [Metric(_name(name), value, begun, step) for step, value in curve]
    for start in range(0, len(params), PARAMS):
        client.log_batch(run_id, params=params[start : start + PARAMS])
    for start in range(0, len(metrics), METRICS):
        client.log_batch(run_id, metrics=metrics[start : start + METRICS])
    client.set_terminated(run_id, STATUS[run.status], end_time=ended)
    client.set_tag(run_id, WHOLE, run.name)


def _name(name: str) -> str:
    """The name with what MLflow takes in names."""
    return re.sub(r"[^\w. -]", "_", name)
