"""Tasks and models of a project, of installed packages and of this package; mistakes of their authors in one line."""

import re
import signal
import sys
import traceback
import types

import pytest
import typer

from sweeper.command_line import errors_told
from sweeper.trial import contract_checks, plugins
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


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package `mazes` with the task `maze`."""
    site = tmp_path / "site-packages"
    metadata = site / "mazes-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mazes\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[sweeper.tasks]\nmaze = mazes:Task\n")
    (site / "mazes.py").write_text(GOOD.format(name="maze"))
    monkeypatch.syspath_prepend(site)
    return site / "mazes.py"


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


def test_a_task_of_an_installed_package_is_found(project, package):
    assert "maze" in plugins.names("task")
    assert plugins.load("task", "maze").__module__ == "mazes"


def test_two_of_one_name_are_refused_with_both_places(project, package):
    shadow = project / "tasks" / "coloring.py"
    shadow.write_text(GOOD.format(name="coloring"))
    message = _refusal("coloring")
    assert str(shadow) in message
    assert str(plugins.SHIPPED / "tasks" / "coloring.py") in message

    (project / "tasks" / "maze.py").write_text(GOOD.format(name="maze"))
    message = _refusal("maze")
    assert str(project / "tasks" / "maze.py") in message
    assert str(package) in message
    # Nobody else is in the way.
    assert plugins.load("task", "recall")().name == "recall"


@pytest.mark.parametrize(
    ("text", "line", "named"),
    [
        ("\nclass Task(:\n", 2, ""),
        ("import os\n\nimport no_such_package\n", 3, "ModuleNotFoundError: .*no_such_package"),
        ("raise ValueError('first\\nsecond')\n", 1, "ValueError: first"),
        ("def task():\n    pass\n", None, "'Task'"),
        ("Task = 3\n", None, "'mine'"),
        ("class Task:\n    pass\n", None, "sweeper.learned_algorithms.contracts.Task"),
        ("from sweeper.learned_algorithms import contracts\n"
         "class Task(contracts.Task):\n    def loss(self, model, x, r): ...\n",
         None, "'Task' .* context_size, evaluation_inputs, "),
        (GOOD.format(name="yours"), None, "'yours'"),
        ("from helper import x\n", 1, "from tasks.helper import"),
        # whatever it raises
        ("import sys\nsys.exit(0)\n", 2, "SystemExit: 0"),
        ("raise KeyboardInterrupt\n", 1, "KeyboardInterrupt: "),
        ("raise GeneratorExit\n", 1, "GeneratorExit: "),
        ("raise type('Own', (BaseException,), {})('first line:\\nreason')\n", 1, "Own: first line:; reason"),
        ("raise type('M', (Exception,), {'__str__': None})\n", 1, "M: .*Type"),
        ("open('/nowhere')\n", 1, "FileNotFoundError: .*/nowhere"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_begins_with_the_file(project, text, line, named):
    path = project / "tasks" / "mine.py"
    path.write_text(text)
    (project / "tasks" / "helper.py").touch()
    message = _refusal("mine")
    assert message.startswith(f"{path}, line {line}:" if line else str(path))
    assert re.search(named, message)


HELPED = "{how}\n" + GOOD
CULPRIT = "import jax\n\njax.config.update('jax_enable_x64', True)\nX = 1\n"


@pytest.mark.parametrize(
    "how", ["import culprit", "from tasks import culprit", "from tasks.inner.culprit import X", "import between"]
)
def test_what_a_helper_changes_is_refused_at_every_load_and_for_every_plug_in(project, monkeypatch, how):
    monkeypatch.syspath_prepend(project)
    (project / "tasks" / "inner").mkdir()
    (project / "tasks" / "inner" / "__init__.py").touch()
    (project / "between.py").write_text("import culprit\n")
    places = [project / "culprit.py", project / "tasks" / "culprit.py", project / "tasks" / "inner" / "culprit.py"]
    for place in places:
        place.write_text(CULPRIT)
    for name in ("first", "second"):
        (project / "tasks" / f"{name}.py").write_text(HELPED.format(how=how, name=name))
    for name in ("first", "first", "second"):
        assert "jax_enable_x64" in _refusal(name)
    for place in places:
        place.write_text("X = 1\n")
    assert plugins.load("task", "second").__name__ == "Task", "the helper is mended"


def test_what_an_installed_plug_in_changes_is_refused_at_every_load(project, package):
    package.write_text(HELPED.format(how=CULPRIT, name="maze"))
    for _ in range(2):
        assert "jax_enable_x64" in _refusal("maze")


@pytest.mark.slow
def test_what_a_library_changes_is_refused_until_the_plug_in_does_without_it(project, tmp_path, monkeypatch):
    site = tmp_path / "elsewhere" / "site-packages"
    site.mkdir(parents=True)
    (site / "culprit.py").write_text(CULPRIT)
    monkeypatch.syspath_prepend(site)
    task = project / "tasks" / "first.py"
    task.write_text(HELPED.format(how="import culprit", name="first"))
    for _ in range(2):
        assert "jax_enable_x64" in _refusal("first")
    task.write_text(GOOD.format(name="first"))
    assert plugins.load("task", "first").__name__ == "Task"


def test_what_a_helper_changes_is_refused_after_an_import_that_failed(project, monkeypatch):
    monkeypatch.syspath_prepend(project)
    (project / "culprit.py").write_text(CULPRIT)
    task = project / "tasks" / "first.py"
    task.write_text("import culprit\nimport nowhere\n")
    assert "nowhere" in _refusal("first")
    task.write_text(HELPED.format(how="import culprit", name="first"))
    assert "jax_enable_x64" in _refusal("first")


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


def test_a_package_that_was_imported_under_the_name_before_is_in_nobodys_way(project, monkeypatch):
    foreign = types.ModuleType("tasks")
    foreign.__path__ = [str(project / "elsewhere")]
    for name in [name for name in sys.modules if name.partition(".")[0] == "tasks"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tasks", foreign)
    (project / "tasks" / "mine.py").write_text(GOOD.format(name="mine"))
    (project / "tasks" / "maze.py").write_text(GOOD.format(name="maze"))
    (project / "elsewhere").mkdir()
    (project / "elsewhere" / "maze.py").touch()
    assert plugins.load("task", "mine")().name == "mine"
    message = _refusal("maze")
    assert str(project / "tasks" / "maze.py") in message
    assert str(project / "elsewhere" / "maze.py") in message


def test_errors_name_lines_of_plug_ins_and_of_this_package(project):
    def place(file: str) -> str | None:
        return plugins.line_of_ours(
            [traceback.FrameSummary(file, 7, "f"), traceback.FrameSummary("/lib/jax.py", 9, "g")]
        )

    assert place(str(project / "tasks" / "mine.py")) == "tasks/mine.py, line 7"
    assert place(str(plugins.PACKAGE / "packs" / "plan.py")) == "sweeper/packs/plan.py, line 7"
    assert place(str(plugins.SHIPPED / "tasks" / "coloring.py")) == "tasks/coloring.py, line 7"
    assert place("/lib/other.py") is None


MUTE = "raise type('Mute', (BaseException,), {'__str__': None})"


@pytest.mark.parametrize("statement", ["sys.exit(0)", "raise GeneratorExit", MUTE])
def test_a_plug_in_ends_no_process(project, statement):
    (project / "tasks" / "mine.py").write_text(
        f"import sys\n{GOOD.format(name='mine')}\n    def loss(self, *pair):\n        {statement}\n"
    )
    task = plugins.load("task", "mine")()
    message = r"^tasks/mine.py, line 12: (SystemExit|GeneratorExit|Mute): "
    with pytest.raises(PluginError, match=message), plugins.contained():
        task.loss(None, None, None)
    with pytest.raises(typer.Exit) as left, errors_told():  # as commands do
        task.loss(None, None, None)
    assert left.value.exit_code == 2


def test_ctrl_c_is_no_mistake_of_a_plug_in():
    with pytest.raises(KeyboardInterrupt), errors_told(), plugins.contained():
        raise KeyboardInterrupt


def test_an_error_whose_message_cannot_be_made_is_told_with_its_line(project):
    (project / "tasks" / "mine.py").write_text(
        f"{GOOD.format(name='mine')}\n    def loss(self, *pair):\n        {MUTE.replace('Base', '')}\n"
    )
    task = plugins.load("task", "mine")()
    with (
        pytest.raises(contract_checks.ContractError, match=r"Mute: .*mine\.py, line 11"),
        contract_checks.attributed(task, "loss"),
    ):
        task.loss(None, None, None)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_while_a_plug_in_runs_is_no_mistake_of_the_plug_in(project, signum):
    def ends(signum: int, frame: object) -> None:
        sys.exit(143)

    before = signal.signal(signal.SIGTERM, ends)
    try:
        (project / "tasks" / "mine.py").write_text(f"import signal\n\nsignal.raise_signal({signum:d})\n")
        ends_with = KeyboardInterrupt if signum == signal.SIGINT else SystemExit
        with pytest.raises(ends_with):
            plugins.load("task", "mine")
        with pytest.raises(ends_with), plugins.contained():
            signal.raise_signal(signum)
        assert signal.getsignal(signal.SIGTERM) is ends, "the program has its handlers back"
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("fields", ["size: int = 1\n    Size: int = 2", "version: int = 1"])
def test_fields_whose_columns_tables_cannot_hold_are_refused(project, fields):
    (project / "tasks" / "mine.py").write_text(
        GOOD.format(name="mine").replace(
            'name: Literal["mine"] = "mine"', f'name: Literal["mine"] = "mine"\n    {fields}'
        )
    )
    assert fields.split(":")[0] in _refusal("mine")
