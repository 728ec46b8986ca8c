"""`sweeper COMMAND`, also `python -m sweeper COMMAND`: all commands of this package under one name.

`sweeper run` is also `python -m sweeper.run`. As with `python -m`, plug-ins can import modules of the working folder.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from sweeper import __version__
from sweeper.command_line import CommandLine
from sweeper.commands import ask, project, run, stores

app = CommandLine(no_args_is_help=True)
for module in (run, ask, stores, project):  # in the order in which the help lists their commands
    app.registered_commands += module.app.registered_commands


def _print_version(wanted: bool) -> bool:
    if wanted:
        print(f"sweeper {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def sweeper(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Sweeps of small JAX trainings: one YAML, one command, one open results store."""


def main() -> None:
    """The program `sweeper` of an installed package."""
    sys.path.insert(0, str(Path.cwd()))
    app(prog_name="sweeper")


if __name__ == "__main__":
    app(prog_name="python -m sweeper")
