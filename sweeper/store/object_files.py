"""Files in a bucket that are whole or not there: the one PUT to the final key is the publication.

Object stores have no locks. Operations that a local disk does in one step (compare and replace, compare and delete) are
two steps here; the base class names them.
"""

import contextlib
import re
from collections.abc import Callable

import pyarrow as pa
from pyarrow import fs

from sweeper.messages import redacted
from sweeper.store.files import DurableFiles, FileState, StoreError, explained

_ABSENT = re.compile("NO_SUCH_KEY|RESOURCE_NOT_FOUND")
"""The names of an answer 404 in Amazon's client, with and without a text."""


ANSWER_SECONDS = 60.0
"""The longest silence of an S3 server within one request. Its client gives up after 3 s unless told otherwise, and a
busy server takes longer to list a hundred thousand files."""


def _patient(filesystem: fs.S3FileSystem) -> fs.S3FileSystem:
    """The same file system with `ANSWER_SECONDS`, which a URL cannot carry."""
    _, (settings,) = filesystem.__reduce__()  # as for a copy by pickle: every setting by its name
    return fs.S3FileSystem(**settings | {"request_timeout": ANSWER_SECONDS})


class ObjectFiles(DurableFiles):
    """Objects of a bucket, by any file system of pyarrow whose writes appear as a whole when they are closed."""

    @classmethod
    def at(cls, address: str) -> "ObjectFiles":
        """The files below a URL such as `s3://bucket/results`.

        Raises:
            StoreError: the scheme is unknown, or the address names no bucket.
        """
        opened = address
        if address.startswith("s3://"):
            if not address.removeprefix("s3://").partition("?")[0].partition("/")[0]:
                raise StoreError(f"{redacted(address)} names no bucket: write s3://bucket/folder")
            if "allow_delayed_open=" not in address:
                # Without it pyarrow opens a multipart upload even for a kilobyte; with it a small file is a single PUT.
                opened += "&allow_delayed_open=true" if "?" in address else "?allow_delayed_open=true"
        with explained("open", address):
            filesystem, root = fs.FileSystem.from_uri(opened)
            if isinstance(filesystem, fs.S3FileSystem):
                filesystem = _patient(filesystem)
        if not root.strip("/"):
            raise StoreError(f"{redacted(address)} names no bucket")
        return cls(address, filesystem, root.rstrip("/"))

    def exists(self) -> bool:
        with explained("open", self.root):
            selector = fs.FileSelector(self.root, allow_not_found=True)
            return bool(self.filesystem.get_file_info(selector))

    def _infos(self, folder: str, recursive: bool) -> list[tuple[str, fs.FileInfo]]:
        selector = fs.FileSelector(self.path(folder), allow_not_found=True, recursive=recursive)
        with explained("list", selector.base_dir):
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
        found = self._read(relative, None)
        return None if found is None else found[0]

    def read_end(self, relative: str, count: int) -> tuple[bytes, int] | None:
        return self._read(relative, count)

    def _read(self, relative: str, end: int | None) -> tuple[bytes, int] | None:
        """All bytes of an object, or the last ones, and its size."""
        path = self.path(relative)
        with explained("read", path):
            try:
                with self.filesystem.open_input_file(path) as file:
                    size = file.size()
                    if end is not None:
                        file.seek(max(0, size - end))
                    return file.read(), size
            except FileNotFoundError:
                return None
            except OSError as error:
                # Opening and reading are two requests. An object that is deleted in between is no FileNotFoundError,
                # and may be there again by now.
                if _ABSENT.search(str(error)) or self.filesystem.get_file_info(path).type == fs.FileType.NotFound:
                    return None
                raise

    def opened(self, relative: str) -> pa.NativeFile | None:
        path = self.path(relative)
        with explained("read", path), contextlib.suppress(FileNotFoundError):
            return self.filesystem.open_input_file(path)
        return None

    def write(self, relative: str, data: bytes, keep: Callable[[bytes], bool] | None = None) -> bool:
        if keep is not None and (present := self.read(relative)) is not None and keep(present):
            return False
        path = self.path(relative)
        with explained("write", path), self.filesystem.open_output_stream(path, compression=None) as stream:
            stream.write(data)
        return True

    def delete(self, relative: str) -> None:
        path = self.path(relative)
        with explained("delete", path), contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_file(path)

    def move(self, relative: str, target: str) -> None:
        path, final = self.path(relative), self.path(target)
        with explained("move", path):
            if self.filesystem.get_file_info(path).type == fs.FileType.File:
                self.filesystem.move(path, final)

    def remove_leftovers(self) -> None:
        """Does nothing: an object appears whole or not at all."""
