"""Turn many small files of a store into few, while it is in use.

A store of 10,000 trials is 20,000 little files, and reading them takes seconds. A compaction moves rows and curves of
finished and stopped trials, a hundred of one task and baseline at a time, into compacted files: one of rows and one of
curves, in the same folder, with the same columns. Fewer than a hundred trials stay as they are. Outcomes and networks
stay too: they are large, and a query about some trials opens only their files. Failed rows stay because they may be
replaced.

Steps, each of which leaves a store that is whole:

1. The compacted curves are published. No reader looks at them yet.
2. The compacted rows are published, and from then on they count. Their seal is the manifest; it names every trial.
3. The trials' own rows are deleted, each before its curves, and only if its bytes have not changed since they were
   copied.

A crash between two steps leaves a trial in both forms. Readers count it once, and the next start or compaction
completes the steps; other tools see such a trial twice until then. A compacted row that has given way to a better row
of its trial leaves its file with the next compaction.

On a disk only one process compacts, under a lock that ends with the process. Object stores have no locks: two at once
there may compact a trial twice, which readers do not notice. There only a compaction removes own files of compacted
trials, and a trial that is in two compacted files stays in both.
"""

import contextlib
import dataclasses
import hashlib
import time
from collections import defaultdict
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sweeper.store.committed_rows import Entry, read_entries
from sweeper.store.compacted_files import compacted_elsewhere, dissolve, retire
from sweeper.store.file_names import is_compacted, title
from sweeper.store.files import LEFTOVER_SECONDS
from sweeper.store.quarantine import set_aside
from sweeper.store.rows import ENCODINGS
from sweeper.store.schema import IN_FILE, RANK, SCHEMA_VERSION
from sweeper.store.seal import CompactedSeal, DamagedError, Member
from sweeper.store.sealed_parquet import digest_of, sealed, unsealed
from sweeper.store.store import Store

TOGETHER = 100
"""Number of trials of a compacted file, and so the most trials that one flipped bit can damage."""


class Compaction(NamedTuple):
    """The result of a compaction.

    Attributes:
        trials: How many trials it moved.
        files: How many compacted files of rows it made.
        leftovers: How many files of earlier, unfinished compactions it removed.
    """

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
            raise compacted_elsewhere()
        if hold == "held":
            _dissolve_outdated(store)
        leftovers = _tidied(store, alone=hold == "held")
        waiting: dict[tuple[str, str], list[Entry]] = defaultdict(list)
        for entry in store.entries():
            if entry.place is None and entry.seal.status != "failed":
                waiting[entry.seal.task, entry.seal.baseline].append(entry)
        files = 0
        for entries in waiting.values():
            for start in range(0, len(entries) - TOGETHER + 1, TOGETHER):
                files += _moved(store, entries[start : start + TOGETHER])
        return Compaction(files * TOGETHER, files, leftovers)


def _dissolve_outdated(store: Store) -> None:
    """Dissolve compacted files that hold an outdated row. All other trials get files of their own."""
    doubles = [entry for entry in read_entries(store.files).doubles if entry.place is not None]
    without: dict[str, set[str]] = defaultdict(set)
    for entry in doubles:
        without[_holder(entry).name].add(entry.seal.trial_id)
    for name, entry in {_holder(entry).name: entry for entry in doubles}.items():
        damage = dissolve(store.files, _holder(entry), entry.data, without[name])
        set_aside(store.files, [] if damage is None else [damage])


def _holder(entry: Entry) -> CompactedSeal:
    """The seal of the compacted file that holds a row."""
    assert entry.place is not None
    return entry.place.file


def _moved(store: Store, entries: list[Entry]) -> bool:
    """Compacts trials with files of their own; False if one of them is damaged, and all stay as they are."""
    rows, curves, members = [], [], []
    for entry in entries:
        seal = entry.seal
        points = store.files.read(f"curves/{seal.name}")
        try:
            if points is not None:
                unsealed(points, "curves", seal.name)
        except DamagedError:
            store.verify("curves", [seal.trial_id])
            return False
        if points is None or seal.curves is None or not seal.curves.is_file(digest_of(points)):
            points = None  # deleted by hand, or of another run
        rows.append(_table(entry.data))
        table = None if points is None else _table(points)
        group = None
        if table is not None and table.num_rows:
            group = len(curves)
            curves.append(table)
        member = Member(
            seal.trial_id, seal.status, group, seal.outcomes, seal.outcome_columns, seal.fingerprint, seal.networks
        )
        members.append(member)
    digest = hashlib.blake2b(b"".join(entry.data for entry in entries), digest_size=10).hexdigest()
    first, mark = entries[0].seal, None
    seal = CompactedSeal("curves", SCHEMA_VERSION, f"compacted-{digest}", first.task, first.baseline, None, ())
    if curves:
        file = sealed(curves, seal, ENCODINGS["curves"](curves[0]))
        store.files.write(f"curves/{seal.name}", file.data)
        mark = file.mark
    seal = dataclasses.replace(seal, kind="trials", curves=mark, members=tuple(members))
    together = pa.concat_tables([IN_FILE["trials"].empty_table(), *rows], promote_options="default")
    file = sealed([together.combine_chunks()], seal, {"compression": "zstd"})
    store.files.write(f"trials/{seal.name}", file.data)
    for entry in entries:
        retire(store.files, entry.seal.name, entry.data)
    return True


def _table(data: bytes) -> pa.Table:
    return pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False).replace_schema_metadata(None)


def _tidied(store: Store, alone: bool) -> int:
    """Completes earlier, unfinished compactions; returns how many files were removed.

    Args:
        store: The store.
        alone: Whether this process is known to be the only one that compacts.
    """
    compacted = {entry.seal.trial_id: entry.seal for entry in store.entries() if entry.place is not None}
    removed = 0
    rows = store.files.listing("trials")
    for path in rows:
        standing = None if is_compacted(path) else compacted.get(title(path))
        data = None if standing is None else store.files.read(path)
        if standing is not None and data is not None:
            # A row that was damaged since the store was read is for the next reader to set aside.
            with contextlib.suppress(DamagedError):
                if RANK[unsealed(data, "trials").status] <= RANK[standing.status]:
                    removed += retire(store.files, standing.name, data)
    long_ago = (time.time() - LEFTOVER_SECONDS) * 1e9
    for path, state in store.files.listing("curves").items():
        row = path.replace("curves/", "trials/", 1)
        ours = row not in rows and (is_compacted(path) or title(path) in compacted)
        # Another process may be about to publish the row of these curves, unless only this process could.
        abandoned = state.modified < long_ago or (alone and is_compacted(path))
        if ours and abandoned and store.files.read(row) is None:
            store.files.delete(path)
            removed += 1
    return removed
