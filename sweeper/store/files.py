"""Files under one root that are either whole or not there, on a local disk or in an object store.

A local file is written under a hidden temporary name, flushed to the disk, renamed to its final name, and its folder
is flushed too. In an object store the one PUT to the final key is all of that at once. So a reader never meets half
a file, and a crash at any moment leaves the old file, the new file, or a hidden leftover that no reader looks at.

A folder of results may come from a stranger. Names are relative to the root and cannot climb out of it, and on a local
disk symbolic links below the root are neither read nor written through. (The root itself may be a link: the user gave
it.)
"""

import abc
import contextlib
import errno
import fcntl
import logging
import os
import posixpath
import re
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

import pyarrow as pa
from pyarrow import fs

from sweeper.messages import redacted

logger = logging.getLogger(__name__)

LEFTOVER_SECONDS = 3600
"""A temporary file of this age that nobody holds has lost its writer: writing takes seconds at most."""


class StoreError(RuntimeError):
    """A store that cannot be opened, read or written; the message is written for its user."""


class FileState(NamedTuple):
    """What is known of a file without opening it: bytes, and when it was modified in nanoseconds of any one clock."""

    size: int
    modified: int


class DurableFiles(abc.ABC):
    """The operations a store needs, with the same meaning on every file system.

    Attributes:
        url: Absolute address that another process can open.
        filesystem: The pyarrow file system.
        root: Path of the store inside that file system.
    """

    def __init__(self, url: str, filesystem: fs.FileSystem, root: str) -> None:
        self.url = url
        self.filesystem = filesystem
        self.root = root

    def __reduce__(self) -> tuple[Callable[[str], "DurableFiles"], tuple[str]]:
        # Another machine finds its own credentials; those of this process do not travel.
        return open_files, (self.url,)

    def path(self, relative: str) -> str:
        """The file's path inside the file system.

        Raises:
            StoreError: the name is absolute or climbs out of the root.
        """
        parts = PurePosixPath(relative).parts
        if not parts or relative.startswith("/") or ".." in parts or "\0" in relative:
            raise StoreError(f"{relative!r} is not the name of a file inside a store")
        return posixpath.join(self.root, *parts)

    @abc.abstractmethod
    def exists(self) -> bool:
        """Whether the root is there; one that was never written to may not be."""

    @abc.abstractmethod
    def listing(self, folder: str) -> dict[str, "FileState"]:
        """Every file at any depth below `folder`, by name relative to the root, hidden ones aside."""

    @abc.abstractmethod
    def folders(self, folder: str) -> list[str]:
        """Names relative to the root of the folders directly inside `folder`, in alphabetical order."""

    @abc.abstractmethod
    def read(self, relative: str) -> bytes | None:
        """Content of a file, None where there is none."""

    @abc.abstractmethod
    def write(self, relative: str, data: bytes, keep: Callable[[bytes], bool] | None = None) -> bool:
        """Publish a whole file and make it last.

        Args:
            relative: Name relative to the root; folders are made as needed.
            data: The content.
            keep: Called with the content of a file already there; if it says so, that file stays. On a local disk the
                answer and the replacement are one step; object stores offer no such step.

        Returns:
            Whether `data` was published.

        Raises:
            StoreError: the file system refused, for instance because it is full or read-only. Nothing is left behind.
        """

    @abc.abstractmethod
    def delete(self, relative: str, only: bytes | None = None) -> bool:
        """Remove a file; one that is not there is as good as removed.

        Args:
            relative: Name relative to the root.
            only: Remove it only if this is its content. On a local disk no writer can come between the look and the
                removal; object stores offer no such step.

        Returns:
            False if the file has another content, and stays.
        """

    @abc.abstractmethod
    def move(self, relative: str, target: str) -> None:
        """Give a file another name, replacing what has it; one that is gone was taken by somebody else."""

    @abc.abstractmethod
    def remove_leftovers(self) -> None:
        """Delete what crashed writers left behind, and nothing that a writer still holds."""

    @abc.abstractmethod
    def exclusively(self) -> contextlib.AbstractContextManager[Literal["held", "taken", "unknown"]]:
        """Try to hold the whole store, without waiting.

        Yields:
            Whether it is held now, or taken by a process that lives, or whether nobody can tell, as in object stores.
        """


@contextlib.contextmanager
def _explained(action: str, what: str) -> Iterator[None]:
    """Turns an operating system's error into one sentence."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        # Some of pyarrow's own sentences repeat the URL.
        raise StoreError(redacted(f"cannot {action} {what}: {reason}")) from None


class LocalFiles(DurableFiles):
    """Files of a local disk, or of any network file system that is mounted like one."""

    @classmethod
    def at(cls, folder: str | Path) -> "LocalFiles":
        """The files below a folder, which need not exist yet."""
        root = os.path.realpath(Path(folder).expanduser())
        return cls(root, fs.LocalFileSystem(), root)

    def exists(self) -> bool:
        return os.path.isdir(self.root)

    def listing(self, folder: str) -> dict[str, FileState]:
        found: dict[str, FileState] = {}
        start = self.path(folder)
        with _explained("list", start):
            if self._is_plain(start):
                self._walk(start, found)
        return found

    def _walk(self, folder: str, found: dict[str, FileState]) -> None:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except FileNotFoundError:
            return
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_symlink():
                logger.warning("%r is a symbolic link: ignored", entry.path)
            elif entry.is_dir():
                self._walk(entry.path, found)
            else:
                # Set aside or replaced since the folder was read: then there is nothing to list.
                with contextlib.suppress(FileNotFoundError):
                    if entry.is_file():
                        status = entry.stat(follow_symlinks=False)
                        found[entry.path[len(self.root) + 1 :]] = FileState(status.st_size, status.st_mtime_ns)

    def folders(self, folder: str) -> list[str]:
        start = self.path(folder)
        with _explained("list", start):
            if not self._is_plain(start) or not os.path.isdir(start):
                return []
            names = [entry.name for entry in os.scandir(start) if entry.is_dir(follow_symlinks=False)]
        return [f"{folder}/{name}" for name in sorted(names)]

    def _is_plain(self, path: str) -> bool:
        """Whether no part of the path below the root is a symbolic link."""
        return os.path.realpath(path) == path

    def read(self, relative: str) -> bytes | None:
        path = self.path(relative)
        with _explained("read", path):
            # A pipe or a device would block or never end.
            if not self._is_plain(path) or not os.path.isfile(path):
                return None
            try:
                with open(path, "rb") as file:
                    return file.read()
            except FileNotFoundError:
                return None

    def write(self, relative: str, data: bytes, keep: Callable[[bytes], bool] | None = None) -> bool:
        path = self.path(relative)
        folder, name = os.path.split(path)
        temporary = os.path.join(folder, f".{name}.{secrets.token_hex(8)}.tmp")
        with _explained("write", path):
            self._make_folder(folder)
            try:
                with open(temporary, "xb") as file, _locked(file.fileno()):
                    # The lock tells whoever sweeps, whatever the clocks say, that the file still has its writer.
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                with _folder(folder) as descriptor:
                    with _locked(descriptor):
                        if keep is not None and (present := self.read(relative)) is not None and keep(present):
                            return False
                        os.replace(temporary, path)
                    os.fsync(descriptor)
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
        return True

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

    def delete(self, relative: str, only: bytes | None = None) -> bool:
        path = self.path(relative)
        folder = os.path.dirname(path)
        with _explained("delete", path), contextlib.suppress(FileNotFoundError):
            if self._is_plain(folder):
                with _folder(folder) as descriptor, _locked(descriptor):
                    if only is not None and self.read(relative) not in (None, only):
                        return False
                    os.unlink(path)
        return True

    def move(self, relative: str, target: str) -> None:
        path, final = self.path(relative), self.path(target)
        with _explained("move", path):
            self._make_folder(os.path.dirname(final))
            if self._is_plain(os.path.dirname(path)):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(path, final)

    def remove_leftovers(self) -> None:
        limit = time.time() - LEFTOVER_SECONDS
        for folder, _, names in os.walk(self.root):
            for name in names:
                if _TEMPORARY.fullmatch(name):
                    path = os.path.join(folder, name)
                    # Another process may sweep too, and a read-only store keeps its leftovers.
                    with contextlib.suppress(OSError):
                        if os.lstat(path).st_mtime < limit and not _held(path):
                            os.unlink(path)

    @contextlib.contextmanager
    def exclusively(self) -> Iterator[Literal["held", "taken", "unknown"]]:
        with _folder(self.root) as descriptor:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                yield "taken" if error.errno == errno.EWOULDBLOCK else "unknown"
            else:
                yield "held"  # until the descriptor is closed, by whatever ends this process


_TEMPORARY = re.compile(r"\..*\.[0-9a-f]{16}\.tmp")


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
    """Holds the lock of an open file or folder; the system releases it when its owner dies, however that happens."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        # Some network file systems know no locks; there the check before a replacement is as good as an object store's.
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL):
            raise
        yield
        return
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class ObjectFiles(DurableFiles):
    """Objects of a bucket, by any file system of pyarrow whose writes appear as a whole when they are closed."""

    def exists(self) -> bool:
        with _explained("open", self.root):
            selector = fs.FileSelector(self.root, allow_not_found=True)
            return bool(self.filesystem.get_file_info(selector))

    def _infos(self, folder: str, recursive: bool) -> list[tuple[str, fs.FileInfo]]:
        selector = fs.FileSelector(self.path(folder), allow_not_found=True, recursive=recursive)
        with _explained("list", selector.base_dir):
            infos = self.filesystem.get_file_info(selector)
        prefix = len(self.root) + 1
        return sorted((info.path[prefix:], info) for info in infos)

    def listing(self, folder: str) -> dict[str, FileState]:
        return {
            name: FileState(info.size, info.mtime_ns or 0)
            for name, info in self._infos(folder, recursive=True)
            if info.type == fs.FileType.File and not any(part.startswith(".") for part in name.split("/"))
        }

    def folders(self, folder: str) -> list[str]:
        return [name for name, info in self._infos(folder, recursive=False) if info.type == fs.FileType.Directory]

    def read(self, relative: str) -> bytes | None:
        path = self.path(relative)
        with _explained("read", path):
            try:
                with self.filesystem.open_input_file(path) as file:
                    return file.read()
            except FileNotFoundError:
                return None

    def write(self, relative: str, data: bytes, keep: Callable[[bytes], bool] | None = None) -> bool:
        if keep is not None and (present := self.read(relative)) is not None and keep(present):
            return False
        path = self.path(relative)
        with _explained("write", path), self.filesystem.open_output_stream(path, compression=None) as stream:
            stream.write(data)
        return True

    def delete(self, relative: str, only: bytes | None = None) -> bool:
        if only is not None and self.read(relative) not in (None, only):
            return False
        path = self.path(relative)
        with _explained("delete", path), contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_file(path)
        return True

    def move(self, relative: str, target: str) -> None:
        path, final = self.path(relative), self.path(target)
        with _explained("move", path):
            if self.filesystem.get_file_info(path).type == fs.FileType.File:
                self.filesystem.move(path, final)

    def remove_leftovers(self) -> None:
        """Nothing: an object appears whole or not at all."""

    @contextlib.contextmanager
    def exclusively(self) -> Iterator[Literal["held", "taken", "unknown"]]:
        yield "unknown"


def open_files(url: str | Path) -> DurableFiles:
    """The files below a local folder or a URL such as `s3://bucket/results`.

    Raises:
        StoreError: the scheme is unknown, or the address makes no sense.
    """
    text = str(url)
    if "://" not in text:
        return LocalFiles.at(text)
    if text.startswith("s3://") and "allow_delayed_open=" not in text:
        # Without it pyarrow opens a multipart upload even for a kilobyte; with it a small file is a single PUT.
        text += "&allow_delayed_open=true" if "?" in text else "?allow_delayed_open=true"
    with _explained("open", text):
        filesystem, root = fs.FileSystem.from_uri(text)
    if isinstance(filesystem, fs.LocalFileSystem):
        return LocalFiles.at(root)
    if not root.strip("/"):
        raise StoreError(f"{redacted(text)} names no bucket")
    return ObjectFiles(text, filesystem, root.rstrip("/"))
