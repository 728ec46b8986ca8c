"""Faults of what shares a store with a sweep: commands, and whoever moves the folder."""

import subprocess
import sys

from chaos.attack import Attack, Finding, Sweep, fault, numbers_of
from chaos.starts import Start
from sweeper.listeners.heartbeats import drivers
from sweeper.store.store import Store


@fault("deletions-beside-everything", times=10)
def deletions_beside_everything(attack: Attack, times: int) -> Finding:
    """Delete, compact, note and ask beside a sweep that runs, and beside each other when it has ended."""
    file, came_back, complete = attack.space(steps=2000), 0, True
    attack.undisturbed(file)
    while attack.hits < times:
        sweep = attack.sweep(file)
        start = sweep.start()
        if not _commands_beside(sweep, start):
            attack.sweeps.remove(sweep)
            continue
        complete &= sweep.ends(start) and numbers_of(sweep.results) == attack.truth
        _command(sweep, "compact")
        doomed = sorted(sweep.results.glob("trials/*/*/*.parquet"))
        at_once = ["delete chaos --yes", "compact", "status", "compact"]
        for process in [_started(sweep, command) for command in attack.draw.sample(at_once, len(at_once))]:
            process.communicate()
        came_back += len(Store.open(sweep.results).committed()) + sum(path.exists() for path in doomed)
        attack.hit(f"{came_back} deleted trials came back")
    return attack.finding(f"{came_back} deleted trials came back", complete and not came_back)


def _commands_beside(sweep: Sweep, start: Start) -> bool:
    """Run commands on the store of a sweep until its process ends.

    False if the sweep was deleted after its last heartbeat, but before its process had ended: a user may do
    that, and the account says nothing then.
    """
    commands = ["delete chaos --yes", "compact", "note chaos beside", "status"]
    sweep.trains(start, seconds=0)
    while start.process.poll() is None:
        command = sweep.attack.draw.choice(commands)
        if _command(sweep, command) and "delete" in command:
            if drivers(Store.open(sweep.results).files):
                raise RuntimeError(f"{command} was taken beside a heartbeat")
            start.wait()
            return False
        sweep.look()
    return True


def _started(sweep: Sweep, command: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "sweeper", *command.split(), "--results", str(sweep.results)]
    return subprocess.Popen(
        words, cwd=sweep.attack.checkout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def _command(sweep: Sweep, command: str) -> bool:
    """Run a command, which may be refused in one sentence and never ends in a traceback; whether it was taken."""
    output, _ = (process := _started(sweep, command)).communicate()
    if process.returncode not in (0, 2) or "Traceback" in output:
        raise RuntimeError(f"{command}: {output!r}")
    return process.returncode == 0


@fault("results-moved", times=3)
def results_moved(attack: Attack, times: int) -> Finding:
    """The results folder is renamed after a kill, and the sweep goes on there from its checkpoints."""
    file = attack.space(steps=60_000)
    attack.undisturbed(file)

    def begin(sweep: Sweep) -> Start:
        if sweep.results.exists():
            sweep.results = sweep.results.rename(attack.new_path("moved"))
        return sweep.start()

    for _ in attack.interrupted(times, lambda: attack.sweep(file), begin):
        pass
    return attack.finding()
