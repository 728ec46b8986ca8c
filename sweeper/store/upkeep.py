"""What a start and `verify` do for a store: damaged trials, details of other runs and doubled rows are put away."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, get_args

from sweeper.store.committed_rows import Entry
from sweeper.store.compacted_files import retire, take_out
from sweeper.store.details import abandoned, checked_details, modified_details
from sweeper.store.file_names import is_compacted, title
from sweeper.store.files import DurableFiles
from sweeper.store.quarantine import set_aside, set_aside_foreign
from sweeper.store.schema import RANK, Detail
from sweeper.store.seal import DamagedError
from sweeper.store.sealed_parquet import unsealed


class Inspection(NamedTuple):
    """The result of reading details to the last byte.

    Attributes:
        damaged: Ids of trials with a damaged file; they were set aside.
        foreign: Trials in whose place lies a sound file of another run.
    """

    damaged: list[str]
    foreign: list[Entry]


def inspected(files: DurableFiles, kind: Detail, entries: Iterable[Entry]) -> Inspection:
    """Read details of a kind to the last byte, and set aside the trials with a damaged file."""
    checked = checked_details(files, kind, entries)
    set_aside(files, [details.damage for details in checked.damaged])
    owners = [entry for details in checked.damaged for entry in details.entries]
    set_aside(files, take_out(files, [owner for owner in owners if owner.detail(kind)[0] == owner.seal.name]))
    return Inspection([entry.seal.trial_id for entry in owners], checked.foreign)


def sound_entries(files: DurableFiles, entries: Sequence[Entry]) -> list[Entry]:
    """The trials whose details are not damaged.

    Only files that were modified after their row, or have another size than the row says, are read. Files of another
    run that are too old to be waiting for a row are set aside; their trials stay.
    """
    sound = {entry.seal.trial_id: entry for entry in entries}
    for kind in get_args(Detail):
        listed = files.listing(kind)
        inspection = inspected(files, kind, modified_details(listed, kind, sound.values()))
        for trial_id in inspection.damaged:
            del sound[trial_id]
        for entry in inspection.foreign:
            if abandoned(files, kind, entry):
                set_aside_foreign(files, kind, entry.detail(kind)[0])
        if kind == "curves":
            _remove_doubled_curves(files, listed, sound.values())
    return list(sound.values())


def _remove_doubled_curves(files: DurableFiles, listed: Iterable[str], entries: Iterable[Entry]) -> None:
    """Deletes what a killed compaction has left: compacted curves without rows, own curves of compacted trials.

    Own curves of a better status than the compacted row stay: their row may be about to be published.
    """
    compacted = {entry.seal.trial_id: entry for entry in entries if entry.place is not None}
    used = {entry.detail("curves")[0] for entry in compacted.values()}
    names = [path.removeprefix("curves/") for path in listed]
    left = [name for name in names if (name not in used if is_compacted(name) else title(name) in compacted)]
    if not left:
        return
    with files.exclusively() as hold:
        for name in left if hold == "held" else ():
            if files.read(f"trials/{name}") is None and (
                is_compacted(name) or not _is_better(files, name, compacted[title(name)])
            ):
                files.delete(f"curves/{name}")


def _is_better(files: DurableFiles, name: str, entry: Entry) -> bool:
    """Whether own curves belong to a run of a better status than the trial's row."""
    data = files.read(f"curves/{name}")
    try:
        return data is not None and RANK[unsealed(data, "curves", name).status] > RANK[entry.seal.status]
    except DamagedError:
        return False


def remove_doubles(files: DurableFiles, doubles: Sequence[Entry]) -> None:
    """Delete own rows and curves of trials whose compacted row counts, so that other tools see each trial once.

    Nothing happens while another process compacts the store, nor in object stores, which cannot tell whether a process
    does: there a compaction removes the rows.
    """
    own = [double for double in doubles if double.place is None]
    if own:
        with files.exclusively() as hold:
            for double in own if hold == "held" else ():
                retire(files, double.seal.name, double.data)
