"""Every command starts in a moment: what takes seconds to import is imported when there is work for it."""

import typing

import pytest

from sweeper import __version__
from sweeper.analysis.figures import PALETTES
from sweeper.commands import ask
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
    programs = ["sweeper.run", "sweeper.__main__"]
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
    [(), ("a.yaml", "b.yaml"), ("a.yaml", "--where", "q = 3"), ("a.yaml", "--set", "evaluation.votes=[1, x]")],
)
def test_what_cannot_be_evaluated_is_refused(arguments):
    assert not told("evaluate", *arguments, code=2).stdout


def test_the_palettes_of_the_report_command_are_those_of_the_figures():
    palette = typing.get_args(typing.get_type_hints(ask.report)["palette"])
    assert set(palette) == set(PALETTES)
