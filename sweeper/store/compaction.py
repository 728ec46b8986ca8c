"""Turn many small files of a store into few, while it is in use.

A store of 10,000 trials is 20,000 little files, and reading them takes seconds. This moves rows and curves of finished
and stopped trials, a hundred of one task and baseline at a time, into compacted files: one of rows and one of curves,
in the same folder, with the same columns. Whatever fills no hundred stays as it is. Outcomes stay too: they are large,
and a query of some trials opens only theirs. Failed rows stay because they may be replaced.

Steps, each of which leaves a store that is whole:

1. The compacted curves are published. Nobody looks at them yet.
2. The compacted rows are published: this one write is the swap. Their seal is the manifest; it names every trial.
3. The trials' own rows are deleted, each before its curves, and only if its bytes are still those that were copied.

A crash between two steps leaves a trial in both forms. Readers count it once, and the next compaction ends what was
begun. Other tools see such a trial twice until then. On a disk only one process compacts, under a lock that ends with
it. Object stores have no locks: two at once there may compact a trial twice, which readers do not notice and the next
compaction puts right.
"""

import contextlib
import hashlib
import time
from collections import defaultdict
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sweeper.store.files import LEFTOVER_SECONDS
from sweeper.store.rows import ENCODINGS, IN_FILE, SCHEMA_VERSION
from sweeper.store.sealed_parquet import RANK, CompactedSeal, DamagedError, Member, sealed, unsealed
from sweeper.store.store import Entry, Store, StoreError

TOGETHER = 100
"""Trials of a compacted file. It is also what one flipped bit costs at most."""

_COMPACTED = "/compacted-"
_ROWS = {"compression": "zstd"}


class Compaction(NamedTuple):
    """What a compaction did: trials it moved, files it made, and leftovers it removed."""

    trials: int
    files: int
    leftovers: int


def compact(store: Store) -> Compaction:
    """Move all rows and curves that fill a hundred into compacted files.

    Raises:
        StoreError: the store cannot be read or written, or another process is compacting it.
    """
    if not store.exists():
        return Compaction(0, 0, 0)
    store.committed()  # sets aside what is damaged
    with store.files.exclusively() as hold:
        if hold == "taken":
            raise StoreError("another process is compacting this store")
        leftovers = _tidied(store, alone=hold == "held")
        waiting: dict[tuple[str, str], list[Entry]] = defaultdict(list)
        for entry in store.entries():
            if isinstance(entry.row, bytes) and entry.seal.status != "failed":
                waiting[entry.seal.task, entry.seal.baseline].append(entry)
        files = 0
        for entries in waiting.values():
            for start in range(0, len(entries) - TOGETHER + 1, TOGETHER):
                files += _moved(store, entries[start : start + TOGETHER])
        return Compaction(files * TOGETHER, files, leftovers)


def _moved(store: Store, entries: list[Entry]) -> bool:
    """Compacts the trials; False if one of them turned out to be damaged, and all stay as they are."""
    rows, curves, members = [], [], []
    for entry in entries:
        seal, data = entry.seal, _own(entry)
        points = store.files.read(f"curves/{seal.name}")
        try:
            if points is not None:
                unsealed(points, "curves", seal.name)
        except DamagedError:
            store.verify("curves", [seal.trial_id])
            return False
        rows.append(_table(data))
        table = None if points is None else _table(points)
        group = None
        if table is not None and table.num_rows:
            group = len(curves)
            curves.append(table)
        members.append(Member(seal.trial_id, seal.status, group, seal.outcomes_bytes, seal.outcome_columns))
    digest = hashlib.blake2b(b"".join(_own(entry) for entry in entries), digest_size=10).hexdigest()
    first = entries[0].seal
    seal = CompactedSeal(
        "trials", SCHEMA_VERSION, f"compacted-{digest}", first.task, first.baseline, None, tuple(members)
    )
    if curves:
        bare = seal._replace(kind="curves", members=())
        data = sealed(curves, bare, ENCODINGS["curves"](curves[0]))
        store.files.write(f"curves/{seal.name}", data)
        seal = seal._replace(curves_bytes=len(data))
    together = pa.concat_tables([IN_FILE["trials"].empty_table(), *rows], promote_options="default")
    store.files.write(f"trials/{seal.name}", sealed([together.combine_chunks()], seal, _ROWS))
    for entry in entries:
        _retire(store, entry.seal.name, _own(entry))
    return True


def _own(entry: Entry) -> bytes:
    assert isinstance(entry.row, bytes)
    return entry.row


def _table(data: bytes) -> pa.Table:
    return pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False).replace_schema_metadata(None)


def _retire(store: Store, name: str, row: bytes) -> bool:
    """Deletes the row of a trial that is compacted, unless it has been replaced by another, and then its curves.

    The row goes first: a row without its curves would be taken for one whose curves were deleted by hand.
    """
    gone = store.files.delete(f"trials/{name}", only=row)
    if gone:
        store.files.delete(f"curves/{name}")
    return gone


def _tidied(store: Store, alone: bool) -> int:
    """Ends what earlier compactions had begun; returns how many files that removed.

    Args:
        store: The store.
        alone: Whether this process is known to be the only one that compacts.
    """
    standing = {entry.seal.trial_id: entry.seal for entry in store.entries() if not isinstance(entry.row, bytes)}
    removed = 0
    rows = store.files.listing("trials")
    for name in rows:
        compacted = None if _COMPACTED in name else standing.get(name[-28:-8])
        data = None if compacted is None else store.files.read(name)
        if compacted is not None and data is not None:
            # One that was damaged since the store was looked through is for the next reader to set aside.
            with contextlib.suppress(DamagedError):
                if RANK[unsealed(data, "trials").status] <= RANK[compacted.status]:
                    removed += _retire(store, compacted.name, data)
    long_ago = (time.time() - LEFTOVER_SECONDS) * 1e9
    for name, state in store.files.listing("curves").items():
        row = name.replace("curves/", "trials/", 1)
        ours = row not in rows and (_COMPACTED in name or name[-28:-8] in standing)
        # Somebody may be about to publish the row that belongs to it, unless only this process could.
        abandoned = state.modified < long_ago or (alone and _COMPACTED in name)
        if ours and abandoned and store.files.read(row) is None:
            store.files.delete(name)
            removed += 1
    return removed
