"""Options that several commands take, each in the same words."""

from typing import Annotated

import typer

Results = Annotated[str, typer.Option(help="Results store: a folder or a URL such as s3://bucket/folder.")]

Address = Annotated[
    str | None,
    typer.Option(help="Ray cluster: host:port, auto or local. Without it a running cluster, or else a local one."),
]

Concurrency = Annotated[
    int | None, typer.Option(min=1, help="At most so many packs at once; without it as many as fit.")
]
