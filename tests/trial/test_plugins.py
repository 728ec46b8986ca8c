"""Tasks and models of a project and of this package; mistakes of their authors in one line."""

import re

import pytest

from sweeper.trial import plugins
from sweeper.trial.plugins import PluginError

pytestmark = pytest.mark.slow  # looks for plug-ins and loads them, dozens of times

GOOD = """
from typing import Literal

from tasks import coloring


class Task(coloring.Task):
    name: Literal["{name}"] = "{name}"
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


def test_an_unknown_name_lists_the_known_ones(project):
    (project / "tasks" / "maze.py").touch()
    message = _refusal("maz")
    assert "'maz'" in message
    assert "'maze'" in message
    assert ", ".join(plugins.names("task")) in message
    assert str(project) not in message
    (project / "tasks").rename(project / "others")
    assert f"{project} has no folder tasks" in _refusal("mien"), "a command was started in another folder"


@pytest.mark.parametrize("name", [".#maze", "maze (1)", "my-maze", "2048", "l\u00f6ser"])
def test_a_file_whose_name_no_plug_in_can_have_is_in_nobodys_way(project, name):
    file = project / "tasks" / f"{name}.py"
    file.write_text(GOOD.format(name=name))
    assert plugins.load("task", "coloring").__module__ == "tasks.coloring"
    assert _refusal(name).startswith(f"{file}: {name!r} names no task")


def test_a_field_whose_column_another_column_has_is_refused(project):
    text = GOOD.format(name="mine") + "    version: int = 1\n"
    (project / "tasks" / "mine.py").write_text(text)
    assert "'version'" in _refusal("mine")
