"""Rows that are to be computed again by other code are moved below `superseded/`, and their trials are pending again.

    superseded/<fingerprint>/trials/…   curves/…   outcomes/…   networks/…

Files stay as they were; the folder has the fingerprint of the code that made them.

The row of a trial moves first, so a crash in between leaves a pending trial and at most details without a row, which no
reader looks at.
"""

from collections.abc import Iterable

from sweeper.store.compacted_files import dissolve_holders
from sweeper.store.file_names import file_path
from sweeper.store.schema import FILE_KINDS
from sweeper.store.store import Store

UNKNOWN = "unknown"
"""Folder of rows whose code is not known."""


def supersede(store: Store, trial_ids: Iterable[str]) -> None:
    """Move the rows of trials with all that belongs to them; compacted files that hold such rows are dissolved first.

    Raises:
        StoreError: the store cannot be written, another process is compacting it, or a compacted file is damaged.
    """
    files, rows = store.files, store.entries(trial_ids)
    dissolve_holders(files, rows)
    for entry in rows:
        for kind in FILE_KINDS:
            name = file_path(kind, entry.seal.name)
            files.move(name, f"superseded/{entry.seal.fingerprint or UNKNOWN}/{name}")
