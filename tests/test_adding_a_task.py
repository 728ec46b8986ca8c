"""`sweeper new task`, and docs/adding-a-task.md block by block, in a folder outside the checkout."""

import ast
import re
import shlex
import sys
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sweeper
from sweeper.__main__ import app
from sweeper.trial import fingerprint, plugins
from tests.processes import python

DOCS = Path(__file__).parents[1] / "docs"
GUIDE, ANSWERS = DOCS / "adding-a-task.md", DOCS / "how-do-i.md"


def _blocks(language: str, document: Path = GUIDE) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", document.read_text(), re.DOTALL)


@pytest.fixture
def folder(project):
    """The folder in which commands are given."""
    yield project
    _forget()


def _forget() -> None:
    plugins.load.cache_clear()
    sys.modules.pop("tasks.doors", None)
    fingerprint._first.clear()  # each command of the guide is a process of its own
    fingerprint._loaded.clear()


def _command(line: str, code: int = 0) -> str:
    words = shlex.split(line)
    assert words[0] == "sweeper"
    done = CliRunner().invoke(app, words[1:])
    assert done.exit_code == code, done.output
    return done.output


def test_a_name_that_cannot_be_used_is_one_line_and_writes_nothing(folder):
    for name in ("Doors", "import", "coloring"):
        said = _command(f"sweeper new task {name}", code=2)
        assert name in said
        assert len(said.splitlines()) == 1
    (folder / "search_spaces").mkdir()
    (folder / "search_spaces" / "doors.yaml").touch()
    assert "doors.yaml" in _command("sweeper new task doors", code=2)
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["doors.yaml"]


def test_the_guide_shows_what_is_written_and_it_is_clean(folder):
    _command("sweeper new task doors")
    shown = _blocks("python")[0].removeprefix("class Task(contracts.Task):\n    ...  # its sizes and draws\n")
    assert shown in (folder / "tasks" / "doors.py").read_text()
    assert (folder / "search_spaces" / "doors.yaml").read_text() == _blocks("yaml")[0]
    settings = plugins.ROOT / "pyproject.toml"
    # In another folder ruff takes `sweeper` for a package like any other, and wants its import beside those.
    for check in (["check", "--ignore", "I001"], ["format", "--check"]):
        done = python("-m", "ruff", *check, "--config", settings, "tasks", cwd=folder)
        assert done.returncode == 0, done.stdout


@pytest.mark.slow  # trains
def test_a_new_task_trains(folder):
    _command("sweeper new task doors")
    changes = {"trial.steps": 20, "trial.baseline": "Aq_R", "trial.seed": 0}
    space = sweeper.read_space("search_spaces/doors.yaml", changes)
    assert sweeper.train(sweeper.plan(space), in_process=True).complete


@pytest.mark.long  # trains twice, draws, and checks the contract
def test_the_guide_runs_from_nothing_to_a_figure(folder, capsys):
    """Its commands `sweeper run` train in this process here: the tests of whole sweeps start Ray."""
    python, yaml = _blocks("python"), _blocks("yaml")
    for number, text in enumerate(_blocks("console")):
        if number == 2:
            _edit(folder, python[1], yaml[1])
        for block in text.split("$ ")[1:]:
            command, *expected = block.splitlines()
            said = _trained(command.split()[2]) if command == RUN else _command(command)
            assert all(line in said for line in expected), said
    assert {path.name for path in (folder / "results" / "figures" / "doors").glob("*.png")} == {
        "success.png",
        "training.png",
    }
    rows = sweeper.sql("select task_version, votes_5, wasted from all_trials order by task_version")
    assert rows["task_version"].tolist() == [1] * 4 + [2] * 4
    assert rows["wasted"].notna().tolist() == rows["votes_5"].notna().tolist() == [False] * 4 + [True] * 4


RUN = "sweeper run search_spaces/doors.yaml"


def _trained(space: str) -> str:
    """What `sweeper run` says at the end, of a short training in this process."""
    result = sweeper.train(sweeper.plan(sweeper.read_space(space, {"trial.steps": 300})), in_process=True)
    return "\n".join([str(result), *result.draw()])


@pytest.mark.long  # trains, and draws
def test_the_answers_run(folder):
    _command("sweeper new task doors")
    file = folder / "tasks" / "doors.py"
    method, program = _blocks("python", ANSWERS)
    file.write_text(f"{file.read_text()}\n{textwrap.indent(method, '    ')}")
    commands = [block.strip() for text in _blocks("console", ANSWERS) for block in text.split("$ ")[1:]]
    assert commands[0] == RUN
    _trained("search_spaces/doors.yaml")
    assert len(_command(commands[1]).splitlines()) == 1 + 3  # a point each hundred steps
    listed = _command(commands[2])
    (trial, *_) = re.findall(r"[0-9a-f]{20}", listed)
    said = _command(commands[3].replace("TRIAL", trial[:8]) + " --set trial.steps=300")
    assert said.splitlines()[-1] == "finished"
    assert "step 300 of 300 · loss 0." in said
    exec(program.replace("TRIAL", trial[:8]))
    for command in commands[4:]:
        assert "figure: " in _command(command) if command.split()[1] == "plot" else _command(command)
    for name in ("success.png", "curves.pdf", "points.svg", "trials.csv"):
        assert (folder / name).stat().st_size > 1000


def _edit(folder: Path, methods: str, panels: str) -> None:
    """What the guide asks its reader to do by hand."""
    file = folder / "tasks" / "doors.py"
    lines = file.read_text().replace("VERSION = 1", "VERSION = 2").replace("import Array,", "import Array, Bool,")
    new = {each.name for each in ast.parse(methods).body if isinstance(each, ast.FunctionDef)}
    (task,) = [each for each in ast.parse(lines).body if isinstance(each, ast.ClassDef) and each.name == "Task"]
    kept = lines.splitlines()
    for method in task.body:
        if isinstance(method, ast.FunctionDef) and method.name in new:
            kept[method.lineno - 1 : method.end_lineno] = [None] * (method.end_lineno - method.lineno + 1)  # type: ignore
    file.write_text("\n".join(line for line in kept if line is not None) + "\n\n" + textwrap.indent(methods, "    "))
    with (folder / "search_spaces" / "doors.yaml").open("a") as space:
        space.write("\n" + panels)
    _forget()
