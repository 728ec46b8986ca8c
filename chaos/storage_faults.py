"""Faults of storage: disks that are full or read-only, folders that move, files that are damaged, clocks that jump."""

import contextlib
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

from chaos import pack
from chaos.finding import Finding
from chaos.sweeps import Books, Start, newest_checkpoint, space
from sweeper.store.store import Store, TrialResult
from sweeper.trial import provenance
from sweeper.trial.trial import trial_id


def disk_filled(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """The file system of the results is full, then has room again; needs root, to mount a small file system."""
    return _refused(checkout, folder, "No space left on device", _fill, lambda disk: (disk / "filler").unlink())


def disk_read_only(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """The file system of the results turns read-only, then writable again; needs root."""
    return _refused(
        checkout, folder, "Read-only file system",
        lambda disk: _mount("-o", "remount,ro", str(disk)), lambda disk: _mount("-o", "remount,rw", str(disk)),
    )  # fmt: skip


def _refused(
    checkout: Path, folder: Path, message: str, spoil: Callable[[Path], object], mend: Callable[[Path], object]
) -> Finding:
    disk, file = folder / "disk", folder / "chaos.yaml"
    results = disk / "results"
    disk.mkdir()
    file.write_text(space(packs=4, seeds=2, steps=60_000))
    _mount("-t", "tmpfs", "-o", "size=4m", "chaos", str(disk))
    try:
        books = Books(results)
        start = Start(checkout, file, results)
        times = int(start.until(lambda: list(results.glob("checkpoints/*.ckpt"))))
        spoil(disk)
        code, text = start.wait(), start.text
        before = books.check()
        told = message in text and "Traceback" not in text
        mend(disk)
        done = Start(checkout, file, results)
        complete = done.wait() == 0 and books.check() == 8
        print(f"  exit code {code} with {before} committed; the message:\n{text[-600:]}", flush=True)
        return Finding(
            times, 8, len(books.lost), books.doubled(), len(books.changed), code == 1 and told and complete,
            f"exit code {code}, {before} committed before it",
        )  # fmt: skip
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def results_moved(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """The results folder is renamed after a kill, and the sweep goes on there from its checkpoints."""
    file, results = folder / "chaos.yaml", folder / "results-0"
    file.write_text(space(packs=4, seeds=2, steps=60_000))
    rows = moves = 0
    while moves < times:
        start = Start(checkout, file, results)
        if not start.until(lambda results=results: list(results.glob("checkpoints/*.ckpt"))):
            break
        start.kill()
        rows, moves = Books(results).check(), moves + 1
        results = results.rename(folder / f"results-{moves}")
    done = Start(checkout, file, results)
    code = done.wait()
    books = Books(results)
    again = max(0, rows - (done.counts() or (0, 0))[0])
    return Finding(moves, 8, 0, books.doubled(), again, code == 0 and books.check() == 8)


def checkpoints_damaged(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """After a kill of the driver every checkpoint is truncated or emptied or has a bit flipped."""
    file, results = folder / "chaos.yaml", folder / "results"
    file.write_text(space(packs=4, seeds=2, steps=60_000))
    books, hits, damaged = Books(results), 0, 0
    while hits < times:
        before = newest_checkpoint(results)
        start = Start(checkout, file, results)
        if not start.until(lambda before=before: newest_checkpoint(results) > before):
            break
        start.kill()
        for path in results.glob("checkpoints/*.ckpt"):
            if path.stat().st_mtime > before:  # and so was written since the last damage
                path.write_bytes(_spoiled(path.read_bytes(), draw))
                damaged += 1
        hits += 1
        books.check()
    code = Start(checkout, file, results).wait()
    finished = books.check()
    left = len(list(results.glob("checkpoints/*")))
    return Finding(
        hits, 8, len(books.lost), books.doubled(), len(books.changed), code == 0 and finished == 8 and not left,
        f"{damaged} checkpoints damaged",
    )  # fmt: skip


def _spoiled(data: bytes, draw: random.Random) -> bytes:
    """The bytes of a damaged file: none, the first ones, or all of them with one bit flipped."""
    place = draw.randrange(len(data))
    flipped = data[:place] + bytes([data[place] ^ 1 << draw.randrange(8)]) + data[place + 1 :]
    return draw.choice([b"", data[:place], flipped])


DAMAGED_TRIALS = 230
"""Trials of the store whose files are damaged."""


def files_damaged(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """Files of trials and the snapshot are truncated, emptied or have a bit flipped, with their times kept."""
    results = folder / "results"
    store = Store.open(results)
    trials = {trial_id(done.trial): done for done in map(_result, range(DAMAGED_TRIALS))}
    for done in trials.values():
        store.commit(done)
    store.compact()
    missed = lost = 0
    whole = _said(store)
    for _ in range(times):
        before = set(store.committed())
        path = draw.choice(
            sorted(path for name in ("trials", "snapshots") for path in (results / name).rglob("*.parquet"))
        )
        state = path.stat()
        path.write_bytes(_spoiled(path.read_bytes(), draw))
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
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
        if draw.random() < 0.2:
            store.compact()
    ids = store.trials()["trial_id"].to_pylist()
    complete = not missed and set(ids) == set(trials) and store.curves().num_rows == 2 * len(trials)
    return Finding(
        times, len(trials), lost, len(ids) - len(set(ids)), 0, complete, f"{missed} not found; the damaged ran again"
    )


def _said(store: Store) -> tuple[pa.Table, ...]:
    return store.trials(), store.curves(), store.outcomes()


_provenance = functools.cache(lambda: provenance.capture("chaos"))


def _result(seed: int) -> TrialResult:
    trial = pack.trials(100)[0].model_copy(update={"seed": seed})
    now = datetime.datetime.now(datetime.UTC)
    return TrialResult(
        trial=trial, status="finished", metrics={"success": 0.5},
        curves=[(50, "train_loss", 0.5), (100, "train_loss", 0.25)],
        outcomes={"success": np.array([0.25, 0.75], np.float32)},
        network={"weight": np.full(16, seed, np.float32)},
        timings={"steps_done": 100.0}, provenance=_provenance(), pack_id="0" * 20, lanes=1, device="cpu",
        started=now, finished=now,
    )  # fmt: skip


def clock_jumped(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """The clock that the store reads jumps by up to thirty years, and so do the times of its files."""
    results = folder / "results"
    store = Store.open(results)
    trials = {trial_id(done.trial): done for done in map(_result, range(times))}
    books, clock = Books(results), time.time
    try:
        for done in trials.values():
            jump = draw.uniform(-30, 30) * 365 * 86400
            time.time = lambda jump=jump: clock() + jump
            store.commit(done)
            for path in results.rglob("*.parquet"):
                if draw.random() < 0.1:
                    moment = clock() + draw.uniform(-30, 30) * 365 * 86400
                    os.utime(path, (moment, moment))
            if draw.random() < 0.1:
                store.compact()
            books.check()
    finally:
        time.time = clock
    missing = trials.keys() - store.committed().keys()
    return Finding(
        times, len(trials), len(books.lost) + len(missing), books.doubled(), len(books.changed),
        store.curves().num_rows == 2 * len(trials),
    )  # fmt: skip
