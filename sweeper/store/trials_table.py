"""The rows of committed trials as the table `trials`."""

from collections import defaultdict
from collections.abc import Sequence

import pyarrow as pa

from sweeper.store.committed_rows import Entry
from sweeper.store.decoded_rows import decoded_rows
from sweeper.store.quarantine import Damage
from sweeper.store.schema import IN_FILE, PARTITION, TRIALS
from sweeper.store.threads import in_threads


def trials_table(entries: Sequence[Entry]) -> tuple[pa.Table, list[Damage]]:
    """The rows of the entries as one table with the columns of `TRIALS`, sorted by trial id, without damaged rows."""
    files: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        files[entry.seal.name if entry.place is None else entry.place.file.name].append(entry)
    tables, damage = [IN_FILE["trials"].empty_table()], []
    sound: list[Entry] = []
    for rows, members in zip(in_threads(_rows, list(files.items())), files.values(), strict=True):
        if isinstance(rows, Damage):
            damage.append(rows)
        else:
            tables.append(rows)
            sound += members
    # Rows of an older program lack the newest columns.
    table = pa.concat_tables(tables, promote_options="default").combine_chunks()
    for name in PARTITION.names:
        table = table.append_column(name, pa.array([getattr(entry.seal, name) for entry in sound], pa.string()))
    return table.select(TRIALS.names).sort_by("trial_id"), damage


def _rows(file: tuple[str, list[Entry]]) -> pa.Table | Damage:
    """The rows of the entries that a file holds."""
    name, entries = file
    place = entries[0].place
    if place is None:
        return decoded_rows(entries[0].data, name, [entries[0].seal])
    rows = decoded_rows(entries[0].data, name, place.file.rows)
    return rows if isinstance(rows, Damage) else rows.take([e.place.position for e in entries if e.place is not None])
