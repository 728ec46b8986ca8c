"""Exports of a small sweep."""

import datetime
import re
from typing import Any

from sweeper.store.store import Store
from sweeper.trackers import runs
from sweeper.trial.trial import trial_id
from tests.processes import told
from tests.results import STARTED, record, result
from tests.tiny_sweeps import SPACE

METRICS = {"success": 0.75, "success_worst5": 0.25, "votes_10": 0.9, "train_loss": 0.1}
QS = (1.0, 3.0, 10.0)


def trial(number: int) -> dict[str, Any]:
    return {"objective": {"q": QS[number], "m": 2}}


IDS = [trial_id(result(trial(number)).trial) for number in range(3)]


def exported(store: Store, destination: object, to: str) -> tuple[int, int]:
    """How many runs an export added, and how many were there."""
    output = told("export", destination, "--to", to, "--results", store.url).stdout
    last = output.splitlines()[-1]  # MLflow prints lines of its own before it
    added, _, *kept = map(int, re.findall(r"\d+", last.replace(str(destination), "")))
    return added, sum(kept)


def grown(store: Store, destination: object, to: str) -> None:
    """Export twice, then after a pending trial was stopped and the failed one was run again, then once more."""
    assert exported(store, destination, to) == (2, 0)
    assert exported(store, destination, to) == (0, 2)
    later = datetime.timedelta(hours=1)
    store.commit(result(trial(1), metrics=METRICS | {"success_worst5": 0.5}, finished=STARTED + later))
    store.commit(result(trial(2), metrics=METRICS, status="stopped"))
    assert exported(store, destination, to) == (2, 1)
    assert exported(store, destination, to) == (0, 3)


def sweep_of(store: Store, trial_ids: list[str], text: str = SPACE) -> runs.Sweep:
    sweep = runs.sweep_of(store, record("cycles", trial_ids, text))
    assert sweep is not None
    return sweep
