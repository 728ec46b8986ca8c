"""A test may use so many CPU seconds, with all processes below it; one that uses more fails.

The limits are seconds of CPU, set-up included, so that a busy machine breaks nothing; and of a machine on which a loop
of Python takes `LOOP` of them, since a virtual machine may be half as fast for some minutes. Long tests have none, but
for those of the list below. A fixture that several tests share has a limit of its own, and is not counted for the first
of them. Neither is what this process imports: the first test that uses a library would pay for all. Nor are collections
of garbage: a process that has run a thousand tests takes a second for one, which any of them may meet.
"""

import contextlib
import gc
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

QUICK, SLOW, SHARED = 1.0, 10.0, 40.0
"""CPU seconds of a test, of a slow one, and of the set-up of a fixture that several tests share."""

EXCEPTIONS: dict[str, float] = {
    "tests/launch/test_population.py"
    "::test_workers_compute_with_the_code_of_the_start_see_no_gpu_and_end_with_the_process_that_made_them": 25.0,
    "tests/launch/test_tune_worker.py::test_work_survives_the_way_to_a_worker": 20.0,
    "tests/sweeps/test_python_api.py::test_a_sweep_is_planned_trained_in_this_process_and_asked": 20.0,
    "tests/test_adding_a_task.py::test_a_new_task_trains": 25.0,
    "tests/plugins/test_mistakes.py::test_a_check_of_a_new_task_takes_seconds": 25.0,
}
"""What single tests may use instead, most of it for compilation by processes that share nothing.

This list only gets shorter: a test that needs more is long, or too large.
"""

_TICKS = os.sysconf("SC_CLK_TCK")
_STARTED = pytest.StashKey[float]()


class _OfNoTest:
    """CPU seconds that this process has spent on importing modules for the first time, and on collecting garbage."""

    def __init__(self) -> None:
        self.seconds, self._depth, self._collecting = 0.0, 0, 0.0
        gc.callbacks.append(self._collect)
        # The import system calls this function by its name, and only for modules that are not there yet.
        self._bootstrap: Any = sys.modules["_frozen_importlib"]
        self._find_and_load = self._bootstrap._find_and_load
        self._bootstrap._find_and_load = self

    def __call__(self, *arguments: Any) -> Any:
        if self._depth:
            return self._find_and_load(*arguments)
        started, self._depth = time.thread_time(), 1
        try:
            return self._find_and_load(*arguments)
        finally:
            self._depth = 0
            self.seconds += time.thread_time() - started

    def _collect(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._collecting = time.thread_time()
        elif not self._depth:  # an import counts whole
            self.seconds += time.thread_time() - self._collecting


_OF_NO_TEST = _OfNoTest()


LENIENCE = 2.0 if os.environ.get("CI") else 1.0
"""CI has compiled nothing yet, and more processes than cores, of which each then takes longer for the same work."""


LOOP = 0.045
"""CPU seconds of `_loop` on the machine on which the limits were set: two cores of an Intel Xeon, in a fast hour."""


def _loop() -> float:
    started, total = time.thread_time(), 0
    for number in range(10**6):
        total += number
    return time.thread_time() - started


def _is_above(spent: float, allowed: float) -> bool:
    """Whether so many CPU seconds are too many, by how fast this machine is now."""
    return spent > allowed and spent > allowed * min(_loop() for _ in range(3)) / LOOP


def limit(item: pytest.Item) -> float | None:
    """CPU seconds that a test may use, None for any number."""
    if item.get_closest_marker("long") is not None and item.nodeid not in EXCEPTIONS:
        return None
    return LENIENCE * EXCEPTIONS.get(item.nodeid, QUICK if item.get_closest_marker("slow") is None else SLOW)


def used() -> float:
    """CPU seconds of this process without what is of no test, of its ended children, and of all that live below it."""
    times = os.times()
    own = times.user + times.system - _OF_NO_TEST.seconds
    return own + times.children_user + times.children_system + _living_below(os.getpid())


def _living_below(root: int) -> float:
    """CPU seconds of living descendants; 0 where the system does not list children."""
    seconds, below = 0.0, _children(root)
    while below:
        pid = below.pop()
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        seconds += sum(map(int, fields[11:15])) / _TICKS  # utime, stime, cutime and cstime of proc_pid_stat(5)
        below += _children(pid)
    return seconds


def _children(pid: int) -> list[int]:
    """The children of all threads of a process, which Linux lists; looking at every process would cost 3 ms a test."""
    children: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                children += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return children


_shared = 0.0
"""CPU seconds of the set-up of shared fixtures so far."""


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
    global _shared
    if fixturedef.scope == "function":
        return (yield)
    started, before = used(), _shared
    try:
        result = yield
    finally:
        spent = used() - started
        _shared = before + spent  # of fixtures that it uses, too
    if _is_above(spent, LENIENCE * SHARED):
        pytest.fail(f"the fixture {fixturedef.argname} used {spent:.1f} CPU seconds, {SHARED:g} are allowed")
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    item.stash[_STARTED] = used() - _shared
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    result = yield
    allowed, spent = limit(item), used() - _shared - item.stash[_STARTED]
    if allowed is not None and _is_above(spent, allowed):
        pytest.fail(f"used {spent:.1f} CPU seconds, {allowed:g} are allowed (tests/budgets.py)", pytrace=False)
    return result
