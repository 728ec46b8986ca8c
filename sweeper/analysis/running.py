"""Which drivers run in a store, by their heartbeats, and which have died."""

from collections.abc import Iterable
from typing import NamedTuple

from sweeper.analysis.table import COUNT, NUMBER, SECONDS, Column, Field, Table, tabulated
from sweeper.listeners.driver_process import Life, life
from sweeper.listeners.heartbeats import PackProgress, StoredHeartbeat, heartbeats, store_clock
from sweeper.messages import counted, duration
from sweeper.store.store import Store

FRESH = 4
"""A driver elsewhere counts as alive until so many of its heartbeats in a row are missing."""


class Driver(NamedTuple):
    """A driver as the store knows it.

    Attributes:
        stored: Its latest heartbeat.
        life: Whether its process lives; `elsewhere` for another machine.
        age: Seconds since it by the clock of the store; None for a driver on this machine, and if the store gave
            no time.
    """

    stored: StoredHeartbeat
    life: Life
    age: float | None

    @property
    def sweep(self) -> str:
        """The sweep of the driver."""
        return self.stored.sweep

    @property
    def lives(self) -> bool:
        """Whether the driver runs, as far as can be known."""
        if self.life == "elsewhere":
            return self.age is not None and abs(self.age) <= FRESH * self.stored.heartbeat.every
        return self.life == "alive"


def drivers(store: Store) -> list[Driver]:
    """The drivers of a store, by sweep. The clock of the store is read only if a driver is on another machine.

    Raises:
        StoreError: the store cannot be read.
    """
    stored = heartbeats(store.files)
    lives: list[Life] = [life(each.heartbeat.process) for each in stored]
    now = store_clock(store.files) if "elsewhere" in lives else None
    return [
        Driver(each, alive, None if now is None or alive != "elsewhere" else (now - each.modified) / 1e9)
        for each, alive in zip(stored, lives, strict=True)
    ]


def sentence(driver: Driver) -> str:
    """The state of a driver in one line."""
    heartbeat = driver.stored.heartbeat
    where = f"on {heartbeat.process.host} (process {heartbeat.process.pid})"
    if not driver.lives:
        carry = f"what it has committed stays; this command carries on: {heartbeat.command}"
        if driver.life == "dead":
            return f"{driver.sweep}: the driver {where} died without goodbye; {carry}"
        heard = "its age is unknown, as the store cannot be written" if driver.age is None else _ago(driver.age)
        return f"{driver.sweep}: no heartbeat of the driver {where}, {heard}; if it is dead, {carry}"
    failed = f" · {heartbeat.failed:,} failed" if heartbeat.failed else ""
    counts = f"{heartbeat.done:,}/{heartbeat.trials:,} done · {counted(heartbeat.running, 'pack')} running{failed}"
    if not heartbeat.running:
        return f"{driver.sweep}: {heartbeat.state} {where} · {counts} · {duration(heartbeat.elapsed)} so far"
    left = f"{duration(heartbeat.seconds_left)} left" if heartbeat.seconds_left else "time left unknown"
    speed = f"{heartbeat.steps_per_second:,.0f} steps/s · {duration(heartbeat.elapsed)} so far · {left}"
    return f"{driver.sweep}: {heartbeat.state} {where} · {counts} · {speed}"


def _ago(age: float) -> str:
    if age < 0:
        return f"its time lies {duration(-age)} ahead of the clock of the store"
    return f"the last came {duration(max(0.0, age))} ago by the clock of the store"


def packs_table(drivers: Iterable[Driver]) -> Table | None:
    """The running packs of the drivers that live; None without any."""
    rows = [(driver.sweep, pack) for driver in drivers if driver.lives for pack in driver.stored.heartbeat.packs]
    if not rows:
        return None
    fields: list[Field[tuple[str, PackProgress]]] = [
        (Column("sweep"), lambda row: row[0]),
        (Column("pack"), lambda row: row[1].label),
        (Column("lanes", COUNT), lambda row: row[1].lanes),
        (Column("does"), lambda row: row[1].phase),
        (Column("step", COUNT), lambda row: row[1].step),
        (Column("of", COUNT), lambda row: row[1].steps),
        (Column("loss", NUMBER), lambda row: row[1].train_loss),
        (Column("node"), lambda row: row[1].node),
    ]
    if any(pack.still for _, pack in rows):
        fields.append((Column("nothing new for", SECONDS), lambda row: row[1].still or None))
    return tabulated("Running packs", fields, rows)
