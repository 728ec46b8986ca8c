"""A store with a sweep of three trials: a finished one, a failed one, and one that is pending."""

import pytest

from sweeper.store.store import Store
from tests.results import failure, record, result
from tests.tiny_sweeps import SPACE
from tests.trackers.exports import IDS, METRICS, trial


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    store = Store.open(tmp_path_factory.mktemp("made") / "results")
    store.record_sweep(record("cycles", IDS, SPACE))
    store.commit(result(trial(0), metrics=METRICS))
    store.commit(failure(trial(1)))
    return store
