"""`python -m sweeper stop` asks through the store, and waits for the answer."""

import pytest

from sweeper.commands import run
from sweeper.listeners import heartbeats
from tests.heartbeats import DEAD, ELSEWHERE, heartbeat
from tests.processes import ctrl_c, refusal, told
from tests.tiny_sweeps import with_seeds


def test_a_driver_that_died_here_is_forgotten(store):
    heartbeats.write_heartbeat(store.files, "quick", heartbeat(**DEAD))
    assert str(DEAD["pid"]) in told("stop", "quick", "--results", store.url).stdout
    assert store.listing("drivers") == []


def test_a_driver_that_does_not_answer_is_given_up(store, capsys):
    silent = heartbeat(**ELSEWHERE)
    heartbeats.write_heartbeat(store.files, "quick", silent)
    assert run.stop_drivers(store, "quick", look=0.001, patience=0.0) == 1
    assert ELSEWHERE["host"] in capsys.readouterr().err
    assert heartbeats.is_asked_to_stop(store.files, "quick", silent.driver)


def test_where_nothing_runs_there_is_nothing_to_stop(store, tmp_path):
    other = heartbeat()
    heartbeats.write_heartbeat(store.files, "other", other)
    space = tmp_path / "quick.yaml"
    space.write_text(with_seeds(1))
    for sweep in ("quick", space):
        assert "quick" in told("stop", sweep, "--results", store.url).stdout
    assert "'quick'" in refusal("stop", "quik", "--results", store.url), "is proposed"
    assert not heartbeats.is_asked_to_stop(store.files, "other", other.driver)


# Python may hear the signal after it has opened a file, and before it is in the block that closes it.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_ends_the_wait_alone(store):
    running = heartbeat()
    heartbeats.write_heartbeat(store.files, "quick", running)

    def asked():
        return heartbeats.is_asked_to_stop(store.files, "quick", running.driver)

    with ctrl_c(when=asked):
        told("stop", "quick", "--results", store.url, code=130)
    assert asked()
