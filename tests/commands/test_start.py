"""Every command starts in a moment: what takes seconds to import is imported when there is work for it."""

import os
import subprocess
import sys
import typing

import pytest
from typer.testing import CliRunner

from sweeper import __version__
from sweeper.__main__ import app
from sweeper.analysis.figures import PALETTES
from sweeper.commands import report
from sweeper.trial import plugins
from tests.processes import python

HEAVY = ("duckdb", "flax", "jax", "matplotlib", "numpy", "optuna", "pandas", "pyarrow", "pydantic", "ray", "scipy")

HELP = """
import runpy, sys
sys.argv = [sys.argv[1], "--help"]
try:
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
finally:
    print("imported:", *(name for name in {heavy!r} if name in sys.modules))
"""


@pytest.mark.parametrize("command", ["run", "evaluate", "status", "query", "report", "compaction", "__main__"])
def test_help_imports_nothing_heavy(command):
    done = python("-c", HELP.format(heavy=HEAVY), f"sweeper.{command}", check=True)
    assert "Usage" in done.stdout
    assert done.stdout.splitlines()[-1].strip() == "imported:"


def test_the_program_has_every_command_and_says_its_version():
    assert CliRunner().invoke(app, ["--version"]).output == f"sweeper {__version__}\n"
    helped = CliRunner().invoke(app, ["--help"]).output
    for command in ("run", "evaluate", "status", "query", "report", "compact"):
        assert f"│ {command} " in helped
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0
    assert CliRunner().invoke(app, ["compact", "--results", "no/such/folder"]).exit_code == 2


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
        assert "this folder was deleted" in done.stderr


def test_the_palettes_of_the_report_command_are_those_of_the_figures():
    palette = typing.get_args(typing.get_type_hints(report.report)["palette"])
    assert set(palette) == set(PALETTES)
