"""The operations on files that a store is built on, with the same meaning on a local disk and in an object store.

Invariant: a file is either whole or not there. A reader never meets half a file, and a crash at any moment leaves the
old file, the new file, or a hidden leftover that no reader looks at.

A results folder may come from a stranger. Names are relative to the root of the store and cannot climb out of it.
"""

import abc
import contextlib
import dataclasses
import errno
import itertools
import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from pyarrow import fs

from sweeper.messages import UserError
from sweeper.progress import doing

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")

LEFTOVER_SECONDS = 3600
"""Age in seconds after which the writer of an unfinished file counts as dead: writing takes seconds at most."""

FIRST_WAIT, LONGEST_WAIT = 1.0, 30.0
"""Seconds of the first wait for a store in trouble, which doubles, and of the longest."""

LOOKS, FIRST_PAUSE = 10, 0.01
"""How often an operation looks at a file that others change, and seconds of its first pause, which doubles."""

LARGEST_TEXT, LARGEST_FILE = 2**28, 2**34
"""Bytes of the largest file of JSON or of a plan that is read, and of the largest of all others."""

_THREADS = 16
_PROBES, _QUICK = 8, 0.0005


class StoreError(UserError, RuntimeError):
    """A store that cannot be opened, read or written, or is of a newer program; all that uses a store may raise it."""


class StoreTrouble(StoreError):
    """An operation that failed because the store was busy or could not be reached, and that may succeed later."""


@dataclasses.dataclass(frozen=True)
class Retries:
    """For how many seconds an operation waits for a store in trouble; the clock and the sleep are for tests."""

    seconds: float = 300.0
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def until_done(self, operation: Callable[[], Result]) -> Result:
        """The result of an operation, or its last `StoreTrouble` if the trouble does not end."""
        end, longest = self.clock() + self.seconds, FIRST_WAIT
        while True:
            try:
                return operation()
            except StoreTrouble as error:
                # Workers that met the same trouble must not come back at the same moment.
                wait = longest * random.uniform(0.5, 1.0)
                if self.clock() + wait > end:
                    raise
                if longest == FIRST_WAIT:
                    logger.warning("%s; trying again for %.0f s", error, self.seconds)
                longest = min(2 * longest, LONGEST_WAIT)
                self.sleep(wait)


class Replaced(StoreTrouble):
    """A file that was replaced while parts of it were read; to be read again."""


class TooLargeError(StoreError, ValueError):
    """A file that no program of ours has written, because it is larger than any of them; it is not read."""


def looks() -> Iterator[int]:
    """The looks at a file that others change meanwhile, with pauses between them; after the last it is `unsettled`."""
    for look in range(LOOKS):
        yield look
        time.sleep(random.uniform(0.5, 1.0) * FIRST_PAUSE * 2**look)


def unsettled(what: str) -> StoreTrouble:
    return StoreTrouble(
        f"{what} was another file at each of {LOOKS} looks: others write it all the time, or the server's answers "
        "about the version of a file (ETag, If-Match) do not fit each other"
    )


def check_size(relative: str, size: int) -> None:
    """Refuse to read a file of this size with a `TooLargeError` if no program of ours has written it."""
    largest = LARGEST_TEXT if relative.endswith((".json", ".txt")) else LARGEST_FILE
    if size > largest:
        raise TooLargeError(f"{relative!r} has {size:,} bytes, and at most {largest:,} are read")


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
        """Whether there is a store, or an empty folder for one. The first write makes the root."""

    @abc.abstractmethod
    def listing(self, folder: str) -> dict[str, FileState]:
        """Every file at any depth below `folder` by its name relative to the root; hidden files are left out."""

    @abc.abstractmethod
    def folders(self, folder: str) -> list[str]:
        """Names relative to the root of the folders directly inside `folder`, in alphabetical order."""

    @abc.abstractmethod
    def read(self, relative: str) -> bytes | None:
        """Content of a file, None where there is none; a `TooLargeError` if `check_size` refuses it."""

    @abc.abstractmethod
    def opened(self, relative: str) -> pa.NativeFile | None:
        """A file to read parts of; None where there is none. Parts of another file are never read: see `Replaced`."""

    def parsed(self, relative: str, parse: Callable[[pa.NativeFile], Result]) -> Result | None:
        """The result of a parser that reads parts of a file; None where there is none."""
        for _ in looks():
            if (file := self.opened(relative)) is None:
                return None
            with contextlib.suppress(Replaced), file:
                return parse(file)
        raise unsettled(relative)

    @abc.abstractmethod
    def write(self, relative: str, data: bytes, keep: Callable[[bytes | None], bool] | None = None) -> bool:
        """Publish a whole file durably; folders are made as needed. Returns whether it was published.

        `keep` is called with the content of the file that has the name already, None without one, and nothing of one
        that is too large to be read. If it returns True,
        all stays as it is. The answer and the replacement are one step, but in object stores without conditional PUT.
        A file that was not seen is not replaced: if the name turns out to be taken, `keep` is called again.
        """

    def update(self, relative: str, change: Callable[[bytes | None], bytes | None]) -> None:
        """Replace a file by what `change` makes of its content (None without a file), or leave it if that is None.

        If another process writes the file meanwhile, `change` is called again with what that has written.
        """
        for _ in looks():
            present = self.read(relative)
            new = change(present)
            if new in (None, present) or self.write(relative, new, keep=lambda now, present=present: now != present):
                return
        raise unsettled(relative)

    @abc.abstractmethod
    def delete(self, relative: str, keep: Callable[[], bool] | None = None) -> None:
        """Remove a file, if it is there, unless `keep` returns True; on a disk that is one step."""

    @abc.abstractmethod
    def move(self, relative: str, target: str) -> None:
        """Rename a file, which gets the first of the names `numbered(target)` that is free.

        Nothing happens if the file is no longer there.
        """

    @abc.abstractmethod
    def remove_leftovers(self) -> None:
        """Delete the files that crashed writers left behind; files that a writer still holds stay."""


def within(relative: str) -> str:
    """The name of a file inside a store, in its plain form; refused if it is absolute or climbs out of the root."""
    parts = PurePosixPath(relative).parts
    if not parts or relative.startswith("/") or ".." in parts or "\0" in relative:
        raise StoreError(f"{relative!r} is not the name of a file inside a store")
    return "/".join(parts)


def numbered(name: str) -> Iterator[str]:
    """A name and further ones, such as `a/b.parquet`, `a/b-2.parquet`, `a/b-3.parquet`."""
    path = PurePosixPath(name)
    return (name if number == 1 else f"{path.with_stem(f'{path.stem}-{number}')}" for number in itertools.count(1))


@contextlib.contextmanager
def explained(action: str, what: str) -> Iterator[None]:
    """Turn an error of the operating system into a `StoreTrouble` if it may pass, into a `StoreError` if not."""
    try:
        yield
    except OSError as error:
        passing = error.errno in _PASSING
        raise (StoreTrouble if passing else StoreError)(f"cannot {action} {what}: {error.strerror or error}") from None


_PASSING = {
    errno.EIO, errno.EAGAIN, errno.EBUSY, errno.ESTALE, errno.ETIMEDOUT, errno.ENETDOWN, errno.ENETUNREACH,
    errno.ENETRESET, errno.ECONNABORTED, errno.ECONNRESET, errno.ECONNREFUSED, errno.EHOSTDOWN, errno.EHOSTUNREACH,
}  # fmt: skip
"""Errors of network file systems whose server is away. A full or read-only disk is not among them."""


def in_threads(function: Callable[[Item], Result], items: Sequence[Item], words: str = "reading files") -> list[Result]:
    """`function` of every item, in the order of the items; it mostly waits for the disk or the network.

    `words` say what it does, to people who wait.
    """
    first, waits = [], []
    for item in items[:_PROBES]:
        begun = time.perf_counter() - time.thread_time()
        first.append(function(item))
        waits.append(time.perf_counter() - time.thread_time() - begun)
    rest = items[_PROBES:]
    with contextlib.ExitStack() as stack:
        results = map(function, rest)
        if len(rest) >= 2 and min(waits) >= _QUICK:
            # On a warm disk nothing waits, and threads would only get into each other's way.
            results = stack.enter_context(ThreadPoolExecutor(_THREADS)).map(function, rest)
        activity = stack.enter_context(doing(words, len(rest)))
        return first + [activity.after(result) for result in results]
