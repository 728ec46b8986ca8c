"""`python -m sweeper status`: the sweeps in a store, how far each is, and what runs now.

A sweep is as far as the trials that its latest start planned. Two sweeps that plan the same trial share its row.

Exit codes: 0; 2 for a store that is not there or cannot be read; 130 for Ctrl-C in `--watch`.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from sweeper.command_line import CommandLine, Results, errors_told

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from sweeper.store.store import Status, Store

app = CommandLine()

SECONDS = 2.0  # between two looks at the drivers with `--watch`
SHARE = 0.1  # share of the time that `--watch` spends at most on reading rows


@app.command()
def status(
    results: Results = "results",
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")] = False,
) -> None:
    """Show the sweeps in a store, how far each is, and what runs now."""
    from sweeper.analysis.table import console
    from sweeper.store.store import Store

    screen = console()
    try:
        with errors_told():
            store = Store.existing(results)
            if watch:
                follow(store, screen)
            for part in [*_running(store), *_sweeps(store)]:
                screen.print(part)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def follow(store: "Store", screen: "Console", pause: Callable[[float], None] = time.sleep) -> NoReturn:
    """Look again and again, with a pause between two looks, until Ctrl-C."""
    from rich.console import Group
    from rich.live import Live

    with Live(console=screen, auto_refresh=False) as live:
        sweeps: list[RenderableType] = []
        due = 0.0
        while True:
            begun = time.monotonic()
            if begun >= due:
                sweeps = _sweeps(store)
                due = time.monotonic() + max(SECONDS, (time.monotonic() - begun) / SHARE)
            live.update(Group(*_running(store), *sweeps), refresh=True)
            pause(SECONDS)


def _sweeps(store: "Store") -> "list[RenderableType]":
    """How far the sweeps are, and why trials failed."""
    from rich.text import Text

    from sweeper.analysis.sweeps import arithmetic_lines, failures, not_finite_lines, overview, starts_by_name
    from sweeper.analysis.table import terminal
    from sweeper.messages import counted, inflected, printable
    from sweeper.store.annotations import read_annotations

    listed = store.columns(["trial_id", "status", "arithmetic", "extra_metrics"]).to_pylist()
    rows = {row["trial_id"]: row for row in listed}
    committed: dict[str, Status] = {key: row["status"] for key, row in rows.items()}
    starts = starts_by_name(store.sweeps())
    annotations = read_annotations(store.files).sweeps
    latest = {name: records[-1] for name, records in starts.items()}
    parts: list[RenderableType] = []
    if starts:
        parts.append(terminal(overview(starts, committed, annotations), rule=False))
    for name, record in latest.items():
        for reason, count in failures(store, record, committed).most_common():
            parts.append(Text(printable(f"{name}: {count:,} failed: {reason}")))
        own = [rows[key] for key in record.trial_ids if key in rows]
        for line in [*arithmetic_lines(row["arithmetic"] for row in own), *not_finite_lines(own)]:
            parts.append(Text(printable(f"{name}: {line}")))
    unplanned = committed.keys() - {trial_id for record in latest.values() for trial_id in record.trial_ids}
    if unplanned:
        verb = inflected(len(unplanned), "is", "are")
        parts.append(Text(f"{counted(len(unplanned), 'committed trial')} {verb} not, or no longer, planned by a sweep"))
    if not starts and not committed:
        parts.append(Text("the store is empty"))
    return parts


def _running(store: "Store") -> "list[RenderableType]":
    """What runs and when it will be done, a line for each sweep; what has died; the packs that run."""
    from rich.text import Text

    from sweeper.analysis.sweeps import drivers, packs_table, sentence
    from sweeper.analysis.table import terminal
    from sweeper.messages import printable

    known = drivers(store)
    parts: list[RenderableType] = [Text(printable(sentence(driver))) for driver in known] or [Text("nothing runs")]
    packs = packs_table(known)
    if len(packs):
        parts.append(terminal(packs, rule=False))
    return parts
