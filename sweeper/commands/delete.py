"""`python -m sweeper delete SWEEP`: delete a sweep's own trials, failed or stopped ones, or what no sweep plans.

Without `--yes` nothing is deleted: the command says what would be. A deletion that was killed is carried on by the same
command.

Exit codes: 0; 2 for a choice that makes no sense, a store that cannot be read or written, or one in which drivers run.
"""

import collections
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sweeper.command_line import CommandLine, Results, errors_told
from sweeper.messages import counted, printable, typed

if TYPE_CHECKING:
    from sweeper.store.deletion import Deletion

app = CommandLine()


@app.command()
def delete(
    sweep: Annotated[
        str | None, typer.Argument(help="A sweep: its records, and its trials that no other sweep planned.")
    ] = None,
    results: Results = "results",
    status: Annotated[
        Literal["failed", "stopped"] | None,
        typer.Option(help="Only trials of this status, of the sweep or of the whole store; records of sweeps stay."),
    ] = None,
    unplanned: Annotated[
        bool, typer.Option("--unplanned", help="The trials that no sweep plans, or none plans any more.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Delete; without it only say what would be deleted.")] = False,
) -> None:
    """Delete trials with all that belongs to them; without --yes only say which."""
    from sweeper.analysis.sweeps import drivers
    from sweeper.packs import checkpoint
    from sweeper.store import deletion
    from sweeper.store.store import Store, StoreError

    with errors_told():
        statuses = () if status is None else (status,)
        if unplanned == (sweep is not None or status is not None):
            raise StoreError("name a sweep, a --status, both of these, or --unplanned alone")
        store = Store.existing(results)
        if unplanned:
            chosen = deletion.of_no_sweep(store)
        elif sweep is None:
            chosen = deletion.of_status(store, statuses)
        else:
            chosen = deletion.of_sweep(store, sweep, statuses)
        print(sentence(chosen))
        if not yes:
            print("nothing was deleted; --yes deletes")
            return
        if running := [driver for driver in drivers(store) if driver.lives]:  # an adaptive search plans more meanwhile
            name, host = running[0].sweep, running[0].heartbeat.process.host
            raise StoreError(f"{name} runs on {host}: stop it first ({typed('stop', name)})")
        checkpoints = store.listing("checkpoints")
        left = deletion.delete(store, chosen)
        removed = []
        if unplanned:
            removed = checkpoint.remove_without(store, checkpoints, deletion.planned_trials(store).__contains__)
        elif chosen.sweep is not None:
            removed = checkpoint.remove_without(store, checkpoints, lambda key: key not in chosen.planned)
        meanwhile = [driver.sweep for driver in drivers(store) if driver.lives]
    also = [counted(len(removed), "checkpoint")] if removed else []
    also += [f"{counted(left, 'evaluation')} of no trial"] if left else []
    print(f"deleted{', also ' + ' and '.join(also) if also else ''}")
    for name in meanwhile:
        print(printable(f"{name} was started meanwhile: run it again when it has ended"))


def sentence(chosen: "Deletion") -> str:
    """What a deletion takes, in one line."""
    counts = collections.Counter(chosen.trials.values())
    kinds = ", ".join(f"{count:,} {status}" for status, count in sorted(counts.items()))
    parts = [counted(len(chosen.trials), "trial") + (f" ({kinds})" if kinds else ""), f"{chosen.size / 1e6:,.1f} MB"]
    if chosen.sweep is not None:
        parts.append(f"the records of {chosen.sweep}")
    if chosen.shared:
        parts.append(f"{counted(chosen.shared, 'trial')} that another sweep planned would stay")
    return printable(" · ".join(parts))
