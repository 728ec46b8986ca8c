"""Commands that write from a store or change it: `export`, `copy`, `note`, `tag`, `rename`, `delete` and `compact`.

    export network.safetensors --trial 3f2a             the network of a trial
    export sqlite:///mlflow.db --to mlflow              a sweep is an experiment of MLflow
    export logs --to tensorboard                        a sweep is a folder for tensorboard --logdir
    export offline --to wandb                           a sweep is a project of offline runs for wandb sync
    copy SWEEP… --to TARGET                             sweeps into another store
    note widths "the first run had the wrong rate"      on a sweep
    tag widths keep published
    tag widths --where "width = 3 and loss > 1" stuck   on the trials of a sweep that a condition chooses
    note 3f2a "look at the curves"                      on a trial
    note widths                                         shows the notes and tags of a sweep and its trials
    note                                                shows all
    tag widths --remove keep                            takes a tag away; a note is named by its beginning
    rename OLD NEW                                      a sweep gets another name
    delete SWEEP --yes                                  its own trials, or the failed ones, or what no sweep plans
    compact                                             the snapshot, from which many trials are read fast

Trackers get what they lack (`sweeper.trackers`). What the target of a copy has stays
as it is. Trials do not know sweeps, so a renaming changes the records of starts alone. Without `--yes` nothing is
deleted: the command says what would be. A copy, a renaming or a deletion that was killed is carried on by the same
command.

Exit codes: 0; 1 if a copy left out something damaged; 2 for a choice that makes no sense, a store or a destination that
cannot be read or written, or drivers that run; 130 after Ctrl-C.
"""

import collections
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sweeper.command_line import CommandLine, Results, opened
from sweeper.messages import UserError, counted, printable, redacted, typed

if TYPE_CHECKING:
    from sweeper.analysis.annotating import Change
    from sweeper.listeners.heartbeats import Driver
    from sweeper.store.deletion import Deletion
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
            metavar="COLUMNS",
            help="Keep only these columns of the outcomes, such as loss,correct; or none; or drawn, what panels draw.",
        ),
    ] = None,
    hide_folders: Annotated[
        bool, typer.Option("--hide-folders", help="Keep only the last part of absolute paths in recorded commands.")
    ] = False,
) -> None:
    """Copy sweeps into another store, with their notes, trials and evaluations; that store keeps its own."""
    from sweeper.store.copying import Kept
    from sweeper.store.copying import copy as copied
    from sweeper.store.store import Store

    names = [] if outcomes == "none" else [name.strip() for name in (outcomes or "").split(",")]
    kept: Kept = None if outcomes is None else names
    with opened(results) as source:
        target = Store.open(to)
        if outcomes == "drawn":
            from sweeper.analysis.report_sources import drawn_outcomes

            kept = drawn_outcomes(source, sweeps or ())
        done = copied(source, target, sweeps or (), kept, hide_folders)
    evaluations = f", {counted(done.evaluations, 'evaluation')}" if done.evaluations else ""
    present = f"; {done.present:,} were there" if done.present else ""
    print(f"{counted(done.trials, 'trial')}{evaluations} copied to {to}{present}")
    if done.damaged:
        print(f"{counted(len(done.damaged), 'damaged file')} left out", file=sys.stderr)
        raise typer.Exit(1)


# Notes and tags

What = Annotated[
    str | None,
    typer.Argument(metavar="WHAT", help="A sweep, or the beginning of a trial's id; without it all are shown."),
]
Where = Annotated[
    str | None,
    typer.Option(metavar="CONDITION", help='Only these trials of the sweep, in SQL: "width = 3 and loss > 0.5".'),
]


@app.command()
def note(
    what: What = None,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="The note; without it notes are shown.")] = None,
    where: Where = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take away the note that begins with TEXT.")] = False,
    results: Results = "results",
) -> None:
    """Write a note on a sweep or on trials; without a text show notes and tags."""
    from sweeper.analysis.annotating import add_note, remove_note

    _annotate(results, what, where, [] if text is None else [text], remove_note if remove else add_note, remove)


@app.command()
def tag(
    what: What = None,
    tags: Annotated[
        list[str] | None, typer.Argument(metavar="TAG…", help="Words without blanks; without any, tags are shown.")
    ] = None,
    where: Where = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the tags away.")] = False,
    results: Results = "results",
) -> None:
    """Tag a sweep or trials; without a tag show notes and tags."""
    from sweeper.analysis.annotating import add_tags, remove_tags

    _annotate(results, what, where, tags or [], remove_tags if remove else add_tags, remove)


def _annotate(
    results: str, what: str | None, where: str | None, words: list[str], change: "Change", remove: bool
) -> None:
    """Change something if there are words, and otherwise show what is there."""
    from sweeper.analysis.annotating import chosen, listed, present
    from sweeper.analysis.table import console, terminal

    with opened(results) as store:
        choice = None if what is None else chosen(store, what, where)
        if choice is None and where is not None:
            raise UserError("--where chooses among the trials of a sweep: name the sweep")
        if choice is not None and words:
            print(printable(change(store, choice, words)))
            return
        if remove:
            raise UserError("--remove takes away what is named: the tags, or the beginning of the note")
        annotations = present(store, choice)
        if annotations.sweeps or annotations.trials:
            console().print(terminal(listed(annotations), rule=False))
        else:
            print("no notes and no tags")


# Rename


@app.command()
def rename(
    old: Annotated[str, typer.Argument(help="Its name, as `status` shows it.")],
    new: Annotated[str, typer.Argument(help="The name that it is to have.")],
    results: Results = "results",
) -> None:
    """Give a sweep another name in its store."""
    from sweeper.store.copying import rename_sweep
    from sweeper.store.sweep_records import latest_starts

    with opened(results) as store:
        latest_starts(store.sweeps(), [old])
        if old == new:
            raise UserError(f"the sweep is called {old!r} already")
        _refuse_while_running(store, old)
        rename_sweep(store.files, old, new)
    print(f"{old} is called {new} now; write `name: {new}` in its search space, or the next start makes {old} anew")


# Delete


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
    from sweeper.packs import checkpoint
    from sweeper.store import deletion

    with opened(results) as store:
        if unplanned == (sweep is not None or status is not None):
            raise UserError("name a sweep, a --status, both of these, or --unplanned alone")
        if unplanned:
            chosen = deletion.of_no_sweep(store)
        else:
            chosen = deletion.of_status(store, status) if sweep is None else deletion.of_sweep(store, sweep, status)
        print(_deletion_sentence(chosen))
        if not yes:
            print("nothing was deleted; --yes deletes")
            return
        _refuse_while_running(store)  # an adaptive search plans more meanwhile
        checkpoints = store.listing("checkpoints")
        left = deletion.delete(store, chosen)
        removed = []
        if unplanned:
            removed = checkpoint.remove_without(store, checkpoints, deletion.planned_trials(store).__contains__)
        elif chosen.sweep is not None:
            removed = checkpoint.remove_without(store, checkpoints, lambda key: key not in chosen.planned)
        meanwhile = [driver.sweep for driver in _running(store)]
    also = [counted(len(removed), "checkpoint")] if removed else []
    also += [f"{counted(left, 'evaluation')} of no trial"] if left else []
    print(f"deleted{', also ' + ' and '.join(also) if also else ''}")
    for name in meanwhile:
        print(printable(f"{name} was started meanwhile: run it again when it has ended"))


def _running(store: "Store", sweep: str | None = None) -> "list[Driver]":
    """The drivers that run now, of all sweeps or of one."""
    from sweeper.listeners.heartbeats import drivers

    return [driver for driver in drivers(store.files) if driver.lives and sweep in (None, driver.sweep)]


def _refuse_while_running(store: "Store", sweep: str | None = None) -> None:
    for driver in _running(store, sweep):
        host = driver.heartbeat.host
        raise UserError(f"{driver.sweep} runs on {host}: stop it first ({typed('stop', driver.sweep)})")


def _deletion_sentence(chosen: "Deletion") -> str:
    """What a deletion takes, in one line."""
    counts = collections.Counter(chosen.trials.values())
    kinds = ", ".join(f"{count:,} {status}" for status, count in sorted(counts.items()))
    parts = [counted(len(chosen.trials), "trial") + (f" ({kinds})" if kinds else ""), f"{chosen.size / 1e6:,.1f} MB"]
    if chosen.sweep is not None:
        parts.append(f"the records of {chosen.sweep}")
    if chosen.shared:
        parts.append(f"{counted(chosen.shared, 'trial')} that another sweep planned would stay")
    return printable(" · ".join(parts))


# Compact


@app.command()
def compact(results: Results = "results") -> None:
    """Replace the snapshot by one of all trials, which are read fast then; the store may be in use meanwhile."""
    with opened(results) as store:
        copied = store.compact()
    print(f"{counted(copied, 'trial')} copied into the snapshot")
