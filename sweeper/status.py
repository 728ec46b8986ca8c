"""`python -m sweeper.status`: the sweeps in a store, and how far each is.

A sweep is as far as the trials that its latest start planned. Two sweeps that plan the same trial share its row.

Exit codes: 0; 2 for a store that is not there or cannot be read.
"""

import sys
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def status(
    results: Annotated[
        str, typer.Option(help="Results store: a folder or a URL such as s3://bucket/folder.")
    ] = "results",
) -> None:
    """Show the sweeps in a store and how far each is."""
    from rich.console import Console

    from sweeper.analysis.sweeps import failures, overview, starts_by_name
    from sweeper.analysis.table import terminal
    from sweeper.messages import counted, printable, printable_lines
    from sweeper.store.store import Store, StoreError

    try:
        store = Store.existing(results)
        committed = store.committed()
        starts = starts_by_name(store.sweeps())
        latest = {name: records[-1] for name, records in starts.items()}
        reasons = {name: failures(store, record, committed) for name, record in latest.items()}
    except StoreError as error:
        print(printable_lines(str(error)), file=sys.stderr)
        raise typer.Exit(2) from None

    # Piped into a file nothing should be cut to the width of a terminal that is not there.
    console = Console(width=None if sys.stdout.isatty() else 1000, highlight=False)
    if starts:
        console.print(terminal(overview(starts, committed)._replace(title="", note=""), rule=False))
    for name, counts in reasons.items():
        for reason, count in counts.most_common():
            console.print(printable(f"{name}: {count:,} failed: {reason}"), markup=False)
    unplanned = committed.keys() - {trial_id for record in latest.values() for trial_id in record.trial_ids}
    if unplanned:
        verb = "is" if len(unplanned) == 1 else "are"
        console.print(f"{counted(len(unplanned), 'committed trial')} {verb} not, or no longer, planned by a sweep")
    if not starts and not committed:
        console.print("the store is empty")


if __name__ == "__main__":
    app()
