"""The operations on files that a store is built on, with the same meaning on a local disk and in an object store.

Invariant: a file is either whole or not there. A reader never meets half a file, and a crash at any moment leaves the
old file, the new file, or a hidden leftover that no reader looks at.

A results folder may come from a stranger. Names are relative to the root of the store and cannot climb out of it.
"""

import abc
import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from pyarrow import fs

from sweeper.messages import UserError
from sweeper.progress import doing

Item = TypeVar("Item")
Result = TypeVar("Result")

LEFTOVER_SECONDS = 3600
"""Age in seconds after which the writer of an unfinished file counts as dead: writing takes seconds at most."""

BUFFER = 64 * 2**10
"""Bytes of a file that are read at a time: nearly every row with its curves is smaller."""

_THREADS = 16


class StoreError(UserError, RuntimeError):
    """A store that cannot be opened, read or written, or is of a newer program; all that uses a store may raise it."""


class FileState(NamedTuple):
    """Bytes of a file, its last modification in nanoseconds, and what differs between two files of one name (empty if
    the store cannot tell)."""

    size: int
    modified: int
    version: str


class DurableFiles(abc.ABC):
    """The files below one root: `url` is an address for other processes, `root` names the place in messages."""

    def __init__(self, url: str, root: str) -> None:
        self.url = url
        self.root = root

    def __reduce__(self) -> tuple[Callable[[str], "DurableFiles"], tuple[str]]:
        # Another machine uses its own credentials; the credentials of this process are not sent to it.
        return type(self).at, (self.url,)

    @classmethod
    @abc.abstractmethod
    def at(cls, address: Any) -> "DurableFiles":
        """The files at an address of this kind; nothing is read or made."""

    @property
    @abc.abstractmethod
    def filesystem(self) -> fs.FileSystem:
        """A file system of pyarrow in which the files lie below `root`, for readers that scan them in place."""

    @abc.abstractmethod
    def exists(self) -> bool:
        """Whether there is a folder, or anything in a bucket. The first write makes the root."""

    @abc.abstractmethod
    def listing(self, folder: str) -> dict[str, FileState]:
        """Every file at any depth below `folder` by its name relative to the root; hidden files are left out."""

    @abc.abstractmethod
    def read(self, relative: str) -> bytes | None:
        """Content of a file, None where there is none."""

    @abc.abstractmethod
    def parsed(self, relative: str, parse: Callable[[pa.NativeFile], Result], piece: int = BUFFER) -> Result | None:
        """The result of a parser that reads parts of a file; None where there is none.

        A bucket is asked for at least `piece` bytes at a time, those at the end of the file first.

        If the file is replaced meanwhile, the parser may read parts of both. An error of the disk or the server is a
        `StoreError`, also where the parser meets it.
        """

    @abc.abstractmethod
    def write(self, relative: str, data: bytes, keep: Callable[[bytes | None], bool] | None = None) -> bool:
        """Publish a whole file durably; folders are made as needed. Returns whether it was published.

        `keep` is called with the content of the file that has the name already, None without one. If it returns True,
        all stays as it is. The answer and the replacement are one step, but in object stores without conditional PUT
        and on disks without locks.
        """

    @abc.abstractmethod
    def delete(self, relative: str) -> None:
        """Remove a file, if it is there."""

    @abc.abstractmethod
    def move(self, relative: str, target: str) -> None:
        """Rename a file; if the target is taken, random digits make its name another one.

        Nothing happens if the file is no longer there.
        """

    @abc.abstractmethod
    def remove_leftovers(self) -> None:
        """Delete the unfinished files of writers that count as dead."""


def within(relative: str) -> str:
    """The name of a file inside a store, in its plain form; refused if it is absolute or climbs out of the root."""
    parts = PurePosixPath(relative).parts
    if not parts or relative.startswith("/") or ".." in parts or "\0" in relative:
        raise StoreError(f"{relative!r} is not the name of a file inside a store")
    return "/".join(parts)


@contextlib.contextmanager
def explained(action: str, what: str) -> Iterator[None]:
    """Turn an error of the operating system into a `StoreError`."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"cannot {action} {what}: {error.strerror or error}") from None


def in_threads(function: Callable[[Item], Result], items: Sequence[Item], words: str = "reading files") -> list[Result]:
    """`function` of every item, in the order of the items; it mostly waits for the disk or the network.

    `words` say what it does, to people who wait.
    """
    with ThreadPoolExecutor(_THREADS) as threads, doing(words, len(items)) as activity:
        return [activity.after(result) for result in threads.map(function, items)]
