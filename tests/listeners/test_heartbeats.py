"""Heartbeats: which process a driver is, how old a heartbeat is, and files that make no sense."""

import os
import subprocess
import sys
import time

import pytest

from sweeper.listeners import driver_process
from sweeper.listeners.driver_process import DriverProcess, life, this_process
from sweeper.listeners.heartbeats import (
    answers,
    ask_to_stop,
    heartbeats,
    is_asked_to_stop,
    remove_heartbeat,
    store_clock,
    write_heartbeat,
)
from sweeper.store.store import Store
from tests.heartbeats import DEAD, heartbeat


def test_a_heartbeat_is_read_as_it_was_written_until_it_is_removed(local):
    files, written = local.files, heartbeat(seconds_left=None)
    write_heartbeat(files, "quick", written)
    ask_to_stop(files, "quick", written.driver)
    (stored,) = heartbeats(files)
    assert (stored.sweep, stored.heartbeat) == ("quick", written)
    assert is_asked_to_stop(files, "quick", written.driver)
    remove_heartbeat(files, "quick", written.driver)
    assert heartbeats(files) == []
    assert not is_asked_to_stop(files, "quick", written.driver)
    assert files.listing("drivers") == {}


def test_a_driver_that_is_asked_to_stop_answers_by_its_end(local):
    running, dead = heartbeat(), heartbeat(process=DEAD)
    for each in (running, dead):
        write_heartbeat(local.files, "quick", each)
    ends = answers(local.files, "quick", look=0.001)
    assert next(ends)[0] == DEAD
    assert is_asked_to_stop(local.files, "quick", running.driver)
    remove_heartbeat(local.files, "quick", running.driver)
    assert [process for process, _ in ends] == [running.process]
    assert heartbeats(local.files) == []


def test_the_clock_of_the_store_leaves_nothing(local, monkeypatch):
    files = local.files
    write_heartbeat(files, "quick", heartbeat())
    monkeypatch.setattr(time, "time", lambda: 0.0)
    (stored,) = heartbeats(files)
    assert 0 <= store_clock(files) - stored.modified < 3600e9
    assert len(files.listing("drivers")) == 1


def test_a_store_that_cannot_be_written_tells_no_time(tmp_path):
    (tmp_path / "results").write_text("a file")
    assert store_clock(Store.open(tmp_path / "results").files) is None


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"{", b'{"driver": "x"}', heartbeat(driver="0" * 16).model_dump_json().encode(),
        heartbeat(driver="f" * 16).model_dump_json().encode() + b" " * 2**20,
        *(
            heartbeat(driver="f" * 16).model_dump_json().replace(*change).encode()
            for change in (
                ('"every":5.0', '"every":1e9'), ('"every":5.0', '"every":-1'), ('"every":5.0', '"every":NaN'),
                ('"elapsed":60.0', '"elapsed":Infinity'), ('"elapsed":60.0', '"elapsed":1e300'),
                ('"done":3', f'"done":{10**4000}'), ('"pid":', '"pid":9999999999'),
                ('"command":"', '"command":"\\ud800'),
            )
        ),
    ],
    ids=[
        "empty", "list", "cut", "another record", "another driver", "too large", "rare", "negative", "no number",
        "infinite", "long", "many", "no process", "half a character",
    ],
)  # fmt: skip
def test_files_that_make_no_sense_are_passed_over(tmp_path, data):
    files = Store.open(tmp_path).files
    files.write("drivers/quick/" + "f" * 16 + ".json", data)
    files.write("drivers/strange/name.json", heartbeat().model_dump_json().encode())
    assert heartbeats(files) == []


def test_life_is_certain_on_this_machine(tmp_path):
    program = tmp_path / "a) Z ("  # the system tells names of programs among the states of processes
    program.symlink_to(sys.executable)
    says = "import runpy; print(runpy.run_path({!r})['this_process']().model_dump_json(), flush=True); input()"
    child = subprocess.Popen(
        [program, "-c", says.format(driver_process.__file__)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    process = DriverProcess.model_validate_json(child.stdout.readline())
    assert (process.pid, process.machine) == (child.pid, this_process().machine)
    assert life(process) == "alive"
    assert life(process.model_copy(update={"born": process.born - 1})) == "dead", "another process has the number now"
    assert life(process.model_copy(update={"machine": "another boot"})) == "elsewhere"
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert life(process) == "dead", "a process that nobody has waited for"
    child.wait()
    assert life(process) == "dead"
    child.stdin.close()
    child.stdout.close()


def test_without_proc_a_number_is_all_there_is(monkeypatch):
    mine = this_process().model_copy(update={"born": None})
    assert life(mine) == "alive"
    child = subprocess.Popen(["true"])
    child.wait()
    assert life(mine.model_copy(update={"pid": child.pid})) == "dead"

    def refused(pid, signum):
        raise PermissionError

    monkeypatch.setattr(os, "kill", refused)
    assert life(mine) == "alive", "the process of another user"
