"""The faults, one function each."""

import contextlib
import dataclasses
import datetime
import functools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from chaos import nodes, pack
from chaos.sweeps import Books, Start, space
from sweeper.store import compaction
from sweeper.store.store import Store, TrialResult
from sweeper.trial import provenance
from sweeper.trial.trial_spec import trial_id


@dataclasses.dataclass(frozen=True)
class Finding:
    """What came of one fault.

    Attributes:
        times: How often it was injected.
        trials: Trials of the sweep.
        lost: Committed trials that were gone later.
        doubled: Rows beside another row of the same trial at the end.
        again: Committed trials that a later start wanted to run, or whose row changed.
        complete: Whether the same command finished the sweep.
        remark: What else was measured.
    """

    times: int
    trials: int
    lost: int
    doubled: int
    again: int
    complete: bool
    remark: str = ""

    @property
    def kept(self) -> bool:
        """Whether every promise was kept."""
        return self.complete and not (self.lost or self.doubled or self.again)


Fault = Callable[[Path, Path, int, random.Random], Finding]
"""Takes a checkout, a scratch folder, how often to inject, and a generator."""


def driver_killed(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """kill -9 of the driver at random moments: while it starts, while Ray starts, while packs train."""
    packs, seeds = 4 * times, 4
    file, results = folder / "chaos.yaml", folder / "results"
    file.write_text(space(packs, seeds, steps=500))
    books, again, hits, in_training = Books(results), 0, 0, 0
    while hits < times:
        before = _checked(books, results)
        start = Start(checkout, file, results)
        moment = draw.random()
        if moment < 0.2:
            alive = _sleep(start, draw.uniform(0, 10))
        elif moment < 0.4:
            alive = start.until(lambda start=start: "running on" in start.text) and _sleep(start, draw.uniform(0, 5))
        else:
            files = _files(results)
            alive = start.until(lambda files=files: _files(results) != files) and _sleep(start, draw.uniform(0, 4))
        if not alive:
            break
        start.kill()
        hits += 1
        in_training += moment >= 0.4
        counts = start.counts()
        if counts is not None:
            again += max(0, before - counts[0])
        print(f"  {hits:3}: {before} committed before, planned {counts}, then {_checked(books, results)}", flush=True)
    done = Start(checkout, file, results)
    code = done.wait()
    finished = _checked(books, results)
    return Finding(
        hits, packs * seeds, len(books.lost), books.doubled(), again + len(books.changed),
        code == 0 and finished == packs * seeds, f"{in_training} of the kills while packs trained",
    )  # fmt: skip


def worker_killed(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """kill -9 of a process that trains a pack; counts the steps that the next one has to do again."""
    results, witness, steps = folder / "results", folder / "witness", 100_000_000
    command = [sys.executable, "-m", "chaos.pack", str(results), str(witness), str(steps)]
    lost_steps, lost_seconds = [], []
    for hit in range(times + 1):
        process = subprocess.Popen(command, cwd=checkout)
        try:
            begun = _until(lambda hit=hit: _starts(witness) > hit, process)
            if hit == times:
                break
            _until(lambda begun=begun: len(witness.read_text().splitlines()) > begun + 1, process)
            time.sleep(draw.uniform(0, 2.5))
        finally:
            process.kill()
            process.wait()
    for run, following in zip(runs := _runs(witness), runs[1:], strict=False):
        begun, strides = run
        last = strides[-1][0] if strides else begun
        lost_steps.append(last - following[0])
        kept = max((seconds for step, seconds in strides if step <= following[0]), default=0.0)
        lost_seconds.append(strides[-1][1] - kept if strides else 0.0)
    worst, mean = max(lost_seconds), sum(lost_seconds) / len(lost_seconds)
    print(f"  steps lost at each kill: {lost_steps}", flush=True)
    return Finding(
        times, 3, 0, 0, sum(steps < 0 for steps in lost_steps), worst < 2 * pack.CHECKPOINT_SECONDS,
        f"training lost: {mean:.2f} s on average, {worst:.2f} s at most, of an interval of {pack.CHECKPOINT_SECONDS} s",
    )  # fmt: skip


def nodes_killed(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """kill -9 of a training process, of a raylet or of a whole node, in turns; a lost one of the three is replaced."""
    packs, seeds = 2 * times, 2
    file, results = folder / "chaos.yaml", folder / "results"
    file.write_text(space(packs, seeds, steps=8000))
    books, hits = Books(results), dict.fromkeys(("worker", "raylet", "node"), 0)
    with nodes.nodes() as cluster:
        working = [cluster.join(num_cpus=1) for _ in range(3)]
        start = Start(checkout, file, results, address=str(cluster.address))
        while sum(hits.values()) < times:
            files = _files(results)
            if not start.until(lambda files=files: _files(results) != files) or not _sleep(start, draw.uniform(0, 2)):
                break
            victim = working.pop(draw.randrange(len(working)))
            kind = min(hits, key=lambda name: hits[name])
            if kind == "worker":
                working.append(victim)
                busy = nodes.trainers(victim)
                if not busy:
                    continue
                os.kill(draw.choice(busy), signal.SIGKILL)
            else:
                if kind == "raylet":
                    os.kill(nodes.raylet(victim), signal.SIGKILL)
                    _sleep(start, draw.uniform(0, 2))
                cluster.lose(victim)
                working.append(cluster.join(num_cpus=1))
            hits[kind] += 1
            print(f"  {kind} killed with {_checked(books, results)} committed", flush=True)
        code = start.wait()
    finished = _checked(books, results)
    killed = ", ".join(f"{count} {name}s" for name, count in hits.items())
    deaths = start.text.count("a worker died with")
    return Finding(
        sum(hits.values()), packs * seeds, len(books.lost), books.doubled(), len(books.changed),
        code == 0 and finished == packs * seeds, f"{killed}; {deaths} packs went on elsewhere",
    )  # fmt: skip


def _starts(witness: Path) -> int:
    return witness.read_text().count("start") if witness.exists() else 0


def _runs(witness: Path) -> list[tuple[int, list[tuple[int, float]]]]:
    """Of every process: the step at which it began, and steps and seconds after each stride."""
    runs: list[tuple[int, list[tuple[int, float]]]] = []
    for line in witness.read_text().splitlines():
        match line.split():
            case ["start", step]:
                runs.append((int(step), []))
            case ["step", step, seconds]:
                runs[-1][1].append((int(step), float(seconds)))
    return runs


def _until(condition: Callable[[], object], process: subprocess.Popen) -> int:
    """Waits; returns the number of lines that the condition's file has, which callers compare with later."""
    end = time.monotonic() + 1800
    while not condition():
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError("the worker did not start")
        time.sleep(0.02)
    return 0


def _sleep(start: Start, seconds: float) -> bool:
    end = time.monotonic() + seconds
    return start.until(lambda: time.monotonic() > end)


def _files(results: Path) -> int:
    return len(list(results.glob("trials/*/*/*.parquet"))) + len(list(results.glob("checkpoints/*.ckpt")))


def _checked(books: Books, results: Path) -> int:
    return books.check() if Store.open(results).exists() else 0


def terminated(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """SIGTERM to everything, as Slurm and reclaimed machines send it, with 30 s until the kill -9."""
    file, results = folder / "chaos.yaml", folder / "results"
    file.write_text(space(packs=4, seeds=2, steps=400_000))
    graces, codes, kept = [], [], []
    for _ in range(times):
        before = _newest(results)
        start = Start(checkout, file, results)
        start.until(lambda before=before: _newest(results) > before)
        _sleep(start, draw.uniform(0, 5))
        begun = time.monotonic()
        os.killpg(start.process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            start.wait(30)
        graces.append(time.monotonic() - begun)
        start.kill()
        codes.append(start.process.returncode)
        kept.append(len(list(results.glob("checkpoints/*.ckpt"))))
        print(f"  ended with {codes[-1]} after {graces[-1]:.1f} s, {kept[-1]} checkpoints", flush=True)
    return Finding(
        times,
        8,
        0,
        0,
        0,
        set(codes) == {143} and min(kept) > 0,
        f"exit codes {codes}, at most {max(graces):.1f} s to the end, at least {min(kept)} checkpoints left",
    )


def _newest(results: Path) -> float:
    """When the latest checkpoint was made; 0 if there is none."""
    times = [0.0]
    for path in results.glob("checkpoints/*.ckpt"):
        with contextlib.suppress(FileNotFoundError):
            times.append(path.stat().st_mtime)
    return max(times)


def disk_filled(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """The file system of the results is full, then has room again; needs root, for a small one of its own."""
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
    file.write_text(space(packs=4, seeds=2, steps=20_000))
    _mount("-t", "tmpfs", "-o", "size=4m", "chaos", str(disk))
    try:
        books = Books(results)
        start = Start(checkout, file, results)
        start.until(lambda: list(results.glob("checkpoints/*.ckpt")))
        spoil(disk)
        code, text = start.wait(), start.text
        before = _checked(books, results)
        told = message in text and "Traceback" not in text
        mend(disk)
        done = Start(checkout, file, results)
        complete = done.wait() == 0 and _checked(books, results) == 8
        print(f"  exit code {code} with {before} committed; the message:\n{text[-600:]}", flush=True)
        return Finding(
            1, 8, len(books.lost), books.doubled(), len(books.changed), code == 1 and told and complete,
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


def driver_doubled(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """Two drivers of one sweep at once, on one store."""
    file, results = folder / "chaos.yaml", folder / "results"
    file.write_text(space(packs=4, seeds=2, steps=2000))
    books, codes = Books(results), []
    for _ in range(times):
        both = [Start(checkout, file, results) for _ in range(2)]
        codes += [start.wait() for start in both]
        _checked(books, results)
    return Finding(
        times, 8, len(books.lost), books.doubled(), len(books.changed),
        set(codes) == {0} and _checked(books, results) == 8, f"exit codes {codes}",
    )  # fmt: skip


def results_moved(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """The results folder is renamed after a kill, and the sweep goes on there from its checkpoints."""
    file, results = folder / "chaos.yaml", folder / "results-0"
    file.write_text(space(packs=4, seeds=2, steps=20_000))
    rows = 0
    for move in range(times):
        start = Start(checkout, file, results)
        start.until(lambda results=results: list(results.glob("checkpoints/*.ckpt")))
        start.kill()
        rows = Books(results).check()
        results = results.rename(folder / f"results-{move + 1}")
    done = Start(checkout, file, results)
    code = done.wait()
    books = Books(results)
    again = max(0, rows - (done.counts() or (0, 0))[0])
    return Finding(times, 8, 0, books.doubled(), again, code == 0 and books.check() == 8)


def checkpoints_damaged(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """After a kill of the driver every checkpoint is truncated or emptied or has a bit flipped."""
    file, results = folder / "chaos.yaml", folder / "results"
    file.write_text(space(packs=4, seeds=2, steps=20_000))
    books, damaged = Books(results), 0
    for _ in range(times):
        start = Start(checkout, file, results)
        if not start.until(lambda: list(results.glob("checkpoints/*.ckpt"))):
            break
        start.kill()
        for path in results.glob("checkpoints/*.ckpt"):
            path.write_bytes(_spoiled(path.read_bytes(), draw))
            damaged += 1
        _checked(books, results)
    code = Start(checkout, file, results).wait()
    finished = _checked(books, results)
    left = len(list(results.glob("checkpoints/*")))
    return Finding(
        times, 8, len(books.lost), books.doubled(), len(books.changed), code == 0 and finished == 8 and not left,
        f"{damaged} checkpoints damaged",
    )  # fmt: skip


def _spoiled(data: bytes, draw: random.Random) -> bytes:
    """Nothing of it, or its beginning, or all of it but for one bit."""
    place = draw.randrange(len(data))
    flipped = data[:place] + bytes([data[place] ^ 1 << draw.randrange(8)]) + data[place + 1 :]
    return draw.choice([b"", data[:place], flipped])


DAMAGED_TRIALS = 230
"""Trials of the store whose files are damaged: two compacted files, and some in files of their own."""


def files_damaged(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """Files of every kind, compacted ones too, are truncated, emptied or have a bit flipped, with their times kept."""
    results = folder / "results"
    store = Store.open(results)
    trials = {trial_id(done.trial): done for done in map(_result, range(DAMAGED_TRIALS))}
    for done in trials.values():
        store.commit(done)
    compaction.compact(store)
    missed = lost = 0
    for _ in range(times):
        before = set(store.committed())
        path = draw.choice([path for path in sorted(results.rglob("*.parquet")) if "quarantine" not in path.parts])
        state = path.stat()
        path.write_bytes(_spoiled(path.read_bytes(), draw))
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
        # Everything else is there to be asked, before anybody has looked for damage.
        sound = set(store.trials()["trial_id"].to_pylist()) & set(store.curves()["trial_id"].to_pylist())
        sound &= set(store.outcomes()["trial_id"].to_pylist())
        after = set(store.committed())
        if after == before:
            # A bit of a footer that no reader of its table needs; only the digest of the whole file tells.
            store.verify("curves")
            store.verify("outcomes")
            after = set(store.committed())
        hit = before - after
        missed += not hit
        lost += len(hit) > (compaction.TOGETHER if "compacted" in path.name else 1) or not after <= sound
        for key in sorted(hit):
            store.commit(trials[key])
        if draw.random() < 0.2:
            compaction.compact(store)
    ids = store.trials()["trial_id"].to_pylist()
    complete = not missed and set(ids) == set(trials) and store.curves().num_rows == 2 * len(trials)
    return Finding(
        times, len(trials), lost, len(ids) - len(set(ids)), 0, complete, f"{missed} not found; the damaged ran again"
    )


_provenance = functools.cache(lambda: provenance.capture(["chaos"]))


def _result(seed: int) -> TrialResult:
    trial = pack.trials(100)[0].model_copy(update={"seed": seed})
    now = datetime.datetime.now(datetime.UTC)
    return TrialResult(
        trial, "finished", {"success": 0.5}, [(50, "train_loss", 0.5), (100, "train_loss", 0.25)],
        pa.table({"input": [0, 1], "success": pa.array([0.25, 0.75], pa.float32())}),
        {"steps_done": 100.0}, None, _provenance(), "0" * 20, 1, "cpu", now, now,
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
                compaction.compact(store)
            books.check()
    finally:
        time.time = clock
    found = store.committed()
    return Finding(
        times, len(trials), len(books.lost) + len(trials.keys() - found.keys()), books.doubled(), len(books.changed),
        store.curves().num_rows == 2 * len(trials),
    )  # fmt: skip
