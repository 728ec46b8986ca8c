"""Heartbeats: what they say, how old they are, and whether their driver lives."""

import dataclasses
import json

import pytest

from sweeper.listeners.heartbeats import (
    answers,
    ask_to_stop,
    drivers,
    is_asked_to_stop,
    remove_heartbeat,
    write_heartbeat,
)
from tests.heartbeats import CONTAINER, DEAD, heartbeat


def test_a_heartbeat_is_read_as_it_was_written_until_it_is_removed(local):
    files, written = local.files, heartbeat(seconds_left=None)
    write_heartbeat(files, "quick", written)
    ask_to_stop(files, "quick", written.driver)
    (driver,) = drivers(files)
    assert (driver.sweep, driver.heartbeat) == ("quick", written)
    assert is_asked_to_stop(files, "quick", written.driver)
    remove_heartbeat(files, "quick", written.driver)
    assert drivers(files) == []
    assert not is_asked_to_stop(files, "quick", written.driver)
    assert files.listing("drivers") == {}


def test_a_driver_that_is_asked_to_stop_answers_by_its_end(local):
    running, dead = heartbeat(), heartbeat(**DEAD)
    for each in (running, dead):
        write_heartbeat(local.files, "quick", each)
    ends = answers(local.files, "quick", look=0.001)
    assert next(ends)[0] == dead
    assert is_asked_to_stop(local.files, "quick", running.driver)
    remove_heartbeat(local.files, "quick", running.driver)
    assert [each for each, _ in ends] == [running]
    assert drivers(local.files) == []


def test_the_driver_of_a_process_that_is_gone_has_died():
    assert not heartbeat().has_died
    assert heartbeat(**DEAD).has_died
    assert not heartbeat(**DEAD | CONTAINER).has_died, "it has numbers of its own"


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"driver": "x"}', b'{"packs": [1]}'])
def test_files_that_cannot_be_read_are_passed_over(local, data):
    local.files.write("drivers/quick/" + "f" * 16 + ".json", data)
    local.files.write("drivers/strange/name.json", json.dumps(dataclasses.asdict(heartbeat())).encode())
    assert drivers(local.files) == []
