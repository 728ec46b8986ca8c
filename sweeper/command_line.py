"""What commands share: the program around them, options in the same words, and errors that end them with a message."""

import contextlib
import gc
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweeper import progress
from sweeper.messages import UserError, counted, printable_lines, redacted

if TYPE_CHECKING:
    from sweeper.store.store import Store
    from sweeper.sweeps.on_cluster import Interrupted
    from sweeper.sweeps.output import Output

RESULTS_VARIABLE = "SWEEPER_RESULTS"


def _told_of_environment(context: typer.Context, results: str) -> str:
    """The store, after a line on standard error if the environment has named it."""
    source = context.get_parameter_source("results")
    if source is not None and source.name == "ENVIRONMENT":
        print(printable_lines(f"results store: {redacted(results)} ({RESULTS_VARIABLE})"), file=sys.stderr)
    return results


Results = Annotated[
    str,
    typer.Option(
        envvar=RESULTS_VARIABLE,
        callback=_told_of_environment,
        help="Results store: a folder or a URL such as s3://bucket/folder.",
    ),
]

Address = Annotated[
    str | None,
    typer.Option(help="Ray cluster: host:port, auto or local. Without it a running cluster, or else a local one."),
]

Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Overrides an entry of the search space; repeatable."),
]

Concurrency = Annotated[
    int | None, typer.Option(min=1, help="At most so many packs at once; without it as many as fit.")
]


def with_home(path: Path | None) -> Path | None:
    """A path given to an option, with `~` replaced; a shell leaves `--option=~/x` as it is."""
    return None if path is None else path.expanduser()


class CommandLine(typer.Typer):
    """A program with one command, or with several."""

    def __init__(self, **settings: Any):
        super().__init__(add_completion=False, pretty_exceptions_enable=False, **settings)

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        # Imports make hundreds of thousands of objects that stay until the end. Python would look through all of them
        # again and again: a third of the time of a command that does little.
        gc.set_threshold(100_000)
        # Figures go into files, also of a program that a notebook starts, and look the same for everybody.
        os.environ |= {"MPLBACKEND": "agg", "MATPLOTLIBRC": os.devnull}
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # which a locale may have made one of few characters
                stream.reconfigure(errors="replace")
        try:
            with progress.shown(sys.stderr):
                return super().__call__(*arguments, **settings)
        finally:
            try:
                sys.stdout.flush()
            except BrokenPipeError:  # as after `| head`: Python would tell of it at its end
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def told_end(end: "UserError | Interrupted | OSError", output: "Output", noun: str, of_store: int) -> int:
    """Say why training or evaluating ended before its end; returns the exit code, `of_store` if the store is why.

    `noun` is what is counted, such as "trial".
    """
    from sweeper.store.files import StoreError
    from sweeper.sweeps.on_cluster import Interrupted

    if isinstance(end, Interrupted):
        output.say(f"interrupted with {counted(end.left, noun)} to go; this command carries on:\n  {end.command}")
        return 128 + end.signum
    output.complain(str(end))
    return of_store if isinstance(end, StoreError) else end.code if isinstance(end, UserError) else 2


@contextlib.contextmanager
def errors_told() -> Iterator[None]:
    """End the command with the message and the exit code of a `UserError`, or of an error of the system."""
    try:
        yield
    except BrokenPipeError:  # nobody reads any more
        raise
    except (UserError, OSError) as error:
        print(printable_lines(str(error)), file=sys.stderr)
        raise typer.Exit(error.code if isinstance(error, UserError) else 2) from None


@contextlib.contextmanager
def opened(results: str) -> Iterator["Store"]:
    """The store of a command, which must be there; errors are told, as by `errors_told`."""
    with errors_told():
        from sweeper.store.store import Store

        yield Store.existing(results)
