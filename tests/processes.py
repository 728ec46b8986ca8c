"""Python in a process of its own, and a command in this one."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from typer import Typer
from typer.testing import CliRunner

from sweeper.trial import plugins


def python(
    *arguments: object,
    cwd: Path = plugins.ROOT,
    env: Mapping[str, str] = os.environ,
    check: bool = False,
    **variables: str,
) -> "subprocess.CompletedProcess[str]":
    """An ended process of Python with these arguments; `variables` are added to its environment."""
    command = [sys.executable, *map(str, arguments)]
    environment = {**env, **variables}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=check)


def refusal(app: Typer, *arguments: object) -> str:
    """The one line with which a command ends that makes no sense."""
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert (done.exit_code, len(done.output.splitlines())) == (2, 1), done.output
    return done.output
