"""Taking trials out of compacted files, and deleting what compacted files have replaced."""

import logging
from collections.abc import Callable, Collection, Iterable

import pyarrow as pa
import pyarrow.parquet as pq

from sweeper.store.committed_rows import Entry
from sweeper.store.decoded_rows import decoded_rows
from sweeper.store.details import damage_in, present
from sweeper.store.files import DurableFiles, StoreError
from sweeper.store.publication import publish, stands
from sweeper.store.quarantine import Damage
from sweeper.store.schema import DetailTable
from sweeper.store.seal import CompactedSeal
from sweeper.store.sealed_parquet import digest_of

logger = logging.getLogger(__name__)


def retire(files: DurableFiles, name: str, row: bytes) -> bool:
    """Delete the own row of a compacted trial and then its own curves, unless the row was replaced by another.

    The row is deleted first: a row without curves would look as if a person had deleted the curves.

    Args:
        files: The files of the store.
        name: The trial's file below `trials` and `curves`.
        row: The row as it was read.
    """
    gone = files.delete(f"trials/{name}", only=row)
    if gone:
        files.delete(f"curves/{name}")
    return gone


def dissolve(files: DurableFiles, seal: CompactedSeal, data: bytes, without: Collection[str] = ()) -> Damage | None:
    """Give the trials of a compacted file, but for some, files of their own again, and delete the compacted file.

    The caller holds the store exclusively, where that is possible.

    Args:
        files: The files of the store.
        seal: The seal of the compacted file of rows.
        data: That file.
        without: Ids of trials that get no row.

    Returns:
        The damage that keeps the file from being dissolved; None if there is none.

    Raises:
        StoreError: the store cannot be written, or another process moves the same rows. No trial has suffered.
    """
    rows = decoded_rows(data, seal.name, seal.rows)
    if isinstance(rows, Damage):
        return rows
    damage = damage_in(files, "curves", seal.name)
    if damage is not None:
        return damage
    points = files.read(f"curves/{seal.name}")
    ours = points is not None and seal.curves is not None and seal.curves.is_file(digest_of(points))
    curves = pq.ParquetFile(pa.BufferReader(points)) if ours else None
    for position, member in enumerate(seal.members):
        own = seal.of(member)
        present_row = files.read(f"trials/{own.name}")
        if member.trial_id in without or (present_row is not None and stands(present_row, own.status)):
            continue
        tables: dict[DetailTable, pa.Table] = {}
        if curves is not None and member.curves_group is not None:
            tables["curves"] = curves.read_row_group(member.curves_group).replace_schema_metadata(None)
        publish(files, own, rows.slice(position, 1), tables)
    names = [seal.of(member).name for member in seal.members if member.trial_id not in without]
    if len(present(files, "trials", names, few=True)) < len(names):
        raise compacted_elsewhere()
    files.delete(f"trials/{seal.name}")
    files.delete(f"curves/{seal.name}")
    return None


def compacted_elsewhere() -> StoreError:
    """The error of whoever moves rows while another process does."""
    return StoreError("another process is compacting this store")


def dissolve_holders(
    files: DurableFiles,
    entries: Iterable[Entry],
    without: Collection[str] = (),
    beforehand: Callable[[], None] = lambda: None,
) -> None:
    """Dissolve the compacted files that hold rows of trials, each while the store is held exclusively.

    Args:
        files: The files of the store.
        entries: The trials; trials with a row in a file of its own are skipped.
        without: Ids of trials that get no row.
        beforehand: Called while the store is held, before a file is dissolved.

    Raises:
        StoreError: the store cannot be written, another process is compacting it, or a compacted file is damaged.
    """
    for seal, data in _holders(entries):
        with files.exclusively() as hold:
            if hold == "taken":
                raise compacted_elsewhere()
            beforehand()
            damage = dissolve(files, seal, data, without)
        if damage is not None:
            raise StoreError(f"'{damage.kind}/{damage.name}' {damage.reason}")


def take_out(files: DurableFiles, entries: Iterable[Entry]) -> list[Damage]:
    """Remove the rows of trials from compacted files, by dissolving these files.

    While another process compacts the store, nothing happens: the next reader sees the same trials again.

    Args:
        files: The files of the store.
        entries: The trials; trials with a row in a file of its own are skipped.

    Returns:
        Damage that keeps compacted files from being dissolved.
    """
    compacted = {entry.seal.trial_id: entry for entry in entries if entry.place is not None}
    damages = []
    for seal, data in _holders(compacted.values()):
        with files.exclusively() as hold:
            try:
                damages.append(None if hold == "taken" else dissolve(files, seal, data, without=compacted.keys()))
            except StoreError as error:
                logger.warning("the rows in %r cannot be parted: %s", seal.name, error)
    return [damage for damage in damages if damage is not None]


def _holders(entries: Iterable[Entry]) -> list[tuple[CompactedSeal, bytes]]:
    """The compacted files, each once, that hold rows of the trials."""
    places = ((entry.place, entry.data) for entry in entries)
    return list({place.file.name: (place.file, data) for place, data in places if place is not None}.values())
