"""Faults of storage, drawn at random: files that are damaged, clocks that jump, listings that come late.

Each test injects a fault some times. `exhaustive` forms inject it as often as docs/reliability.md says.
"""

import dataclasses
import os
import random
import time
from pathlib import Path

import pytest

from sweeper.store import local_files
from sweeper.store.local_files import LocalFiles
from sweeper.store.store import Store
from sweeper.trial.trial import trial_id
from tests.results import result


def times(few, many):
    """How often a fault is injected: in every test run, and in the exhaustive one."""
    return pytest.mark.parametrize(
        "times",
        [
            pytest.param(few, marks=pytest.mark.slow),
            pytest.param(many, marks=[pytest.mark.long, pytest.mark.exhaustive]),
        ],
    )


@pytest.fixture
def draw():
    return random.Random(0)


def results(number):
    """Results of so many trials by id."""
    return {trial_id(done.trial): done for done in (result({"seed": seed}) for seed in range(number))}


def everything(store):
    return store.trials(), store.curves(), store.outcomes()


def spoilt(data, draw):
    """The bytes of a damaged file: none, the first ones, or all of them with one bit flipped."""
    place = draw.randrange(len(data))
    flipped = data[:place] + bytes([data[place] ^ 1 << draw.randrange(8)]) + data[place + 1 :]
    return draw.choice([b"", data[:place], flipped])


@times(5, 500)
def test_damage_is_found_costs_one_trial_and_leaves_all_others_readable(local, draw, times):
    """Files of trials and the snapshot are emptied, cut or have a bit flipped, with their times kept."""
    trials = results(min(230, 8 + times))
    for done in trials.values():
        local.commit(done)
    local.compact()
    whole = everything(local)
    for _ in range(times):
        before = set(local.committed())
        path = draw.choice(
            sorted(path for name in ("trials", "snapshots") for path in Path(local.root, name).rglob("*.parquet"))
        )
        state, copied = path.stat(), path.parent.name == "snapshots"
        path.write_bytes(spoilt(path.read_bytes(), draw))
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
        # Readers find all other trials, before any reader has looked for damage.
        sound = set.intersection(*(set(rows["trial_id"].to_pylist()) for rows in everything(local)))
        local.verify()  # a reader that takes a row from a snapshot does not open the file of the trial
        after = set(local.committed())
        hit = before - after
        assert hit or copied or everything(local) == whole, "a few bits of a file mean nothing"
        assert len(hit) <= (not copied)
        assert after <= sound
        for key in hit:
            local.commit(trials[key])
        if draw.random() < 0.2:
            local.compact()
    assert set(local.committed()) == set(trials)


@times(12, 100)
def test_a_clock_that_jumps_loses_and_replaces_no_trial(local, draw, times, monkeypatch):
    """The clock that the store reads jumps by up to thirty years, and so do the times of its files."""
    trials, clock = results(times), time.time

    def moment():
        return clock() + draw.uniform(-30, 30) * 365 * 86400

    rows = {}
    for done in trials.values():
        now = moment()
        monkeypatch.setattr(time, "time", lambda now=now: now)
        local.commit(done)
        for path in Path(local.root).rglob("*.parquet"):
            if draw.random() < 0.1:
                os.utime(path, (moment(),) * 2)
        if draw.random() < 0.1:
            local.compact()
        rows = unchanged(local, rows)
    assert set(local.committed()) == set(trials)


def unchanged(store, rows):
    """The rows of a store by trial, which has all of `rows` as they are."""
    now = {row["trial_id"]: row for row in store.trials().to_pylist()}
    assert now | rows == now
    return now


class LateFiles(LocalFiles):
    """Files of a network disk: a machine may see the listing of a moment ago, and no file where there is one."""

    def __init__(self, root, draw):
        super().__init__(root, root)
        self._draw, self._seen = draw, {}

    def listing(self, folder):
        if folder not in self._seen or self._draw.random() < 0.5:
            self._seen[folder] = super().listing(folder)
        return dict(self._seen[folder])

    def read(self, relative):
        return None if self._draw.random() < 0.3 else super().read(relative)

    def opened(self, relative):
        return None if self._draw.random() < 0.3 else super().opened(relative)


def commit_through_late_views(store, draw, times):
    """Machines with late views of a network disk commit the same trials with other numbers, read and compact."""
    trials = results(max(2, times // 5))
    machines, rows = [LateFiles(store.root, draw) for _ in range(3)], {}
    for number in range(times):
        machine, key = Store(draw.choice(machines)), draw.choice(list(trials))
        machine.commit(dataclasses.replace(trials[key], metrics={"success": number / times}))
        machine.trials()
        if draw.random() < 0.1:
            machine.compact()
        rows = unchanged(store, rows)
    for done in trials.values():
        store.commit(done)
    assert set(unchanged(store, rows)) == set(trials)


@times(25, 500)
def test_late_views_of_a_network_disk_replace_no_finished_trial(local, draw, times):
    commit_through_late_views(local, draw, times)


@pytest.mark.slow
def test_a_store_that_takes_what_it_does_not_see_for_free_replaces_some(local, draw, monkeypatch):
    monkeypatch.setattr(local_files, "_linked", lambda *_: False)
    with pytest.raises(AssertionError):
        commit_through_late_views(local, draw, 25)
