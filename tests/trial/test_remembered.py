"""Answers of code that later processes have without importing it."""

import json
import os

import pytest

from tests.processes import python

ASKING = """
import sys
from pathlib import Path
from sweeper.trial.remembered import remembered

@remembered
def value(name):
    import helper
    print("asked", end=" ")
    return getattr(helper, name)

try:
    print(value("NUMBER"), value("NUMBER"))
except AttributeError:
    print("nothing")
exec(sys.argv[1])
"""


@pytest.fixture
def project(tmp_path):
    """A folder of a project, with a module; answers are kept beside it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "helper.py").write_text("NUMBER = 1\n")
    (tmp_path / "temporary").mkdir()
    return folder


def program(project, text, *arguments, **variables):
    """What a new process prints that runs a program in the folder of the project."""
    paths = os.pathsep.join([os.getcwd(), str(project)])
    own = {"PYTHONPATH": paths, "TMPDIR": str(project.parent / "temporary"), "PYTHONDONTWRITEBYTECODE": "1"}
    return python("-c", text, *arguments, cwd=project, check=True, **own, **variables).stdout.strip()


def asked(project, further="", **variables):
    return program(project, ASKING, further, **variables)


@pytest.mark.slow  # processes
def test_a_later_process_has_the_answer_without_asking(project):
    assert [asked(project) for _ in range(3)] == ["asked 1 1", "1 1", "1 1"]
    assert asked(project, PYTHONHASHSEED="7") == "1 1"


def touched(project):
    helper = project / "helper.py"
    before = helper.stat()
    helper.write_text("NUMBER = 2\n")
    os.utime(helper, ns=(before.st_atime_ns, before.st_mtime_ns))


def hidden(project):
    (project / "helper").mkdir()
    (project / "helper" / "__init__.py").write_text("NUMBER = 2\n")


def replaced(project):
    (project / "helper.py").rename(project / "old.py")
    (project / "helper").mkdir()
    (project / "helper" / "__init__.py").write_text("NUMBER = 2\n")


@pytest.mark.slow  # processes
@pytest.mark.parametrize("edited", [touched, hidden, replaced])
def test_code_that_was_edited_is_asked_again(edited, project):
    assert [asked(project), asked(project)] == ["asked 1 1", "1 1"]
    edited(project)
    assert [asked(project), asked(project)] == ["asked 2 2", "2 2"]


@pytest.mark.slow  # processes
def test_a_new_plug_in_alone_makes_processes_ask_again(project):
    (project / "tasks" / "maze").mkdir(parents=True)
    assert [asked(project), asked(project)] == ["asked 1 1", "1 1"]
    (project / "tasks" / "maze" / "__init__.py").touch()
    assert asked(project) == "asked 1 1"


@pytest.mark.slow  # processes
def test_an_edit_while_a_process_runs_is_no_answer_for_others(project):
    edit = "Path('helper.py').write_text('NUMBER = 2\\n')"
    assert asked(project, edit) == "asked 1 1"
    assert asked(project) == "asked 2 2"


@pytest.mark.slow  # processes
@pytest.mark.parametrize("before", ["import jax", "sys.modules['jax'] = None"], ids=["jax", "nothing"])
def test_a_process_that_has_jax_asks_its_own_code(before, project):
    text = ASKING.replace("import sys\n", f"import sys\n{before}\n")
    assert [program(project, text, ""), program(project, text, "")] == ["asked asked 1 1"] * 2


@pytest.mark.slow  # processes
def test_an_exception_is_no_answer(project):
    (project / "helper.py").write_text("\n")
    assert [asked(project), asked(project)] == ["asked nothing"] * 2


EXPERIMENT = """
from typing import Annotated, Literal
from sweeper.trial.experiment_contract import Experiment as Contract
from sweeper.trial.record import Unwritten

class Experiment(Contract):
    VERSION = 1
    name: Literal["mine"] = "mine"
    width: int = 1
    depth: Annotated[int, Unwritten(2)] = 2
    metrics = {}

    def init(self, key, data): ...
    def step(self, state, at): ...
    def evaluate(self, state, at): ...
"""

READING = """
import json, sys
from sweeper.trial.trial import plugin_version, with_unwritten
whole = with_unwritten({"experiment": {"name": "mine"}})
print(json.dumps([plugin_version("experiment", "mine"), whole, "jax" in sys.modules]))
"""


@pytest.mark.slow  # processes
def test_rows_are_read_by_an_edited_plug_in_at_once_and_by_others_without_jax(project):
    file = project / "experiments" / "mine.py"
    file.parent.mkdir()
    file.write_text(EXPERIMENT)

    def reading():
        version, spec, with_jax = json.loads(program(project, READING))
        return version, spec["experiment"]["depth"], with_jax

    assert [reading(), reading()] == [(1, 2, True), (1, 2, False)]
    file.write_text(EXPERIMENT.replace("VERSION = 1", "VERSION = 3").replace("2", "4"))
    assert reading() == (3, 4, True)
