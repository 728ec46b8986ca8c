"""A driver tells the store that it lives, stops when it is asked to, and takes its heartbeat away."""

import threading
from types import SimpleNamespace

from sweeper import events
from sweeper.listeners import heartbeats
from sweeper.listeners.heartbeat_writer import HeartbeatWriter
from sweeper.store.files import StoreError
from tests.heartbeats import DEAD, ELSEWHERE, heartbeat, until

PLANNED = events.SweepPlanned("quick", trials=8, done=1, failed=1, steps={1: 2000}, programs=1)
STARTED = events.PackStarted("0123456789", "coloring Aq_R seed=0…3", ("a", "b", "c", "d"), 250)
PROGRESSED = events.PackProgressed("0123456789", "training", 120, 250, 4, {}, 0.25, 40.0)


def told(store):
    return [driver.heartbeat for driver in heartbeats.drivers(store.files)]


def test_a_heartbeat_says_what_runs_where_and_goes_at_the_end(local):
    stops = []
    heart = HeartbeatWriter(local, "python -m sweeper.run x.yaml", lambda: stops.append(1), seconds=0.01)
    heart.hear(PLANNED)
    first = until(lambda: told(local))[0]
    assert (first.state, first.trials, first.done, first.failed, first.packs) == ("starting", 8, 1, 1, ())
    for event in (events.SweepStarted(None), STARTED):
        heart.hear(event)
    (pack,) = until(lambda: told(local)[0].packs)
    assert (pack.label, pack.phase, pack.node, pack.train_loss) == (STARTED.label, "waiting", None, None)
    for event in (events.PackPlaced(STARTED.pack_id, "seven"), PROGRESSED):
        heart.hear(event)
    now = until(lambda: told(local)[0].packs[0].step and told(local)[0])
    (pack,) = now.packs
    assert (now.state, now.running, now.steps_per_second) == ("running", 1, 40.0)
    assert (pack.phase, pack.step, pack.steps, pack.lanes, pack.train_loss, pack.node) == (
        "training", 120, 250, 4, 0.25, "seven",
    )  # fmt: skip
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
    heartbeats.ask_to_stop(local.files, "quick", "0" * 16)
    look()
    assert not stops, "another driver was asked"
    heartbeats.ask_to_stop(local.files, "quick", driver)
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
    dead, elsewhere = heartbeat(**DEAD), heartbeat(**ELSEWHERE)
    for sweep, each in (("quick", dead), ("other", dead), ("quick", elsewhere)):
        heartbeats.write_heartbeat(local.files, sweep, each)
    heart = HeartbeatWriter(local, "", lambda: None, seconds=0.01)
    heart.hear(PLANNED)
    until(lambda: len(told(local)) == 3)
    heart.hear(events.SweepEnded())
    left = {(driver.sweep, driver.heartbeat.driver) for driver in heartbeats.drivers(local.files)}
    assert left == {("other", dead.driver), ("quick", elsewhere.driver)}
