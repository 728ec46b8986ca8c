"""What commands share: the program around them, options in the same words, and errors that end them with a message."""

import contextlib
import gc
import logging
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from sweeper.messages import printable_lines

Results = Annotated[str, typer.Option(help="Results store: a folder or a URL such as s3://bucket/folder.")]

Address = Annotated[
    str | None,
    typer.Option(help="Ray cluster: host:port, auto or local. Without it a running cluster, or else a local one."),
]

Concurrency = Annotated[
    int | None, typer.Option(min=1, help="At most so many packs at once; without it as many as fit.")
]


class _Printable(logging.Formatter):
    """Warnings quote texts of a store."""

    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))


class CommandLine(typer.Typer):
    """A program with one command, or with several."""

    def __init__(self, **settings: Any):
        """A program without commands yet.

        Args:
            settings: Further settings of `typer.Typer`.
        """
        super().__init__(add_completion=False, pretty_exceptions_enable=False, **settings)

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        """Run the command that the command line names, and end the process."""
        # Imports make hundreds of thousands of objects that stay until the end. Python would look through all of them
        # again and again: a third of the time of a command that does little.
        gc.set_threshold(100_000)
        assert logging.lastResort is not None
        logging.lastResort.setFormatter(_Printable())
        return super().__call__(*arguments, **settings)


@contextlib.contextmanager
def exit_on(*errors: type[Exception]) -> Iterator[None]:
    """End the command with exit code 2 when one of these errors comes, after printing its message.

    Args:
        errors: Errors whose message is for the user.
    """
    try:
        yield
    except (*errors, UnicodeEncodeError) as error:
        if isinstance(error, UnicodeEncodeError):
            error = ValueError(f"{error.object!r} is no text in UTF-8")
        print(printable_lines(str(error)), file=sys.stderr)
        raise typer.Exit(2) from None
    except Exception:
        raise
    except BaseException:
        from sweeper.trial import plugins

        try:
            with plugins.contained():
                raise  # `sys.exit(0)` in a plug-in would end the command without a word
        except plugins.PluginError as error:
            print(printable_lines(str(error)), file=sys.stderr)
            raise typer.Exit(2) from None
