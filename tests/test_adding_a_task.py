"""`sweeper new task`, and docs/adding-a-task.md block by block, in a folder outside the checkout."""

from pathlib import Path

import pytest

import sweeper
from tests import guides

GUIDE = guides.DOCS / "adding-a-task.md"


@pytest.fixture
def folder(project):
    """The folder in which commands are given."""
    yield project
    guides.forget("tasks.doors")


def test_a_name_that_cannot_be_used_is_one_line_and_writes_nothing(folder):
    for name in ("Doors", "import", "coloring"):
        said = guides.run(f"sweeper new task {name}", code=2)
        assert name in said
        assert len(said.splitlines()) == 1
    (folder / "search_spaces").mkdir()
    (folder / "search_spaces" / "doors.yaml").touch()
    assert "doors.yaml" in guides.run("sweeper new task doors", code=2)
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["doors.yaml"]


def test_the_guide_shows_what_is_written_and_it_is_clean(folder):
    guides.run("sweeper new task doors")
    shown = guides.blocks("python", GUIDE)[0].removeprefix(
        "class Task(contracts.Task):\n    ...  # its sizes and draws\n"
    )
    assert shown in (folder / "tasks" / "doors.py").read_text()
    assert (folder / "search_spaces" / "doors.yaml").read_text() == guides.blocks("yaml", GUIDE)[0]
    guides.check_style("tasks")


@pytest.mark.long  # trains twice, draws, and checks the contract
def test_the_guide_runs_from_nothing_to_a_figure(folder, capsys):
    """Its commands `sweeper run` train in this process here: the tests of whole sweeps start Ray."""
    (difference,), (_, panels) = guides.blocks("diff", GUIDE), guides.blocks("yaml", GUIDE)
    for number, text in enumerate(guides.blocks("console", GUIDE)):
        if number == 2:
            _edit(folder, difference, panels)
        for command, expected in guides.commands(text):
            said = guides.trained(SPACE, 300) if command == RUN else guides.run(command)
            assert all(line in said for line in expected), said
    assert {path.name for path in (folder / "results" / "figures" / "doors").glob("*.png")} == {
        "success.png",
        "training.png",
    }
    rows = sweeper.sql("select task_version, votes_5, wasted from all_trials order by task_version")
    assert rows["task_version"].tolist() == [1] * 4 + [2] * 4
    assert rows["wasted"].notna().tolist() == rows["votes_5"].notna().tolist() == [False] * 4 + [True] * 4


SPACE = "search_spaces/doors.yaml"
RUN = f"sweeper run {SPACE}"


def _edit(folder: Path, difference: str, panels: str) -> None:
    """What the guide asks its reader to do by hand."""
    file = folder / "tasks" / "doors.py"
    text = guides.patched(file.read_text(), difference)
    file.write_text(text.replace("import Array,", "import Array, Bool,"))
    with (folder / SPACE).open("a") as space:
        space.write("\n" + panels)
    guides.forget("tasks.doors")
