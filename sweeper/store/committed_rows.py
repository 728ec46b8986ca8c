"""Where the row of every committed trial is: in a file of its own, or at a place in a compacted file.

Rows may move while they are read: into a compacted file, or out of one. The new file is always published before the old
file is deleted. So if two listings, one after the other, show the same compacted files, then a trial that is in neither
listing is not in the store; and if a file has vanished by the time it is read, a new listing shows the new place of its
row. Where a trial has a compacted row and a row of its own, the better status counts, and of equal statuses the
compacted row.

Nothing is moved or deleted here: damaged files, and rows that contradict their seal, are reported.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sweeper.store.decoded_rows import contradiction
from sweeper.store.file_names import is_compacted, is_file_name, title
from sweeper.store.files import DurableFiles, FileState, StoreError
from sweeper.store.quarantine import Damage
from sweeper.store.schema import RANK, Detail
from sweeper.store.seal import CompactedSeal, DamagedError, DetailFile, Member, Seal
from sweeper.store.sealed_parquet import unsealed, unsealed_compacted
from sweeper.store.threads import in_threads

logger = logging.getLogger(__name__)

FEW = 16
"""Largest number of trials whose files are tried in every partition, which is then cheaper than listing the store."""

LARGEST_ROW = 16 * 2**20
"""Bytes of the largest file that is read as one trial's row."""

ATTEMPTS = 100
"""How often rows are read again that a compaction has moved meanwhile. One compaction spoils one attempt."""


class RowPlace(NamedTuple):
    """A place in a compacted file.

    Attributes:
        file: The seal of the file.
        position: Which of its rows.
    """

    file: CompactedSeal
    position: int

    @property
    def member(self) -> Member:
        """What the file's seal says of the trial."""
        return self.file.members[self.position]


class Entry(NamedTuple):
    """A committed trial.

    Attributes:
        seal: The seal of the trial's own row; of a compacted row, the seal that its own file would have.
        data: The bytes of the file that holds the row.
        modified: Time of modification of that file, in nanoseconds; 0 if the file was not listed.
        place: The place of the row in a compacted file; None if the row has a file of its own.
    """

    seal: Seal
    data: bytes
    modified: int
    place: RowPlace | None

    @property
    def row_file(self) -> str:
        """Name below `trials` of the file that holds the row."""
        return self.seal.name if self.place is None else self.place.file.name

    def detail(self, kind: Detail) -> tuple[str, DetailFile | None]:
        """The trial's curves, outcomes or network: name of the row that the file belongs to, and what the row says.

        For compacted curves this is the name of the compacted file. `file_names.file_path` makes the path.
        """
        if kind == "curves" and self.place is not None:
            return self.place.file.name, self.place.file.curves
        return self.seal.name, self.seal.detail(kind)


class Reading(NamedTuple):
    """The result of reading the rows of a store.

    Attributes:
        entries: The best sound row of every trial, by trial id.
        damage: Damaged files.
        doubles: Sound rows that do not count, because the trial has another row of an equal or better status.
    """

    entries: list[Entry]
    damage: list[Damage]
    doubles: list[Entry]


def read_entries(files: DurableFiles, trial_ids: Iterable[str] | None = None) -> Reading:
    """The rows of all committed trials, or of those listed, not decoded.

    Raises:
        StoreError: the store cannot be read, a newer version of this program wrote it, or its rows moved during every
            attempt.
    """
    wanted = None if trial_ids is None else set(trial_ids)
    if wanted is not None and len(wanted) <= FEW:
        entries = _finished_rows(files, wanted)
        if sorted(entry.seal.trial_id for entry in entries) == sorted(wanted):
            return Reading(entries, [], [])
    strange = set[str]()
    for _ in range(ATTEMPTS):
        before, after = files.listing("trials"), files.listing("trials")
        names = _known(before | after, strange)
        reading, vanished = _read(files, names, wanted)
        moved = any(is_compacted(name) for name in before.keys() ^ after.keys())
        if not moved and not vanished:
            return reading
    raise moved_too_often()


def moved_too_often() -> StoreError:
    """The error of a reader all of whose attempts a compaction has spoilt."""
    return StoreError(f"the rows of the store moved during each of {ATTEMPTS} attempts to read them: try again later")


def _finished_rows(files: DurableFiles, wanted: set[str]) -> list[Entry]:
    """The finished rows in files of their own, without a listing of the store."""
    partitions = [inner for outer in files.folders("trials") for inner in files.folders(outer)]
    names = [f"{partition}/{trial_id}.parquet" for trial_id in sorted(wanted) for partition in partitions]
    rows = in_threads(lambda name: _own_row(files, name.removeprefix("trials/"), 0), names)
    return [row for row in rows if isinstance(row, Entry) and row.seal.status == "finished"]


def _known(listed: Mapping[str, FileState], strange: set[str]) -> dict[str, FileState]:
    """The listed files by name below `trials`; others are warned of, once, and added to `strange`."""
    names = {}
    for path, state in listed.items():
        name = path.removeprefix("trials/")
        if is_file_name(name):
            names[name] = state
        elif path not in strange:
            logger.warning("%r is not a file of this store: ignored", path)
            strange.add(path)
    return names


def _read(files: DurableFiles, names: Mapping[str, FileState], wanted: set[str] | None) -> tuple[Reading, bool]:
    """The rows in the files, and whether a file has vanished whose row is nowhere else."""
    best: dict[str, Entry] = {}
    doubles: list[Entry] = []
    damage: list[Damage] = []
    vanished = False
    together = [name for name in names if is_compacted(name)]
    for members in in_threads(lambda name: _compacted_rows(files, name, names[name].modified), together):
        if isinstance(members, Damage):
            damage.append(members)
        elif members is None:
            vanished = True
        else:
            for entry in members:
                if wanted is None or entry.seal.trial_id in wanted:
                    doubles += _worse(best, entry)
    compacted = set(best)
    alone = [name for name in names if not is_compacted(name) and (wanted is None or title(name) in wanted)]
    small = [name for name in alone if names[name].size <= LARGEST_ROW]
    for name in set(alone).difference(small):
        reason = f"has {names[name].size:,} bytes, too many for a row"
        damage.append(Damage("trials", name, reason, title(name) in compacted))
    rows = in_threads(lambda name: _own_row(files, name, names[name].modified), small)
    for name, row in zip(small, rows, strict=True):
        if isinstance(row, Damage):
            damage.append(row._replace(compacted_too=title(name) in compacted))
        elif row is None:
            vanished |= title(name) not in compacted
        else:
            doubles += _worse(best, row)
    return Reading([best[trial_id] for trial_id in sorted(best)], damage, doubles), vanished


def _worse(best: dict[str, Entry], entry: Entry) -> list[Entry]:
    """Keep the better of two rows of a trial in `best`; returns the other row, if there are two."""
    standing = best.get(entry.seal.trial_id)
    if standing is not None and RANK[entry.seal.status] <= RANK[standing.seal.status]:
        return [entry]
    best[entry.seal.trial_id] = entry
    return [] if standing is None else [standing]


def _own_row(files: DurableFiles, name: str, modified: int) -> Entry | Damage | None:
    """The row in a file of its own; None if the file is not there."""
    data = files.read(f"trials/{name}")
    if data is None:
        return None
    try:
        seal = unsealed(data, "trials", name)
    except DamagedError as error:
        return Damage("trials", name, str(error))
    return contradiction(data, name, [seal]) or Entry(seal, data, modified, None)


def _compacted_rows(files: DurableFiles, name: str, modified: int) -> list[Entry] | Damage | None:
    """The rows in a compacted file; None if the file is not there."""
    data = files.read(f"trials/{name}")
    if data is None:
        return None
    try:
        seal = unsealed_compacted(data, "trials", name)
    except DamagedError as error:
        return Damage("trials", name, str(error))
    rows = seal.rows
    entries = [Entry(row, data, modified, RowPlace(seal, position)) for position, row in enumerate(rows)]
    return contradiction(data, name, rows) or entries
