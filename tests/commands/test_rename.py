"""`rename` gives a sweep another name, but none that is taken, and to no sweep that runs."""

import pytest

from sweeper.listeners import heartbeats
from tests.heartbeats import heartbeat
from tests.processes import refusal, told


def names(store):
    return {record.name for record in store.sweeps()}


def test_a_sweep_gets_another_name(store):
    heartbeats.write_heartbeat(store.files, "other", heartbeat())
    told("rename", "quick", "best", "--results", store.url)
    assert names(store) == {"best", "other"}


@pytest.mark.parametrize(
    ("sweep", "to", "named"),
    [
        ("other", "more", "other"),
        ("quik", "more", "'quick'"),
        ("quick", "quick", "'quick'"),
        ("quick", "other", "'other'"),
    ],
)
def test_what_makes_no_sense_is_refused(store, sweep, to, named):
    heartbeats.write_heartbeat(store.files, "other", heartbeat())
    assert named in refusal("rename", sweep, to, "--results", store.url)
    assert names(store) == {"quick", "other"}
