"""Another name for a sweep: its starts, notes and tags are copied to the new name, and then deleted under the old one.

A renaming that was killed is carried on by the same call: the old name has all starts, or the latest ones. A start that
comes meanwhile stays under the name that it has.
"""

from sweeper.store.annotations import check_annotations, rename_annotations
from sweeper.store.files import DurableFiles, StoreError
from sweeper.store.sweep_records import check_name, history, remove_starts, start_files, write_start


def rename_sweep(files: DurableFiles, old: str, new: str) -> None:
    """Give a sweep another name; refused if the name is taken, maybe meanwhile, or if the sweep cannot be read."""
    check_name(new)
    taken = StoreError(f"there is a sweep {new!r} already")
    paths = start_files(files, old)
    ours = [record.model_copy(update={"name": new}) for record in history(files, old)]
    if not ours:
        raise StoreError(f"the store has no sweep {old!r}")
    check_annotations(files)  # afterwards nothing is refused but a name that was taken meanwhile
    theirs = history(files, new)
    if theirs[-len(ours) :] != ours:
        if theirs != ours[: len(theirs)]:
            raise taken
        missing = enumerate(ours[len(theirs) :], len(theirs) + 1)
        written = [write_start(files, number, record) for number, record in missing]
        if history(files, new) != ours:
            remove_starts(files, new, written)
            raise taken
    rename_annotations(files, old, new)
    remove_starts(files, old, paths)
    rename_annotations(files, old, new)
