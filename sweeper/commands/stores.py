"""Commands that write from a store or change it: `export`, `copy`, `note`, `tag`, `delete` and `compact`.

    export network.safetensors --trial 3f2a             the network of a trial
    export sqlite:///mlflow.db --to mlflow              a sweep is an experiment of MLflow
    export logs --to tensorboard                        a sweep is a folder for tensorboard --logdir
    export offline --to wandb                           a sweep is a project of offline runs for wandb sync
    copy SWEEP… --to TARGET                             sweeps into another store
    note widths "the first run had the wrong rate"      on a sweep
    tag widths keep published
    note 3f2a "look at the curves"                      on a trial
    tag widths --remove keep                            takes a tag away; a note is named by its beginning
    delete SWEEP --yes                                  its records, and the trials that no other sweep planned
    compact                                             the snapshot, from which many trials are read fast

Trackers get what they lack (`sweeper.trackers`). What the target of a copy has stays as it is. Without `--yes` nothing
is deleted: the command says what would be. A copy or a deletion that was killed is carried on by the same command.

Exit codes: 0; 1 if a copy left out something damaged; 2 for a choice that makes no sense, a store or a destination that
cannot be read or written, or drivers that run; 130 after Ctrl-C.
"""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sweeper.command_line import CommandLine, Results, opened
from sweeper.messages import UserError, counted, redacted, typed, writing

if TYPE_CHECKING:
    from sweeper.store.store import Store


app = CommandLine()


# Export


@app.command()
def export(
    destination: Annotated[
        str,
        typer.Argument(help="A file that ends in .safetensors; with --to the URI or folder of the tracker."),
    ],
    to: Annotated[
        Literal["mlflow", "tensorboard", "wandb"] | None, typer.Option(help="A tracker, which gets the runs it lacks.")
    ] = None,
    trial: Annotated[
        str | None, typer.Option(help="The trial whose network a .safetensors file gets; its id may be cut.")
    ] = None,
    sweep: Annotated[str | None, typer.Option(help="Only this sweep, into a tracker.", show_default="all")] = None,
    results: Results = "results",
) -> None:
    """Write for other tools: sweeps into an experiment tracker, or a network as a file."""
    with opened(results) as store:
        if to is not None:
            from sweeper.trackers import runs

            added, kept, sweeps = runs.export(store, to, destination, sweep)
            there = f", {kept:,} were there already" if kept else ""
            print(f"{counted(added, 'run')} of {counted(sweeps, 'sweep')} added to {redacted(destination)}{there}")
            return
        from sweeper.analysis.ready_questions import trial_with_prefix
        from sweeper.store.store import NoNetworkError

        file = Path(destination).expanduser()
        if trial is None or file.suffix != ".safetensors":
            rows = typed("query", "select * from trials", "--format", "csv")
            raise UserError(f"export to a tracker (--to), or: export network.safetensors --trial ID; rows are: {rows}")
        trial_id = trial_with_prefix(store, trial)
        try:
            with writing(file):
                file.write_bytes(store.network(store.seals([trial_id])[trial_id]))
        except NoNetworkError as error:
            raise UserError(f"trial {trial_id} {error}") from error
        print(f"the network of trial {trial_id} written to {file}")


# Copy


@app.command()
def copy(
    to: Annotated[str, typer.Option(help="Where to: another store, which may exist.")],
    sweeps: Annotated[
        list[str] | None, typer.Argument(metavar="SWEEP", help="Sweeps; without any, all that the store has.")
    ] = None,
    results: Results = "results",
    outcomes: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="Keep only these outcomes, such as loss,path_*; or none.", show_default="all"
        ),
    ] = None,
) -> None:
    """Copy sweeps into another store, with their notes, trials and evaluations; that store keeps its own."""
    from sweeper.store.copying import copy as copied
    from sweeper.store.store import Store

    names = [] if outcomes == "none" else [name.strip() for name in (outcomes or "").split(",")]
    with opened(results) as source:
        done = copied(source, Store.open(to), sweeps or (), None if outcomes is None else names)
    evaluations = f", {counted(done.evaluations, 'evaluation')}" if done.evaluations else ""
    present = f"; {done.present:,} were there" if done.present else ""
    print(f"{counted(done.trials, 'trial')}{evaluations} copied to {to}{present}")
    if done.damaged:
        print(f"{counted(len(done.damaged), 'damaged trial')} left out", file=sys.stderr)
        raise typer.Exit(1)


# Notes and tags

What = Annotated[str, typer.Argument(metavar="WHAT", help="A sweep, or the beginning of a trial's id.")]
Remove = Annotated[bool, typer.Option("--remove", help="Take it away.")]


@app.command()
def note(
    what: What,
    text: Annotated[str, typer.Argument(help="The note; with --remove the beginning of those that go.")],
    remove: Remove = False,
    results: Results = "results",
) -> None:
    """Write a note on a sweep or on a trial, or take it away; `status` and queries show notes."""
    from sweeper.store.annotations import annotate, remove_annotations

    with opened(results) as store:
        sweep, trial_id = _subject(store, what)
        if not remove:
            annotate(store.files, sweep, trial_id, note=text)
        elif not remove_annotations(
            store.files, lambda each: each.is_on(sweep, trial_id) and each.note != "" and each.note.startswith(text)
        ):
            raise UserError(f"no note of {what} begins with {text!r}")


@app.command()
def tag(
    what: What,
    tags: Annotated[list[str], typer.Argument(metavar="TAG…", help="Words without blanks.")],
    remove: Remove = False,
    results: Results = "results",
) -> None:
    """Tag a sweep or a trial, or take tags away; `status` and queries show tags."""
    from sweeper.store.annotations import annotate, remove_annotations

    with opened(results) as store:
        sweep, trial_id = _subject(store, what)
        if not remove:
            annotate(store.files, sweep, trial_id, tags=tags)
        elif not remove_annotations(store.files, lambda each: each.is_on(sweep, trial_id) and each.tag in tags):
            raise UserError(f"{what} has no tag {' or '.join(tags)}")


def _subject(store: "Store", what: str) -> tuple[str | None, str | None]:
    """The sweep of this name, or else the trial whose id begins so."""
    from sweeper.analysis.ready_questions import trial_with_prefix
    from sweeper.store.sweep_records import unknown_sweep

    if what in (names := {record.name for record in store.sweeps()}):
        return what, None
    if not re.fullmatch("[0-9a-f]{1,20}", what):
        raise unknown_sweep(what, names)
    return None, trial_with_prefix(store, what)


# Delete


@app.command()
def delete(
    sweep: Annotated[str, typer.Argument(help="Its records go, and its trials that no other sweep planned.")],
    results: Results = "results",
    yes: Annotated[bool, typer.Option("--yes", help="Delete; without it only say what would be deleted.")] = False,
) -> None:
    """Delete a sweep with its trials and all that belongs to them; without --yes only say which."""
    from sweeper.listeners.heartbeats import drivers
    from sweeper.packs import checkpoint
    from sweeper.store import deletion

    with opened(results) as store:
        chosen = deletion.of_sweep(store, sweep)
        shared = f"; {counted(chosen.shared, 'trial')} that another sweep planned would stay" if chosen.shared else ""
        print(f"the records of {sweep} and {counted(len(chosen.trials), 'trial')}{shared}")
        if not yes:
            print("nothing was deleted; --yes deletes")
            return
        for driver in drivers(store.files):  # an adaptive search plans more meanwhile
            if driver.lives:
                raise UserError(f"{driver.sweep} runs: stop it first ({typed('stop', driver.sweep)})")
        deletion.delete(store, chosen)
        checkpoint.remove_without(store, store.listing("checkpoints"), lambda key: key not in chosen.planned)
    print("deleted")


# Compact


@app.command()
def compact(results: Results = "results") -> None:
    """Replace the snapshot by one of all trials, which are read fast then; the store may be in use meanwhile."""
    with opened(results) as store:
        copied = store.compact()
    print(f"{counted(copied, 'trial')} copied into the snapshot")
