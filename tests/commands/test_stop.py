"""`python -m sweeper stop` asks through the store, and waits for the answer."""

import pytest
from typer.testing import CliRunner

from sweeper.commands import stop
from sweeper.listeners import heartbeats
from sweeper.store.store import Store
from tests.heartbeats import DEAD, ELSEWHERE, heartbeat
from tests.results import record
from tests.tiny_sweeps import with_seeds


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(heartbeats, "LOOK_SECONDS", 0.01)
    store = Store.open(tmp_path / "results")
    store.record_sweep(record("quick", ["a" * 20]))
    return store


def asked(store, name="quick"):
    return CliRunner().invoke(stop.app, [name, "--results", store.url])


def test_a_driver_that_died_here_is_forgotten(store):
    heartbeats.write_heartbeat(store.files, "quick", heartbeat(process=DEAD))
    done = asked(store)
    assert done.exit_code == 0
    assert "had died" in done.output
    assert store.listing("drivers") == []


def test_a_driver_that_does_not_answer_is_given_up(store, monkeypatch):
    monkeypatch.setattr(heartbeats, "PATIENCE", 0.0)
    silent = heartbeat(process=ELSEWHERE, every=0.0)
    heartbeats.write_heartbeat(store.files, "quick", silent)
    done = asked(store)
    assert done.exit_code == 1
    assert "gives no heartbeat; the request stays" in done.output
    assert heartbeats.is_asked_to_stop(store.files, "quick", silent.driver)


def test_where_nothing_runs_there_is_nothing_to_stop(store, tmp_path):
    heartbeats.write_heartbeat(store.files, "other", heartbeat())
    done = asked(store)
    assert (done.exit_code, done.output) == (0, "no driver of quick runs\n")
    space = tmp_path / "quick.yaml"
    space.write_text(with_seeds(1))
    assert asked(store, str(space)).output == "no driver of quick runs\n"
    done = asked(store, "quik")
    assert done.exit_code == 2
    assert "the store has no sweep 'quik'; did you mean 'quick'?" in done.output
    assert not heartbeats.is_asked_to_stop(store.files, "other", "x")


def test_ctrl_c_ends_the_wait_alone(store, monkeypatch):
    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(heartbeats.time, "sleep", interrupted)
    heartbeats.write_heartbeat(store.files, "quick", heartbeat())
    done = asked(store)
    assert done.exit_code == 130
    assert "the request stays" in done.output
