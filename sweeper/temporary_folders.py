"""The temporary folders of a start: its copy of the project, Tune's files, and Ray's session folder.

A start holds a lock on each of its folders as long as it lives, and a process that is killed holds none. So a start
removes what others of this user have left on this machine, and nothing of a start that still runs. On a disk without
locks nothing is removed.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

LOCK = ".lock"

SHORT = "/tmp"  # noqa: S108 - the folder is private
"""For folders with sockets, whose paths are short; others lie where the environment says."""

Keep = Callable[[Path], bool]


@contextlib.contextmanager
def temporary_folder(what: str, parent: str | None = None, keep: Keep = lambda _: False) -> Iterator[Path]:
    """A folder that only this user can enter; removed at the end, or by a later start if it is to `keep` till then."""
    folder = Path(tempfile.mkdtemp(prefix=f"sweeper-{what}-", dir=parent)).resolve()
    kept = False
    with (folder / ".made").open("w") as lock:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / ".made").rename(folder / LOCK)  # others look for folders with a lock
        try:
            yield folder
            kept = keep(folder)
        finally:
            if not kept:
                _remove(folder)


def remove_those_of_the_dead() -> None:
    """Remove the folders of starts of this user that have ended without doing so."""
    for parent in {tempfile.gettempdir(), SHORT}:
        for place in Path(parent).glob(f"sweeper-*/{LOCK}"):
            with contextlib.suppress(OSError), place.open() as lock:  # of another user, or gone
                if os.fstat(lock.fileno()).st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(place.parent)


def _remove(folder: Path) -> None:
    """Remove a folder, its lock last: what a dying process still writes is left to the next start."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != LOCK:
                os.unlink(entry.path)
        if {entry.name for entry in os.scandir(folder)} <= {LOCK}:
            shutil.rmtree(folder, ignore_errors=True)
