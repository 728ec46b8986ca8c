"""Faults of what computes: code, settings or arithmetic change between starts, while a sweep runs, or between nodes.

Every row names the code and the arithmetic that its numbers come from. Each of them trains the same sweep undisturbed
first, so it is known which numbers they stand for, bit for bit.
"""

import itertools
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos import nodes
from chaos.attack import Attack, Finding, Sweep, fault, numbers_of
from chaos.starts import Start, send

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

FAST_MATH: Variables = {"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"}
"""An environment with a fingerprint of its own."""

SETTINGS: tuple[Variables, ...] = (
    {"JAX_ENABLE_X64": "1"},
    {"JAX_THREEFRY_PARTITIONABLE": "0"},
    {"JAX_DEFAULT_MATMUL_PRECISION": "bfloat16"},
    {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=true"},
    FAST_MATH,
)
"""Environments that change numbers, or would."""

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


def _resumed(attack: Attack, times: int, undisturbed: Sequence[Variables], environments: Sequence[Variables]) -> int:
    """Kill the driver, and start again in another environment, again and again; the number of starts refused.

    The numbers of the environments in `undisturbed` are learnt before.
    """
    file, following = attack.space(), itertools.cycle(environments)
    for environment in undisturbed:
        attack.undisturbed(file, environment=environment)
    starts = attack.interrupted(
        times, lambda: attack.sweep(file, one_code=False), lambda sweep: sweep.start(environment=next(following))
    )
    return sum(start.process.poll() is not None for start in starts)


@fault("settings-changed", times=20)
def settings_changed(attack: Attack, times: int) -> Finding:
    """Kill the driver, and start again with settings of JAX or XLA in the environment that change numbers."""
    refused = _resumed(attack, times, ({}, FAST_MATH), attack.draw.sample(SETTINGS, len(SETTINGS)))
    return attack.finding(f"{refused} starts refused")


@fault("arithmetic-changed", times=20)
def arithmetic_changed(attack: Attack, times: int) -> Finding:
    """Kill the driver, and start again with other arithmetic, as on another kind of CPU."""
    _resumed(attack, times, ({}, OTHER_CPU), ({}, OTHER_CPU))
    return _of_arithmetics(attack)


@fault("node-of-other-arithmetic", times=10)
def node_of_other_arithmetic(attack: Attack, times: int) -> Finding:
    """A node of two has another arithmetic; workers are killed, so that packs move to and fro."""
    sweep = attack.sweep(attack.space(packs=2 * times, steps=8000), 4 * times)
    for environment in ({}, OTHER_CPU):
        attack.undisturbed(sweep.file, environment=environment)
    with nodes.nodes() as cluster:
        working = [cluster.join(num_cpus=1), cluster.join(num_cpus=1, variables=OTHER_CPU)]
        start = sweep.start(address=str(cluster.address))
        while attack.hits < times and sweep.trains(start):
            if busy := nodes.trainers(attack.draw.choice(working)):
                send(signal.SIGKILL, busy)
                attack.hit(f"{sweep.look()} committed")
        sweep.ends(start)
    return _of_arithmetics(attack)


def _of_arithmetics(attack: Attack) -> Finding:
    """The finding about sweeps of two arithmetics: their rows name those that they have gone through."""
    told = [key[1] for sweep in attack.sweeps for key in numbers_of(sweep.results)]
    known = {key[1] for key in attack.truth}
    remark = f"{sum(' ' in each for each in told)} rows of two arithmetics, {len({*told} & known)} of one each"
    named = len(known) == 2 and {digest for each in told for digest in each.split()} <= known
    return attack.finding(remark, complete=named)
