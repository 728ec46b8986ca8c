"""Faults of what computes: code or arithmetic change between starts, or while a sweep runs.

Every row names the code and the arithmetic that its numbers come from. Each of them trains the same sweep undisturbed
first, so it is known which numbers they stand for, bit for bit.
"""

import itertools
import shutil
from collections.abc import Mapping
from pathlib import Path

from chaos.attack import Attack, Finding, Sweep, fault, numbers_of
from chaos.starts import Start

Variables = Mapping[str, str]

TASK = Path("tasks", "coloring.py")

EDIT = """

_loss, _losses, _outcomes = Task.loss, Task.losses, Task.outcomes
Task.loss = lambda self, *arguments: _loss(self, *arguments) ** {power}
Task.losses = lambda self, *arguments: _losses(self, *arguments) ** {power}
Task.outcomes = lambda self, *arguments: (found := _outcomes(self, *arguments))._replace(loss=found.loss ** {power})
"""

POWERS = (1.0, 1.5)
"""The versions of the code differ in the power to which they raise every loss."""

OTHER_CPU: Variables = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA"}
"""Functions of the C library compute as on an older CPU: no list of settings has this variable."""


class EditedProject:
    """A copy of the project whose colouring task is edited back and forth."""

    def __init__(self, attack: Attack, name: str, version: int = 0):
        self.folder = Path(shutil.copytree(attack.checkout, attack.folder / name))
        self._original = (self.folder / TASK).read_text()
        self.write(version)

    def write(self, version: int) -> None:
        """Give the task this version of the code, as an editor does: a new file takes the place of the old file."""
        edited = self.folder / TASK.with_suffix(".part")
        edited.write_text(self._original + EDIT.format(power=POWERS[version]))
        edited.rename(self.folder / TASK)


def _versions(attack: Attack, file: Path, code: EditedProject) -> None:
    """Learn the numbers of every version of the code."""
    for version in range(len(POWERS)):
        code.write(version)
        attack.undisturbed(file, code.folder)
    if len(set(attack.truth.values())) < len(attack.truth):
        raise RuntimeError("the versions of the code cannot be told apart by their numbers")


@fault("code-changed", times=20)
def code_changed(attack: Attack, times: int) -> Finding:
    """Kill the driver, edit the code and start again on the same store; about every second edit precedes the kill."""
    file, code, version, edited = attack.space(), EditedProject(attack, "code"), 0, 0
    _versions(attack, file, code)

    def begin(sweep: Sweep) -> Start:
        code.write(version)
        return sweep.start(code.folder)

    starts = attack.interrupted(times, lambda: attack.sweep(file, one_code=False), begin, code.folder)
    for start in starts:
        version = 1 - version
        if attack.draw.random() < 0.5:
            code.write(version)
            edited += 1
            start.sleep(attack.draw.uniform(0, 2))
    return attack.finding(f"{edited} of the edits while the sweep ran")


@fault("drivers-of-different-code", times=20)
def drivers_of_different_code(attack: Attack, times: int) -> Finding:
    """Run two drivers of a sweep on one store, each with its own code; kill one driver and start it again."""
    file, codes = attack.space(), [EditedProject(attack, f"code-{version}", version) for version in range(len(POWERS))]
    _versions(attack, file, EditedProject(attack, "code"))
    for _ in range(times):
        sweep, victim = attack.sweep(file), attack.draw.randrange(2)
        both = [sweep.start(code.folder) for code in codes]
        sweep.trains(both[victim])
        both[victim].kill()
        attack.hit(f"{sweep.look()} committed")
        both[victim] = sweep.start(codes[victim].folder)
        sweep.ends(*both)
    return attack.finding("one of the two killed each time, and started again")


@fault("arithmetic-changed", times=20)
def arithmetic_changed(attack: Attack, times: int) -> Finding:
    """Kill the driver, and start again with other arithmetic, as on another kind of CPU."""
    file, environments = attack.space(), itertools.cycle(({}, OTHER_CPU))
    for environment in ({}, OTHER_CPU):
        attack.undisturbed(file, environment=environment)
    for _ in attack.interrupted(
        times, lambda: attack.sweep(file, one_code=False), lambda sweep: sweep.start(environment=next(environments))
    ):
        pass
    told = [key[1] for sweep in attack.sweeps for key in numbers_of(sweep.results)]
    known = {key[1] for key in attack.truth}
    remark = f"{sum(' ' in each for each in told)} rows of two arithmetics, {len({*told} & known)} of one each"
    named = len(known) == 2 and {digest for each in told for digest in each.split()} <= known
    return attack.finding(remark, complete=named)
