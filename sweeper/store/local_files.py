"""Files of a local disk that are whole or not there.

A file is written in a hidden folder, flushed to the disk, renamed to its final name, and the folder of that name is
flushed too. Locks belong to the operating system, which releases them when their owner dies.

A network disk may show no file for a moment where there is one. So "not there" does not mean that the name is free: a
file that replaces none is linked to its name, which fails if the name is taken.

Symbolic links below the root are neither read nor written through. (The root itself may be a link: the user gave it.)
"""

import contextlib
import errno
import fcntl
import io
import logging
import operator
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from sweeper.store.files import (
    LEFTOVER_SECONDS,
    DurableFiles,
    FileState,
    StoreError,
    TooLargeError,
    check_size,
    explained,
    looks,
    numbered,
    unsettled,
    within,
)

logger = logging.getLogger(__name__)


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
        with explained("list", self.root):
            names = os.listdir(self.root) if os.path.isdir(self.root) else ["nothing"]
        known = {"annotations", "annotations.json", "snapshots", "sweeps", "trials"}
        return not known.isdisjoint(names) or all(name.startswith(".") for name in names)

    def listing(self, folder: str) -> dict[str, FileState]:
        listed: dict[str, FileState] = {}
        start = self.path(folder)
        with explained("list", start):
            waiting = [start] if self._is_plain(start) else []
            while waiting:
                waiting += self._list(waiting.pop(), listed)
        return listed

    def _list(self, folder: str, listed: dict[str, FileState]) -> list[str]:
        """Adds the files directly inside a folder to `listed`; returns the folders inside it."""
        try:
            with os.scandir(folder) as found:  # closed also after Ctrl-C
                entries = sorted(found, key=operator.attrgetter("name"))
        except FileNotFoundError:
            return []
        folders, place = [], folder[len(self.root) + 1 :]
        for entry in entries:
            name = entry.name
            if name[0] == ".":
                continue
            if entry.is_symlink():
                logger.warning("%r is a symbolic link: ignored", entry.path)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            else:
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # set aside or replaced since the folder was read
                if stat.S_ISREG(status.st_mode):
                    # A file that replaces another has another number, also in the same tick of the clock.
                    version = f"{status.st_ctime_ns}-{status.st_ino}"
                    state = FileState(status.st_size, status.st_mtime_ns, version)
                    listed[f"{place}/{name}" if place else name] = state
        return folders

    def folders(self, folder: str) -> list[str]:
        start = self.path(folder)
        with explained("list", start):
            if not self._is_plain(start) or not os.path.isdir(start):
                return []
            names = [entry.name for entry in os.scandir(start) if entry.is_dir(follow_symlinks=False)]
        return [f"{folder}/{name}" for name in sorted(names)]

    def _is_plain(self, path: str) -> bool:
        """Whether no part of the path below the root is a symbolic link."""
        return os.path.realpath(path) == path

    def read(self, relative: str) -> bytes | None:
        if (file := self._opened(relative)) is None:
            return None
        with file:
            check_size(relative, os.fstat(file.fileno()).st_size)
            return file.read()

    def opened(self, relative: str) -> pa.NativeFile | None:
        if (file := self._opened(relative)) is None:
            return None
        if os.fstat(file.fileno()).st_size > _BUFFER:
            return pa.PythonFile(file, "r")
        with file:  # pyarrow reads a row in sixty small parts, fastest from memory
            return pa.BufferReader(file.read())

    def _opened(self, relative: str) -> io.BufferedReader | None:
        path = self.path(relative)
        with explained("read", path), contextlib.suppress(FileNotFoundError):
            # A pipe or a device would block or never end.
            if self._is_plain(path) and os.path.isfile(path):
                return io.BufferedReader(_File(path), _BUFFER)
        return None

    def write(self, relative: str, data: bytes, keep: Callable[[bytes | None], bool] | None = None) -> bool:
        path = self.path(relative)
        folder, name = os.path.split(path)
        # Some tools read hidden files as well: what is not yet whole lies beside the folders that they read.
        unfinished = os.path.join(self.root, _UNFINISHED)
        temporary = os.path.join(unfinished, f"{name}.{secrets.token_hex(8)}")
        with explained("write", path):
            self._make_folder(folder)
            self._make_folder(unfinished)
            try:
                with open(temporary, "xb") as file, _locked(file.fileno()):
                    # The lock shows `remove_leftovers`, also after jumps of clocks, that the file still has its writer.
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                with _folder(folder) as descriptor:
                    with _locked(descriptor):
                        if keep is None:
                            os.replace(temporary, path)
                        elif not self._replaces(temporary, relative, keep):
                            return False
                    os.fsync(descriptor)
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
        return True

    def _replaces(self, temporary: str, relative: str, keep: Callable[[bytes | None], bool]) -> bool:
        """Give a file its name, unless `keep` says otherwise about the file of that name; whether the name is its."""
        path = self.path(relative)
        for _ in looks():
            try:
                present = self.read(relative)
            except TooLargeError:
                present = b""
            if keep(present):
                return False
            if present is not None or os.path.islink(path) or not _linked(temporary, path):
                os.replace(temporary, path)
                return True
            if os.stat(temporary).st_nlink > 1:
                return True
        raise unsettled(path)

    def _make_folder(self, folder: str) -> None:
        if not self._is_plain(folder):
            raise StoreError(f"{folder!r} is reached through a symbolic link: nothing is written there")
        if os.path.isdir(folder):
            return
        parent = os.path.dirname(folder)
        self._make_folder(parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
        with _folder(parent) as descriptor:
            os.fsync(descriptor)

    def delete(self, relative: str, keep: Callable[[], bool] | None = None) -> None:
        path = self.path(relative)
        folder = os.path.dirname(path)
        with explained("delete", path), contextlib.suppress(FileNotFoundError):
            if self._is_plain(folder):
                with _folder(folder) as descriptor, _locked(descriptor):
                    if keep is None or not keep():
                        os.unlink(path)

    def move(self, relative: str, target: str) -> None:
        path, final = self.path(relative), self.path(target)
        with explained("move", path):
            self._make_folder(os.path.dirname(final))
            if not self._is_plain(os.path.dirname(path)) or not os.path.lexists(path):
                return
            for name in numbered(final):
                # An empty file takes the name; where it is left behind, nobody looks for data.
                with contextlib.suppress(FileExistsError):
                    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
                    try:
                        os.replace(path, name)
                    except FileNotFoundError:
                        os.unlink(name)
                    return

    def remove_leftovers(self) -> None:
        limit = time.time() - LEFTOVER_SECONDS
        folder = os.path.join(self.root, _UNFINISHED)
        # Another process may remove them too, and a read-only store keeps its leftovers.
        with contextlib.suppress(OSError):
            for path in [entry.path for entry in os.scandir(folder)] if self._is_plain(folder) else []:
                with contextlib.suppress(OSError):
                    if os.lstat(path).st_mtime < limit and not _held(path):
                        os.unlink(path)


_UNFINISHED = ".unfinished"  # folder of files that are being written
_BUFFER = 64 * 2**10  # bytes that are read at a time; nearly every row with its curves is smaller


class _File(io.FileIO):
    """An open file. A disk in trouble is not taken for a damaged file: its error is no `OSError`."""

    def readinto(self, buffer: Any) -> int | None:
        with explained("read", str(self.name)):
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with explained("read", str(self.name)):
            return super().readall()


def _linked(source: str, path: str) -> bool:
    """Give a file another name, if that is free; False on a disk without links.

    Whether the name was free shows the number of the file's names: the server of a disk may have answered twice.
    """
    try:
        os.link(source, path)
    except FileExistsError:
        return True
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        return False
    return True


def _held(path: str) -> bool:
    """Whether a process holds the lock of a file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno == errno.EWOULDBLOCK
    finally:
        os.close(descriptor)
    return False


@contextlib.contextmanager
def _folder(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    """Holds the lock of an open file or folder; the system releases the lock when its owner dies."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        # Some network file systems have no locks; a check before a replacement is then two steps, as in object stores.
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL):
            raise
        yield
        return
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
