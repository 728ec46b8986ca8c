"""`python -m sweeper.status`: the sweeps in a store, and how far each is.

A sweep is as far as the trials of its latest start are. Two sweeps that plan the same trial share its row.
"""

import collections
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from sweeper.store.store import Status, SweepRecord

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def status(
    results: Annotated[
        str, typer.Option(help="Results store: a folder or a URL such as s3://bucket/folder.")
    ] = "results",
) -> None:
    """Show the sweeps in a store and how far each is."""
    from sweeper.analysis.sweeps import failures
    from sweeper.store.store import Store, StoreError

    try:
        store = Store.existing(results)
        committed = store.committed()
        starts = collections.defaultdict(list)
        for record in store.sweeps():
            starts[record.name].append(record)
        latest = {name: records[-1] for name, records in starts.items()}
        reasons = {name: failures(store, record, committed) for name, record in latest.items()}
    except StoreError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None

    # Piped into a file nothing should be cut to the width of a terminal that is not there.
    console = Console(width=None if sys.stdout.isatty() else 1000, highlight=False)
    if starts:
        console.print(_overview(starts, committed))
    for name, counts in reasons.items():
        for reason, count in counts.most_common():
            console.print(Text(f"{name}: {count:,} failed: {reason}"))
    unplanned = committed.keys() - {trial_id for record in latest.values() for trial_id in record.trial_ids}
    if unplanned:
        console.print(f"{len(unplanned):,} committed trials are not, or no longer, planned by a sweep")
    if not starts and not committed:
        console.print("the store is empty")


def _overview(starts: "Mapping[str, Sequence[SweepRecord]]", committed: "Mapping[str, Status]") -> Table:
    from sweeper.analysis.sweeps import progress

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("sweep", "planned", "finished", "stopped", "failed", "pending", "starts", "last start", "commit"):
        table.add_column(name, justify="left" if name in ("sweep", "last start", "commit") else "right")
    for name, records in starts.items():
        latest = records[-1]
        counts = progress(latest, committed)
        numbers = [len(latest.trial_ids), *(counts[key] for key in ("finished", "stopped", "failed", "pending"))]
        origin = latest.provenance
        commit = f"{(origin.commit or 'unknown')[:10]}{' + changes' if origin.dirty else ''}"
        words = [name, *(f"{number:,}" for number in (*numbers, len(records))), origin.captured, commit]
        table.add_row(*map(Text, words))
    return table


if __name__ == "__main__":
    app()
