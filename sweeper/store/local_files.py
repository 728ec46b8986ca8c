"""Files of a local disk that are whole or not there.

A file is written in a hidden folder, flushed to the disk, renamed to its final name, and the folder of that name is
flushed too. Between the look at a file and its replacement the folder is locked. Locks belong to the operating system,
which releases them when their owner dies.
"""

import contextlib
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from sweeper.store.files import BUFFER, LEFTOVER_SECONDS, DurableFiles, FileState, Result, explained, within

_UNFINISHED = ".unfinished"
"""The folder of files that are being written. Some tools read hidden files as well; they read other folders."""


class LocalFiles(DurableFiles):
    """Files of a local disk, or of any network file system that is mounted like one."""

    @classmethod
    def at(cls, address: str | Path) -> "LocalFiles":
        """The files below a folder, which need not exist."""
        root = os.path.realpath(address)
        return cls(root, root)

    @property
    def filesystem(self) -> fs.FileSystem:
        return fs.LocalFileSystem()

    def path(self, relative: str) -> str:
        return os.path.join(self.root, within(relative))

    def exists(self) -> bool:
        return os.path.isdir(self.root)

    def listing(self, folder: str) -> dict[str, FileState]:
        listed: dict[str, FileState] = {}
        waiting = [self.path(folder)]
        with explained("list", waiting[0]):
            while waiting:
                with contextlib.suppress(FileNotFoundError), os.scandir(waiting.pop()) as found:
                    for entry in found:
                        if entry.name.startswith("."):
                            continue
                        if entry.is_dir():
                            waiting.append(entry.path)
                            continue
                        with contextlib.suppress(FileNotFoundError):  # set aside or replaced since the folder was read
                            status = entry.stat()
                            if stat.S_ISREG(status.st_mode):
                                # A file that replaces another has another number, also in the same tick of the clock.
                                version = f"{status.st_ctime_ns}-{status.st_ino}"
                                name = entry.path[len(self.root) + 1 :]
                                listed[name] = FileState(status.st_size, status.st_mtime_ns, version)
        return dict(sorted(listed.items()))

    def read(self, relative: str) -> bytes | None:
        path = self.path(relative)
        with explained("read", path), contextlib.suppress(FileNotFoundError):
            return Path(path).read_bytes()
        return None

    def parsed(self, relative: str, parse: Callable[[pa.NativeFile], Result], piece: int = BUFFER) -> Result | None:
        path = self.path(relative)
        with explained("read", path):
            try:
                large = os.path.getsize(path) > BUFFER
                # pyarrow reads a row in sixty small parts, fastest from memory
                file = pa.OSFile(path) if large else pa.BufferReader(Path(path).read_bytes())
            except FileNotFoundError:
                return None
            with file:
                return parse(file)

    def write(self, relative: str, data: bytes, keep: Callable[[bytes | None], bool] | None = None) -> bool:
        path, unfinished = self.path(relative), os.path.join(self.root, _UNFINISHED)
        folder, name = os.path.split(path)
        temporary = os.path.join(unfinished, f"{name}.{secrets.token_hex(8)}")
        with explained("write", path):
            os.makedirs(folder, exist_ok=True)
            os.makedirs(unfinished, exist_ok=True)
            try:
                with open(temporary, "xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                with _locked(folder) as descriptor:
                    if keep is not None and keep(self.read(relative)):
                        return False
                    os.replace(temporary, path)
                    os.fsync(descriptor)
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
        return True

    def delete(self, relative: str) -> None:
        path = self.path(relative)
        with explained("delete", path), contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def move(self, relative: str, target: str) -> None:
        path, final = self.path(relative), Path(self.path(target))
        with explained("move", path), contextlib.suppress(FileNotFoundError):
            os.makedirs(final.parent, exist_ok=True)
            os.replace(path, final.with_stem(f"{final.stem}-{secrets.token_hex(4)}") if final.exists() else final)

    def remove_leftovers(self) -> None:
        with contextlib.suppress(OSError):  # another process removes them too, and a read-only store keeps its own
            for entry in os.scandir(os.path.join(self.root, _UNFINISHED)):
                if entry.stat().st_mtime < time.time() - LEFTOVER_SECONDS:
                    os.unlink(entry.path)


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[int]:
    """Holds the lock of a folder; gives its descriptor."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # some network disks have no locks: the look is a step of its own there
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)  # which ends the lock
