"""A driver tells the store that it lives, stops when it is asked to, and takes its heartbeat away; others read it."""

import dataclasses
import json
import threading
from types import SimpleNamespace

import pytest

from sweeper import events
from sweeper.listeners.heartbeats import (
    HeartbeatWriter,
    answers,
    ask_to_stop,
    drivers,
    is_asked_to_stop,
    remove_heartbeat,
    write_heartbeat,
)
from sweeper.store.files import StoreError
from tests.heartbeats import CONTAINER, DEAD, heartbeat, until


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


PLANNED = events.SweepPlanned("quick", trials=8, done=1, failed=1, steps={1: 2000}, programs=1)
STARTED = events.PackStarted("0123456789", "coloring Aq_R seed=0…3", ("a", "b", "c", "d"), 250)
PROGRESSED = events.PackProgressed("0123456789", "training", 120, 250, 4, {}, 0.25, 40.0, node="seven")


def told(store):
    return [driver.heartbeat for driver in drivers(store.files)]


def test_a_heartbeat_says_what_runs_where_and_goes_at_the_end(local):
    stops = []
    heart = HeartbeatWriter(local, "python -m sweeper.run x.yaml", lambda: stops.append(1), seconds=0.01)
    heart.hear(PLANNED)
    first = until(lambda: told(local))[0]
    assert (first.state, first.packs) == ("starting", [])
    assert first.line.startswith("1/8 done · 0 running · 1 failed")
    for event in (events.SweepStarted(None), STARTED):
        heart.hear(event)
    (pack,) = until(lambda: told(local)[0].packs)
    assert (pack["pack"], pack["does"], pack["node"], pack["loss"]) == (STARTED.label, "waiting", None, None)
    heart.hear(PROGRESSED)
    now = until(lambda: told(local)[0].packs[0]["step"] and told(local)[0])
    assert (now.state, "40 steps/s" in now.line) == ("running", True)
    assert list(now.packs[0].values()) == [STARTED.label, 4, "training", 120, 250, 0.25, "seven", None]
    heart.hear(events.SweepStopping("interrupted", 1))
    until(lambda: told(local)[0].state == "stopping")
    heart.hear(events.SweepEnded())
    assert local.listing("drivers") == []
    assert not stops


def test_a_request_stops_once(local):
    stops = []

    def written() -> int:
        (name,) = (name for name in local.listing("drivers") if name.endswith(".json"))
        return local.files.listing("drivers")[name].modified

    def look():
        """Wait for a whole look of the driver for requests, which follows a heartbeat."""
        for _ in range(2):
            before = written()
            until(lambda before=before: written() > before)

    heart = HeartbeatWriter(local, "", lambda: stops.append(1), seconds=0.01)
    heart.hear(PLANNED)
    driver = until(lambda: told(local))[0].driver
    ask_to_stop(local.files, "quick", "0" * 16)
    look()
    assert not stops, "another driver was asked"
    ask_to_stop(local.files, "quick", driver)
    until(lambda: stops)
    look()
    heart.hear(events.SweepEnded())
    assert stops == [1]
    assert local.listing("drivers") == ["drivers/quick/" + "0" * 16 + ".stop"]


class Trouble:
    """The files of a store, which refuse to be written until the trouble is over."""

    def __init__(self, files):
        self._files, self.met, self.over = files, threading.Event(), False

    def write(self, *arguments):
        if not self.over:
            self.met.set()
            raise StoreError("no space left")
        self._files.write(*arguments)

    def __getattr__(self, name):
        return getattr(self._files, name)


def test_a_store_in_trouble_costs_heartbeats_only(local):
    trouble = Trouble(local.files)
    heart = HeartbeatWriter(SimpleNamespace(files=trouble), "", lambda: None, seconds=0.01)
    heart.hear(PLANNED)
    trouble.met.wait()
    trouble.over = True
    until(lambda: told(local))
    heart.hear(events.SweepEnded())
    assert not told(local)


def test_a_driver_carries_on_for_dead_ones_of_its_sweep(local):
    dead, elsewhere = heartbeat(**DEAD), heartbeat(**CONTAINER)
    for sweep, each in (("quick", dead), ("other", dead), ("quick", elsewhere)):
        write_heartbeat(local.files, sweep, each)
    heart = HeartbeatWriter(local, "", lambda: None, seconds=0.01)
    heart.hear(PLANNED)
    until(lambda: len(told(local)) == 3)
    heart.hear(events.SweepEnded())
    left = {(driver.sweep, driver.heartbeat.driver) for driver in drivers(local.files)}
    assert left == {("other", dead.driver), ("quick", elsewhere.driver)}
