"""`python -m sweeper export DESTINATION`: the store for other tools, as one file or as runs of an experiment tracker.

    export trials.csv                                   one view as one CSV or parquet file
    export network.safetensors --trial 3f2a             the network of a trial
    export sqlite:///mlflow.db --to mlflow              a sweep is an experiment of MLflow
    export logs --to tensorboard                        a sweep is a folder for tensorboard --logdir
    export offline --to wandb                           a sweep is a project of offline runs for wandb sync

Files are written anew, trackers get what they lack (`sweeper.trackers`).

Exit codes: 0; 2 for a store that cannot be read or a destination that cannot be written, with one message; 130 after
Ctrl-C.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sweeper.command_line import CommandLine, Results, errors_told, with_home
from sweeper.messages import UserError, counted, redacted

if TYPE_CHECKING:
    from sweeper.store.store import Store

app = CommandLine()


@app.command()
def export(
    destination: Annotated[
        str,
        typer.Argument(
            help="A file that ends in .parquet, .csv or .safetensors; with --to the URI, folder or file of the tracker."
        ),
    ],
    to: Annotated[
        Literal["csv", "parquet", "mlflow", "tensorboard", "wandb"] | None,
        typer.Option(help="A file format, by default that of the name; or a tracker, which gets the runs it lacks."),
    ] = None,
    view: Annotated[
        Literal["trials", "evaluations", "curves", "outcomes"] | None,
        typer.Option(help="What a file holds.", show_default="trials"),
    ] = None,
    trial: Annotated[
        str | None, typer.Option(help="The trial whose network a .safetensors file gets; its id may be cut.")
    ] = None,
    sweep: Annotated[str | None, typer.Option(help="Only this sweep, into a tracker.", show_default="all")] = None,
    watch: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=1, help="Repeat the export to a tracker so often, until Ctrl-C."),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="CSV without the apostrophe before texts that spreadsheets take for formulas.")
    ] = False,
    results: Results = "results",
) -> None:
    """Write the store for other tools: one view as a file, a network, or its sweeps into an experiment tracker."""
    try:
        with errors_told():
            from sweeper.analysis.ready_questions import trial_with_prefix
            from sweeper.analysis.views import FORMATS, replaced, write_view
            from sweeper.store.store import NoNetworkError, Store

            file = Path(destination)
            if to in (None, "csv", "parquet"):
                file = with_home(file) or file
            network = to is None and file.suffix == ".safetensors"
            if network != (trial is not None):
                raise UserError("a network is written by: export network.safetensors --trial ID")
            if trial is not None:
                store = Store.existing(results)
                trial_id = trial_with_prefix(store, trial)
                try:
                    written = store.network(store.seals([trial_id])[trial_id])
                except NoNetworkError as error:
                    raise UserError(f"trial {trial_id} {error}") from error
                with replaced(file) as new:
                    new.write_bytes(written)
                print(f"the network of trial {trial_id} written to {file}")
            elif to in (None, "csv", "parquet"):
                if sweep is not None or watch is not None:
                    files = "one sweep as a file: sweeper query --format csv"
                    raise UserError(f"--sweep and --watch are for trackers; {files}")
                formats = FORMATS if to is None else (f".{to}",)
                if file.suffix not in formats:
                    raise UserError(f"{str(file)!r} must end in {' or '.join(formats)}")
                rows = write_view(Store.existing(results), view or "trials", file, raw)
                print(f"{counted(rows, 'row')} of {view or 'trials'} written to {file}")
            else:
                if view is not None:
                    raise UserError(f"--view is for files; {to} gets trials with their curves")
                to_tracker(Store.existing(results), destination, to, sweep, watch)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def to_tracker(
    store: "Store",
    destination: str,
    to: str,
    sweep: str | None = None,
    watch: float | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Export, and again after each pause of `watch` seconds; the first export and all that add something are told."""
    from sweeper.trackers import runs

    tracker, first = runs.tracker(to, destination), True
    while True:
        added, kept, sweeps = runs.export(store, tracker, sweep)
        if first or added:
            there = f", {kept:,} were there already" if kept else ""
            print(f"{counted(added, 'run')} of {counted(sweeps, 'sweep')} added to {redacted(destination)}{there}")
            sys.stdout.flush()
        if watch is None:
            return
        first = False
        pause(watch)
