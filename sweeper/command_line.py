"""What commands share: options, each in the same words, and errors that end a command with one message."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Annotated

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


@contextlib.contextmanager
def exit_on(*errors: type[Exception]) -> Iterator[None]:
    """End the command with exit code 2 when one of these errors comes, after printing its message.

    Args:
        errors: Errors whose message is for the user.
    """
    try:
        yield
    except errors as error:
        print(printable_lines(str(error)), file=sys.stderr)
        raise typer.Exit(2) from None
