"""Tasks that raise what is no error elsewhere, and tasks that hang, on a real cluster."""

import pytest

from sweeper.store.store import Store
from tests.end_to_end.sweep_process import Command, copy_checkout
from tests.tiny_sweeps import with_seeds

pytestmark = pytest.mark.slow

TASK = '''
"""Colouring that may do something else than to compute its losses."""

import os
import sys
import time
from pathlib import Path
from typing import Literal

from tasks import coloring


class Own(BaseException):
    pass


class Mute(Exception):
    def __str__(self):
        return None


class Task(coloring.Task):
    name: Literal["bad"] = "bad"
    does: Literal["well", "open", "exit", "interrupt", "generator", "own", "mute", "hang"] = "well"

    def losses(self, network, inputs, seeds):
        if "ray" not in sys.modules:  # no worker: the start checks the task, or compiles ahead
            return super().losses(network, inputs, seeds)
        print("a task speaks")
        match self.does:
            case "open":
                open("/nowhere/doors.json")
            case "exit":
                sys.exit(0)
            case "interrupt":
                raise KeyboardInterrupt("no")
            case "generator":
                raise GeneratorExit
            case "own":
                raise Own("several lines:\\n\\udcffthe reason")
            case "mute":
                raise Mute
            case "hang":
                Path("PLACE", str(os.getpid())).touch()
                while True:
                    time.sleep(1)
        return super().losses(network, inputs, seeds)
'''

DOES = "does: {choice: [open, exit, interrupt, generator, own, mute, well]}"
SPACE = with_seeds(1).replace("name: coloring", f"name: bad, {DOES}").replace("steps: 300", "steps: 50")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkout")
    copy_checkout(folder)
    (folder / "hung").mkdir()
    (folder / "tasks" / "bad.py").write_text(TASK.replace("PLACE", str(folder / "hung")))
    (folder / "bad.yaml").write_text(SPACE)
    return folder


def test_whatever_a_task_raises_is_a_failure_of_its_trial_and_of_no_other(checkout):
    code, printed = Command(checkout, "bad.yaml", "--address", "local").wait()
    assert code == 1, printed
    assert "printed: a task speaks" in printed
    rows = Store.open(checkout / "results").trials().to_pylist()
    assert [row["status"] for row in rows].count("finished") == 1, printed
    errors = {row["error_kind"]: row["error_message"] for row in rows if row["status"] == "failed"}
    assert errors.keys() == {"FileNotFoundError", "SystemExit", "KeyboardInterrupt", "GeneratorExit", "Own", "Mute"}
    assert all("(tasks/bad.py, line " in message for message in errors.values())
    assert errors["FileNotFoundError"].startswith("[Errno 2] No such file or directory: '/nowhere/doors.json'")
    assert errors["Mute"].startswith("its message cannot be made (TypeError)")
    assert errors["Own"].startswith(r"several lines:; \udcffthe reason")


def test_a_worker_without_news_is_ended_and_after_the_second_the_pack_is_lost(checkout):
    hanging = ("--set", "trial.task.does=hang", "--set", "resources.progress_seconds=2", "--results", "hung_results")
    code, printed = Command(checkout, "bad.yaml", "--address", "local", *hanging).wait()
    assert code == 1, printed
    assert printed.count("the pack is tried in another worker") == 1, printed
    assert "2 workers reported nothing new for 2 s (resources.progress_seconds)" in printed
    assert len(list((checkout / "hung").iterdir())) == 2, "two workers have tried"
    assert Store.open(checkout / "hung_results").committed() == {}


def test_a_task_that_ends_the_processes_of_its_population_is_a_failure(checkout):
    options = ("trial.task.does=exit", "trial.optimizer={name: pgpe, population: 4}", "resources.population_workers=1")
    changes = [word for option in options for word in ("--set", option)]
    code, printed = Command(checkout, "bad.yaml", "--address", "local", *changes, "--results", "evolved").wait()
    assert code == 1, printed
    (row,) = Store.open(checkout / "evolved").trials().to_pylist()
    assert (row["status"], row["error_kind"]) == ("failed", "SystemExit")
    assert "(tasks/bad.py, line " in row["error_message"]
