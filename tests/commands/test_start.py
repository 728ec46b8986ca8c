"""Every command starts in a moment: what takes seconds to import is imported when there is work for it."""

import os
import subprocess
import sys
import typing

import pytest

from sweeper import __version__
from sweeper.analysis.figures import PALETTES
from sweeper.commands import ask
from sweeper.trial import plugins
from tests.processes import python, refusal, told

HEAVY = ("duckdb", "flax", "jax", "matplotlib", "numpy", "optuna", "pandas", "pyarrow", "pydantic", "ray", "scipy")

HELP = """
import runpy, sys
for name in sys.argv[2:]:
    sys.argv = [name, "--help"]
    try:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        print("done:", name, end.code, *(heavy for heavy in {heavy!r} if heavy in sys.modules))
"""


def test_help_imports_nothing_heavy():
    programs = ["sweeper.run", "sweeper.query", "sweeper.report", "sweeper.__main__"]
    done = python("-c", HELP.format(heavy=HEAVY), "", *programs, check=True)
    assert [line for line in done.stdout.splitlines() if line.startswith("done:")] == [
        f"done: {name} 0" for name in programs
    ]


@pytest.mark.slow
def test_the_program_has_every_command_and_says_its_version():
    assert told("--version").output == f"sweeper {__version__}\n"
    helped = told("--help").output
    for command in ("run", "evaluate", "status", "stop", "query", "report", "plot", "export", "copy", "note", "tag",
                    "delete", "compact", "new", "check"):  # fmt: skip
        assert f" {command} " in helped
        told(command, "--help")
    assert "no/such/folder" in refusal("compact", "--results", "no/such/folder")


@pytest.mark.parametrize(
    "arguments",
    [(), ("a.yaml", "b.yaml"), ("a.yaml", "--where", "q = 3"), ("a.yaml", "--votes", "1,x"), ("a.yaml", "--votes", "")],
)
def test_what_cannot_be_evaluated_is_refused(arguments):
    assert not told("evaluate", *arguments, code=2).stdout


@pytest.mark.parametrize("name", ["null", "true", "false", "y" * 300, "A", "class", "1a"])
def test_a_name_that_no_search_space_could_say_begins_nothing(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refusal("new", "task", name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("program", ["sweeper", "/somewhere/pytest"])
def test_a_template_names_its_files_and_the_command_that_trains_it(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [program])
    *_, command = told("new", "experiment", "mine").output.strip().split(": ")
    start = ["sweeper"] if program == "sweeper" else ["python", "-m", "sweeper"]
    assert command.split() == [*start, "run", "search_spaces/mine.yaml"]
    assert (tmp_path / "search_spaces" / "mine.yaml").exists()


def test_what_python_warns_of_is_printable(tmp_path):
    """As matplotlib does of a character that no font has."""
    program = (
        "import sys, warnings; from sweeper.command_line import CommandLine; app = CommandLine();"
        "app.command()(lambda: warnings.warn('glyph \\x1b[31m \\u202e')); app([])"
    )
    done = python("-c", program)
    assert r"glyph \x1b[31m \u202e" in done.stderr
    assert "\x1b" not in done.stderr


def test_a_command_in_a_deleted_folder_is_told_so(tmp_path):
    gone, program = (
        tmp_path / "gone",
        "import sys; from sweeper.__main__ import main; sys.argv[1:] = ['status']; main()",
    )
    for start in (["-m", "sweeper", "status"], ["-c", program]):
        gone.mkdir()
        done = subprocess.run(
            ["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', gone, sys.executable, *start],
            env=os.environ | {"PYTHONPATH": str(plugins.ROOT)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr


def test_the_palettes_of_the_report_command_are_those_of_the_figures():
    palette = typing.get_args(typing.get_type_hints(ask.report)["palette"])
    assert set(palette) == set(PALETTES)
