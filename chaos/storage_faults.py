"""Faults of storage: disks that are full, read-only or late, files that are damaged, clocks that jump."""

import contextlib
import dataclasses
import datetime
import functools
import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import yaml

from chaos.attack import SPACE, Attack, Finding, fault
from sweeper.store.files import FileState
from sweeper.store.local_files import LocalFiles
from sweeper.store.store import Store, TrialResult
from sweeper.trial import provenance
from sweeper.trial.trial import trial_id, trial_of


@fault("disk-full", times=1)
def disk_full(attack: Attack, times: int) -> Finding:
    """The file system of the results is full, then has room again; needs root, to mount a small file system."""
    return _refused(attack, "No space left on device", _fill, lambda disk: (disk / "filler").unlink())


@fault("disk-read-only", times=1)
def disk_read_only(attack: Attack, times: int) -> Finding:
    """The file system of the results turns read-only, then writable again; needs root."""
    return _refused(
        attack, "Read-only file system",
        lambda disk: _mount("-o", "remount,ro", str(disk)), lambda disk: _mount("-o", "remount,rw", str(disk)),
    )  # fmt: skip


def _refused(attack: Attack, message: str, spoil: Callable[[Path], object], mend: Callable[[Path], object]) -> Finding:
    disk = attack.folder / "disk"
    disk.mkdir()
    sweep = attack.sweep(attack.space(steps=60_000), 8, disk / "results")
    attack.undisturbed(sweep.file)
    _mount("-t", "tmpfs", "-o", "size=4m", "chaos", str(disk))
    try:
        start = sweep.start()
        attack.hits += start.until(lambda: sweep.checkpoints)
        spoil(disk)
        code, text, before = start.wait(), start.text, sweep.look()
        mend(disk)
        print(f"  exit code {code} with {before} committed; the message:\n{text[-600:]}", flush=True)
        told = code == 1 and message in text and "Traceback" not in text
        return attack.finding(f"exit code {code}, {before} committed before it", complete=sweep.ends() and told)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


@fault("checkpoints-damaged", times=3)
def checkpoints_damaged(attack: Attack, times: int) -> Finding:
    """After a kill of the driver every checkpoint is truncated or emptied or has a bit flipped."""
    sweep, damaged = attack.sweep(attack.space(steps=60_000), 8), 0
    attack.undisturbed(sweep.file)
    for before in sweep.killed_at_checkpoints(times):
        for path in sweep.checkpoints:
            if path.stat().st_mtime > before:  # and so was written since the last damage
                path.write_bytes(_spoiled(path.read_bytes(), attack.draw))
                damaged += 1
    complete = sweep.ends() and not sweep.checkpoints
    return attack.finding(f"{damaged} checkpoints damaged", complete)


def _spoiled(data: bytes, draw: random.Random) -> bytes:
    """The bytes of a damaged file: none, the first ones, or all of them with one bit flipped."""
    place = draw.randrange(len(data))
    flipped = data[:place] + bytes([data[place] ^ 1 << draw.randrange(8)]) + data[place + 1 :]
    return draw.choice([b"", data[:place], flipped])


# Made-up results, committed in this process

DAMAGED_TRIALS = 230
"""Trials of the store whose files are damaged."""

_provenance = functools.cache(lambda: provenance.capture("chaos"))


def _result(seed: int) -> TrialResult:
    fields = yaml.safe_load(SPACE.format(name="chaos", exponents=[], steps=100, seeds=1))["trial"]
    now = datetime.datetime.now(datetime.UTC)
    return TrialResult(
        trial=trial_of(fields | {"objective": {"q": 3.0, "m": 2}, "seed": seed}),
        status="finished", metrics={"success": 0.5},
        curves=[(50, "train_loss", 0.5), (100, "train_loss", 0.25)],
        outcomes={"success": np.array([0.25, 0.75], np.float32)},
        network={"weight": np.full(16, seed, np.float32)},
        timings={"steps_done": 100.0}, provenance=_provenance(), pack_id="0" * 20, lanes=1, device="cpu",
        started=now, finished=now,
    )  # fmt: skip


def _committed(attack: Attack, trials: int) -> tuple[Store, dict[str, TrialResult]]:
    """A store without trials, and the results of as many trials by id."""
    sweep = attack.sweep(Path(), trials)
    return Store.open(sweep.results), {trial_id(done.trial): done for done in map(_result, range(trials))}


@fault("files-damaged", times=500)
def files_damaged(attack: Attack, times: int) -> Finding:
    """Files of trials and the snapshot are truncated, emptied or have a bit flipped, with their times kept."""
    store, trials = _committed(attack, DAMAGED_TRIALS)
    for done in trials.values():
        store.commit(done)
    store.compact()
    missed = lost = 0
    whole = _said(store)
    for _ in range(times):
        before = set(store.committed())
        path = attack.draw.choice(
            sorted(path for name in ("trials", "snapshots") for path in Path(store.root, name).rglob("*.parquet"))
        )
        state = path.stat()
        path.write_bytes(_spoiled(path.read_bytes(), attack.draw))
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
        attack.hits += 1
        # Readers find all other trials, before any reader has looked for damage.
        sound = set(store.trials()["trial_id"].to_pylist()) & set(store.curves()["trial_id"].to_pylist())
        sound &= set(store.outcomes()["trial_id"].to_pylist())
        store.verify()  # a reader that takes a row from a snapshot does not open the file of the trial
        after = set(store.committed())
        hit, copied = before - after, path.parent.name == "snapshots"
        missed += not hit and not copied and _said(store) != whole  # a few bits of a file mean nothing
        lost += len(hit) > (not copied) or not after <= sound
        for key in sorted(hit):
            store.commit(trials[key])
        if attack.draw.random() < 0.2:
            store.compact()
    complete = not missed and not lost and set(store.committed()) == set(trials)
    return attack.finding(f"{missed} not found, {lost} others lost; the damaged ran again", complete)


def _said(store: Store) -> tuple[pa.Table, ...]:
    return store.trials(), store.curves(), store.outcomes()


@fault("clock-jumped", times=100)
def clock_jumped(attack: Attack, times: int) -> Finding:
    """The clock that the store reads jumps by up to thirty years, and so do the times of its files."""
    store, trials = _committed(attack, times)
    clock = time.time
    try:
        for done in trials.values():
            jump = attack.draw.uniform(-30, 30) * 365 * 86400
            time.time = lambda jump=jump: clock() + jump
            store.commit(done)
            for path in Path(store.root).rglob("*.parquet"):
                if attack.draw.random() < 0.1:
                    moment = clock() + attack.draw.uniform(-30, 30) * 365 * 86400
                    os.utime(path, (moment, moment))
            if attack.draw.random() < 0.1:
                store.compact()
            attack.hits += 1
            attack.sweeps[0].look()
    finally:
        time.time = clock
    return attack.finding(complete=set(store.committed()) == set(trials))


class LateFiles(LocalFiles):
    """Files of a network disk: a machine may see the listing of a moment ago, and no file where there is one."""

    def __init__(self, root: str, draw: random.Random):
        super().__init__(root, root)
        self._draw = draw
        self._seen: dict[str, dict[str, FileState]] = {}

    def listing(self, folder: str) -> dict[str, FileState]:
        if folder not in self._seen or self._draw.random() < 0.5:
            self._seen[folder] = super().listing(folder)
        return dict(self._seen[folder])

    def read(self, relative: str) -> bytes | None:
        return None if self._draw.random() < 0.3 else super().read(relative)

    def opened(self, relative: str) -> pa.NativeFile | None:
        return None if self._draw.random() < 0.3 else super().opened(relative)


@fault("listings-late", times=500)
def listings_late(attack: Attack, times: int) -> Finding:
    """Machines with late views of a network disk commit the same trials with other numbers, read and compact."""
    store, trials = _committed(attack, max(2, times // 5))
    machines = [LateFiles(store.root, attack.draw) for _ in range(3)]
    for number in range(times):
        machine, key = Store(attack.draw.choice(machines)), attack.draw.choice(list(trials))
        machine.commit(dataclasses.replace(trials[key], metrics={"success": number / times}))
        machine.trials()
        if attack.draw.random() < 0.1:
            machine.compact()
        attack.hits += 1
        attack.sweeps[0].look()  # of a machine that sees everything: no finished row is replaced
    for done in trials.values():
        store.commit(done)
    attack.sweeps[0].look()
    return attack.finding(complete=set(store.committed()) == set(trials))
