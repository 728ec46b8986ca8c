"""Faults of processes: drivers, workers and nodes are killed, terminated, or there are two of them."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from chaos import nodes, pack
from chaos.finding import Finding
from chaos.sweeps import Books, Start, newest_checkpoint, progress_files, space


def driver_killed(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """kill -9 of the driver at random moments: while it starts, while Ray starts, while packs train."""
    packs, seeds = 4 * times, 4
    file, results = folder / "chaos.yaml", folder / "results"
    file.write_text(space(packs, seeds, steps=2000))
    books, again, hits, in_training = Books(results), 0, 0, 0
    while hits < times:
        before = books.check()
        start = Start(checkout, file, results)
        moment = draw.random()
        if moment < 0.2:
            alive = start.sleep(draw.uniform(0, 10))
        elif moment < 0.4:
            alive = start.until(lambda start=start: "running on" in start.text) and start.sleep(draw.uniform(0, 5))
        else:
            files = progress_files(results)
            alive = start.until(lambda files=files: progress_files(results) != files) and start.sleep(
                draw.uniform(0, 2)
            )
        if not alive:
            break
        start.kill()
        hits += 1
        in_training += moment >= 0.4
        counts = start.counts()
        if counts is not None:
            again += max(0, before - counts[0])
        print(f"  {hits:3}: {before} committed before, planned {counts}, then {books.check()}", flush=True)
    done = Start(checkout, file, results)
    code = done.wait()
    finished = books.check()
    return Finding(
        hits, packs * seeds, len(books.lost), books.doubled(), again + len(books.changed),
        code == 0 and finished == packs * seeds, f"{in_training} of the kills while packs trained",
    )  # fmt: skip


def worker_killed(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """kill -9 of a process that trains a pack; counts the steps that the next process repeats."""
    results, witness, steps = folder / "results", folder / "witness", 100_000_000
    command = [sys.executable, "-m", "chaos.pack", str(results), str(witness), str(steps)]
    lost_steps, lost_seconds = [], []
    for hit in range(times + 1):
        process = subprocess.Popen(command, cwd=checkout)
        try:
            _until(lambda hit=hit: _starts(witness) > hit, process)
            if hit == times:
                break
            _until(lambda: len(witness.read_text().splitlines()) > 1, process)  # the first process has made a stride
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
    """kill -9 of a training process, of a raylet or of a whole node, in turns. A lost node is replaced."""
    packs, seeds = 2 * times, 2
    file, results = folder / "chaos.yaml", folder / "results"
    file.write_text(space(packs, seeds, steps=8000))
    books, hits = Books(results), dict.fromkeys(("worker", "raylet", "node"), 0)
    with nodes.nodes() as cluster:
        working = [cluster.join(num_cpus=1) for _ in range(3)]
        start = Start(checkout, file, results, address=str(cluster.address))
        while sum(hits.values()) < times:
            files = progress_files(results)
            if not start.until(lambda files=files: progress_files(results) != files) or not start.sleep(
                draw.uniform(0, 2)
            ):
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
                    start.sleep(draw.uniform(0, 2))
                cluster.lose(victim)
                working.append(cluster.join(num_cpus=1))
            hits[kind] += 1
            print(f"  {kind} killed with {books.check()} committed", flush=True)
        code = start.wait()
    finished = books.check()
    killed = ", ".join(f"{count} {name}s" for name, count in hits.items())
    deaths = start.text.count("a worker died with")
    return Finding(
        sum(hits.values()), packs * seeds, len(books.lost), books.doubled(), len(books.changed),
        code == 0 and finished == packs * seeds, f"{killed}; {deaths} packs went on elsewhere",
    )  # fmt: skip


def _starts(witness: Path) -> int:
    return witness.read_text().count("start") if witness.exists() else 0


def _runs(witness: Path) -> list[tuple[int, list[tuple[int, float]]]]:
    """For every process the step at which it began, and the step and the seconds after each stride."""
    runs: list[tuple[int, list[tuple[int, float]]]] = []
    for line in witness.read_text().splitlines():
        match line.split():
            case ["start", step]:
                runs.append((int(step), []))
            case ["step", step, seconds]:
                runs[-1][1].append((int(step), float(seconds)))
    return runs


def _until(condition: Callable[[], object], process: subprocess.Popen) -> None:
    """Wait for a condition.

    Raises:
        RuntimeError: the process ended first, or half an hour passed.
    """
    end = time.monotonic() + 1800
    while not condition():
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError("the worker did not start")
        time.sleep(0.02)


def terminated(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """SIGTERM to everything, as Slurm and reclaimed machines send it, with 30 s until the kill -9.

    The driver answers with 143, unless Ray's native code sees its raylet die first, which ends the driver with 1 before
    Python can answer. The workers leave their checkpoints either way.
    """
    file, results = folder / "chaos.yaml", folder / "results"
    file.write_text(space(packs=4, seeds=2, steps=400_000))
    graces, codes, kept = [], [], []
    for _ in range(times):
        before = newest_checkpoint(results)
        start = Start(checkout, file, results)
        start.until(lambda before=before: newest_checkpoint(results) > before)
        start.sleep(draw.uniform(0, 5))
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
        set(codes) <= {143, 1} and min(kept) > 0,
        f"exit codes {codes}, at most {max(graces):.1f} s to the end, at least {min(kept)} checkpoints left",
    )


def driver_doubled(checkout: Path, folder: Path, times: int, draw: random.Random) -> Finding:
    """Run two drivers of a sweep at once on one store."""
    file, results = folder / "chaos.yaml", folder / "results"
    file.write_text(space(packs=4, seeds=2, steps=2000))
    books, codes = Books(results), []
    for _ in range(times):
        both = [Start(checkout, file, results) for _ in range(2)]
        codes += [start.wait() for start in both]
        books.check()
    return Finding(
        times, 8, len(books.lost), books.doubled(), len(books.changed),
        set(codes) == {0} and books.check() == 8, f"exit codes {codes}",
    )  # fmt: skip
