"""The rows of committed trials as the table `trials`."""

import itertools
from collections import defaultdict
from collections.abc import Sequence

import pyarrow as pa

from sweeper.store.committed_rows import Entry
from sweeper.store.decoded_rows import decoded_rows
from sweeper.store.quarantine import Damage
from sweeper.store.schema import IN_FILE, PARTITION, TRIALS
from sweeper.store.threads import in_threads

JOINED = 1000
"""Files whose rows are joined at a time; a table of a single row takes tens of kilobytes."""


def trials_table(entries: Sequence[Entry]) -> tuple[pa.Table, list[Damage]]:
    """The rows of the entries as one table with the columns of `TRIALS`, sorted by trial id, without damaged rows."""
    files: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        files[entry.row_file].append(entry)
    tables, damage = [IN_FILE["trials"].empty_table()], []
    sound: list[Entry] = []
    waiting = iter(files.items())
    while group := list(itertools.islice(waiting, JOINED)):
        together = []
        for rows, (_, members) in zip(in_threads(_rows, group), group, strict=True):
            if isinstance(rows, Damage):
                damage.append(rows)
            else:
                together.append(rows)
                sound += members
        tables += [_joined(together)] if together else []
    table = _joined(tables)
    for name in PARTITION.names:
        table = table.append_column(name, pa.array([getattr(entry.seal, name) for entry in sound], pa.string()))
    return table.select(TRIALS.names).sort_by("trial_id"), damage


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """One table of all rows; those of an older program lack the newest columns."""
    return pa.concat_tables(tables, promote_options="default").combine_chunks()


def _rows(file: tuple[str, list[Entry]]) -> pa.Table | Damage:
    """The rows of the entries that a file holds."""
    name, entries = file
    place = entries[0].place
    if place is None:
        return decoded_rows(entries[0].data, name, [entries[0].seal])
    rows = decoded_rows(entries[0].data, name, place.file.rows)
    return rows if isinstance(rows, Damage) else rows.take([e.place.position for e in entries if e.place is not None])
