"""Tasks and models of a project and of this package; mistakes of their authors in one line."""

import re
import sys
import traceback

import pytest

from sweeper.trial import plugins
from sweeper.trial.kinds import contract_of
from sweeper.trial.plugins import PluginError

pytestmark = pytest.mark.slow  # looks for plug-ins and loads them, dozens of times

GOOD = """
from typing import Literal

from tasks import coloring


class Task(coloring.Task):
    name: Literal["{name}"] = "{name}"
"""


OBJECTIVE = """
from typing import Literal

from sweeper.learned_algorithms import objective_contract


class Objective(objective_contract.Objective):
    name: Literal["mine"] = "mine"

    def value(self, batch, state):
        return batch.losses.mean()
"""


def _refusal(name: str) -> str:
    with pytest.raises(PluginError) as refused:
        plugins.load("task", name)
    message = str(refused.value)
    assert "\n" not in message
    return message


def test_a_task_of_the_project_is_found_beside_those_that_are_shipped(project):
    (project / "tasks").rmdir()
    shipped = plugins.names("task")
    assert {"coloring", "recall"} <= set(shipped)
    # A folder that is made while the process runs counts too.
    (project / "tasks" / "large").mkdir(parents=True)
    (project / "tasks" / "mine.py").write_text(GOOD.format(name="mine"))
    (project / "tasks" / "large" / "__init__.py").write_text(GOOD.format(name="large"))
    (project / "tasks" / "large" / "parts.py").touch()
    (project / "tasks" / "_shared.py").touch()
    assert plugins.names("task") == sorted([*shipped, "large", "mine"])
    for name in ("mine", "large"):
        assert plugins.load("task", name)().name == name
        assert plugins.load("task", name).__module__ == f"tasks.{name}"
    assert issubclass(plugins.load("task", "mine"), plugins.load("task", "coloring"))


def test_an_objective_of_the_project_is_found_beside_those_that_are_shipped(project):
    (project / "objectives").mkdir()
    shipped = plugins.names("objective")
    (project / "objectives" / "mine.py").write_text(OBJECTIVE)
    assert plugins.names("objective") == sorted([*shipped, "mine"])
    assert plugins.load("objective", "mine")().m == 10
    (project / "objectives" / "mine.py").write_text(OBJECTIVE.replace("def value", "def worth_of_all"))
    plugins.load.cache_clear()
    del sys.modules["objectives.mine"]
    with pytest.raises(PluginError, match=r"'Objective' .* value"):
        plugins.load("objective", "mine")


def test_two_of_one_name_are_refused_with_both_places(project):
    shadow = project / "tasks" / "coloring.py"
    shadow.write_text(GOOD.format(name="coloring"))
    message = _refusal("coloring")
    assert str(shadow) in message
    assert str(plugins.SHIPPED / "tasks" / "coloring.py") in message
    # Nobody else is in the way.
    assert plugins.load("task", "recall")().name == "recall"


def test_a_plug_in_of_an_installed_package_is_a_file_that_imports_it(project, monkeypatch):
    (project / "elsewhere").mkdir()
    (project / "elsewhere" / "mazes.py").write_text(GOOD.format(name="maze"))
    monkeypatch.syspath_prepend(project / "elsewhere")
    (project / "tasks" / "maze.py").write_text("from mazes import Task\n")
    assert plugins.load("task", "maze")().name == "maze"


@pytest.mark.parametrize(
    ("text", "line", "named"),
    [
        ("\nclass Task(:\n", 2, ""),
        ("import os\n\nimport no_such_package\n", 3, "ModuleNotFoundError: .*no_such_package"),
        ("raise ValueError('first\\nsecond')\n", 1, "ValueError: first"),
        ("def task():\n    pass\n", None, "'Task'"),
        ("Task = 3\n", None, "'Task'"),
        ("class Task:\n    pass\n", None, "sweeper.learned_algorithms.contracts.Task"),
        ("from sweeper.learned_algorithms import contracts\n"
         "class Task(contracts.Task):\n    def loss(self, model, x, r): ...\n",
         None, "'Task' .* context_size, evaluation_inputs, "),
        (GOOD.format(name="yours"), None, "'yours'"),
        ("raise type('M', (Exception,), {'__str__': None})\n", 1, "M: .*Type"),
        ("open('/nowhere')\n", 1, "FileNotFoundError: .*/nowhere"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_begins_with_the_file(project, text, line, named):
    path = project / "tasks" / "mine.py"
    path.write_text(text)
    message = _refusal("mine")
    assert message.startswith(f"{path}, line {line}:" if line else str(path))
    assert re.search(named, message)


def test_the_contract_of_every_kind_says_its_kind():
    for kind in plugins.KINDS:
        assert kind == contract_of(kind).KIND


def test_an_unknown_name_lists_the_known_ones(project):
    (project / "tasks" / "maze.py").touch()
    message = _refusal("maz")
    assert "'maz'" in message
    assert "'maze'" in message
    assert ", ".join(plugins.names("task")) in message


@pytest.mark.parametrize("name", [".#maze", "maze (1)", "my-maze", "2048", "l\u00f6ser"])
def test_a_file_whose_name_no_plug_in_can_have_is_in_nobodys_way(project, name):
    file = project / "tasks" / f"{name}.py"
    file.write_text(GOOD.format(name=name))
    assert plugins.load("task", "coloring").__module__ == "tasks.coloring"
    assert _refusal(name).startswith(f"{file}: {name!r} names no task")


def test_errors_name_lines_of_plug_ins_and_of_this_package(project):
    def place(file: str) -> str | None:
        return plugins.line_of_ours(
            [traceback.FrameSummary(file, 7, "f"), traceback.FrameSummary("/lib/jax.py", 9, "g")]
        )

    assert place(str(project / "tasks" / "mine.py")) == "tasks/mine.py, line 7"
    assert place(str(plugins.PACKAGE / "packs" / "plan.py")) == "sweeper/packs/plan.py, line 7"
    assert place(str(plugins.SHIPPED / "tasks" / "coloring.py")) == "tasks/coloring.py, line 7"
    assert place("/lib/other.py") is None


def test_a_field_whose_column_another_column_has_is_refused(project):
    text = GOOD.format(name="mine") + "    version: int = 1\n"
    (project / "tasks" / "mine.py").write_text(text)
    assert "'version'" in _refusal("mine")
