"""Faults of what shares a store with a sweep: other sweeps, commands, and whoever moves the folder."""

import subprocess
import sys
from pathlib import Path

from chaos.attack import Attack, Finding, Sweep, fault, numbers_of
from chaos.starts import Start
from sweeper.analysis.sql import table
from sweeper.analysis.status import drivers
from sweeper.store.store import Store

RUNGS = {"first": "[{steps: 1000, keep: 2}, {steps: 2000, keep: 1}]", "second": "[{steps: 1500, keep: 1}]"}


@fault("halvings-that-share-trials", times=10)
def halvings_that_share_trials(attack: Attack, times: int) -> Finding:
    """Run two halvings of the same trials on one store at once; kill one of the drivers and start it again."""
    searches = {name: f"\nsearch: {{method: halving, starts: 4, rungs: {rungs}}}\n" for name, rungs in RUNGS.items()}
    files = [attack.space(1, 2, 3000, name, search) for name, search in searches.items()]
    expected = set.union(*(_winners(attack.undisturbed(file)) for file in files))
    truth = {key: value for key, value in attack.truth.items() if _whole(value)}
    wrong = 0
    for _ in range(times):
        results = attack.new_path("shared")
        first, second = (attack.sweep(file, results=results) for file in files)
        both, victim = [first.start(), second.start()], attack.draw.randrange(2)
        first.trains(both[victim], seconds=3)
        both[victim].kill()
        first.look()
        both[victim] = (first, second)[victim].start()
        as_alone = {start.wait() for start in both} == {0} and _winners(results) == expected
        first.complete = second.complete = as_alone
        first.look()
        rows = numbers_of(results)
        wrong += sum(key in rows and _whole(rows[key]) and rows[key] != value for key, value in truth.items())
        attack.hit(f"winners {'as alone' if as_alone else 'WRONG'}, {wrong} of other bits")
    return attack.finding(other=wrong)


def _winners(results: Path) -> set[tuple]:
    rows = table("select sweep, trial_id from sweeps where winner", Store.open(results))
    return {(row["sweep"], row["trial_id"]) for row in rows.to_pylist()}


def _whole(numbers: tuple[tuple, tuple]) -> bool:
    """Whether a trial was trained to its end: `steps_done` is the last of its columns."""
    return numbers[0][-1] == 3000


@fault("deletions-beside-everything", times=10)
def deletions_beside_everything(attack: Attack, times: int) -> Finding:
    """Delete, compact and note beside a sweep that runs, and beside each other when it has ended."""
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
        at_once = ["delete chaos --yes", "compact", "status", "compact", "note chaos late"]
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
    commands = ["delete chaos --yes", "compact", "note chaos beside"]
    sweep.trains(start, seconds=0)
    while start.process.poll() is None:
        command = sweep.attack.draw.choice(commands)
        if _command(sweep, command) and "chaos" in command and not command.startswith("note"):
            if drivers(Store.open(sweep.results)):
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
