"""Faults of processes: drivers, workers and nodes are killed or terminated, or there are two of them."""

import collections
import contextlib
import os
import signal
import subprocess
import time

from chaos import nodes
from chaos.attack import Attack, Finding, Sweep, fault
from chaos.starts import TRAINER, Start, send


@fault("killed", times=100)
def killed(attack: Attack, times: int) -> Finding:
    """kill -9 of the driver or of a worker at random moments: while it starts, while Ray starts, while packs train."""
    file, victims = attack.space(packs=6), collections.Counter[str]()
    attack.undisturbed(file)
    while attack.hits < times:
        sweep = attack.sweep(file, 12)
        start = sweep.start()
        while attack.hits < times and _at_a_random_moment(attack, sweep, start):
            workers = start.family(TRAINER)
            victim = "worker" if workers and attack.draw.random() < 0.5 else "driver"
            victims[victim] += 1
            if victim == "worker":
                send(signal.SIGKILL, [attack.draw.choice(workers)])
                attack.hit(f"a worker killed with {sweep.look()} committed")
            else:
                sweep.kill(start)
                start = sweep.start()
        start.wait()
        sweep.ends()
    return attack.finding(f"{victims['driver']} drivers and {victims['worker']} workers")


def _at_a_random_moment(attack: Attack, sweep: Sweep, start: Start) -> bool:
    """Wait for a moment of a random phase; False if the start ended first."""
    phase, seconds = attack.draw.random(), attack.draw.uniform(0, 1)
    if phase < 0.2:
        return start.sleep(10 * seconds)
    if phase < 0.4:
        return start.until(lambda: "running on" in start.text) and start.sleep(5 * seconds)
    return sweep.trains(start)


@fault("nodes-killed", times=21)
def nodes_killed(attack: Attack, times: int) -> Finding:
    """kill -9 of a training process, of a raylet or of a whole node, in turns. A lost node is replaced."""
    hits = dict.fromkeys(("worker", "raylet", "node"), 0)
    sweep = attack.sweep(attack.space(packs=2 * times, steps=8000), 4 * times)
    with nodes.nodes() as cluster:
        working = [cluster.join(num_cpus=1) for _ in range(3)]
        start = sweep.start(address=str(cluster.address))
        while attack.hits < times and sweep.trains(start):
            victim, kind = attack.draw.choice(working), min(hits, key=lambda name: hits[name])
            if kind == "worker":
                if not (busy := nodes.trainers(victim)):
                    continue
                send(signal.SIGKILL, [attack.draw.choice(busy)])
            else:
                if kind == "raylet":
                    send(signal.SIGKILL, [nodes.raylet(victim)])
                    start.sleep(attack.draw.uniform(0, 2))
                cluster.lose(victim)
                working.remove(victim)
                working.append(cluster.join(num_cpus=1))
            hits[kind] += 1
            attack.hit(f"{kind} killed with {sweep.look()} committed")
        sweep.ends(start)
    counts = ", ".join(f"{count} {name}s" for name, count in hits.items())
    return attack.finding(f"{counts}; {start.text.count('a worker died with')} packs went on elsewhere")


@fault("terminated", times=5)
def terminated(attack: Attack, times: int) -> Finding:
    """SIGTERM to everything, as Slurm and reclaimed machines send it, with 30 s until the kill -9.

    The driver answers with 143, unless Ray's native code sees its raylet die first, which ends the driver with 1 before
    Python can answer. The workers leave their checkpoints either way.
    """
    sweep = attack.sweep(attack.space(steps=400_000))
    graces, codes, kept = [], set(), []
    for _ in range(times):
        start = sweep.start()
        sweep.trains(start, seconds=5)
        begun = time.monotonic()
        os.killpg(start.process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            start.wait(30)
        graces.append(time.monotonic() - begun)
        sweep.kill(start)
        codes.add(start.process.returncode)
        kept.append(len(sweep.checkpoints))
    sweep.complete = codes <= {143, 1} and min(kept) > 0  # the sweep is left unfinished
    return attack.finding(
        f"exit codes {codes}, at most {max(graces):.1f} s to the end, at least {min(kept)} checkpoints left"
    )


@fault("two-drivers", times=2)
def two_drivers(attack: Attack, times: int) -> Finding:
    """Run two drivers of a sweep at once on one store."""
    file = attack.space(steps=2000)
    attack.undisturbed(file)
    for _ in range(times):
        sweep = attack.sweep(file)
        sweep.ends(sweep.start(), sweep.start())
        attack.hit(f"{sweep.look()} committed")
    return attack.finding()
