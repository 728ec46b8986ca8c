"""A store as one tar file: written as a whole, and unpacked into a private folder to be read.

What a tar file holds stays in it when something is copied into it. A tar file that was cut off, also between two files,
is refused: two blocks of zeros are the end of a whole one.

A tar file may come from a stranger. Only plain files with names that a store has are taken out of it; links, devices
and files with holes (which expand to any size) are passed over. Nothing is compressed in it, as parquet is already.
"""

import contextlib
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sweeper.store.files import StoreError, explained
from sweeper.store.store import Store, local_path

_MEMBER = re.compile(r"annotations\.json|(?:trials|evaluations|sweeps)(?:/[A-Za-z0-9_=-][\w.=-]*)+", re.ASCII)
"""Names of files that a tar file of a store holds; others are not taken out of it."""


def _tar_file(address: str) -> Path | None:
    """The tar file of that address; None for any other store."""
    local = local_path(address)
    if local is None or not local.lower().endswith(".tar"):
        return None
    path = Path(os.path.abspath(local))
    return None if path.is_dir() else path


@contextlib.contextmanager
def source_store(address: str) -> Iterator[Store]:
    """The store at an address that may be a tar file, which is then unpacked for as long as the context lives."""
    if (path := _tar_file(address)) is None:
        yield Store.existing(address)
        return
    if not path.is_file():
        raise StoreError(f"there is no file {address}")
    with tempfile.TemporaryDirectory(prefix="sweeper-tar-") as folder:
        with explained("unpack", address):
            _unpack(path, Path(folder))
        if not any(Path(folder).iterdir()):
            raise StoreError(f"{address} holds no results store")
        yield Store.open(folder)


@contextlib.contextmanager
def target_store(address: str) -> Iterator[Store]:
    """The store at an address that may be that of a tar file, which then appears as a whole when the context ends well.

    A tar file that is there and holds other files than those of a store is refused.
    """
    if (path := _tar_file(address)) is None:
        yield Store.open(address)
        return
    with explained("write", str(path)):
        folder = tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        store, packed = Path(folder, "store"), Path(folder, path.name)
        store.mkdir()
        before = _version(path)
        if before is not None:
            with explained("unpack", str(path)):
                _unpack(path, store, passed_over=False)
        yield Store.open(store)
        with explained("write", str(path)):
            _pack(store, packed)
            if _version(path) != before:
                raise StoreError(f"{path} was written by another process meanwhile: copy again")
            os.replace(packed, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _version(path: Path) -> tuple[int, ...] | None:
    """What differs between two files of one name; None without a file."""
    try:
        state = path.stat()
    except FileNotFoundError:
        return None
    return state.st_ino, state.st_size, state.st_mtime_ns


def _unpack(path: Path, folder: Path, passed_over: bool = True) -> None:
    """Take the files of a store out of a tar file, which must be whole; other members are passed over, or refused."""
    try:
        with path.open("rb") as whole, tarfile.open(fileobj=whole, mode="r:") as archive:
            for member in archive:
                if member.isreg() and not member.issparse() and _MEMBER.fullmatch(member.name):
                    target = folder / member.name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    data = archive.extractfile(member)
                    assert data is not None  # a plain file
                    with data, target.open("wb") as file:
                        shutil.copyfileobj(data, file)
                elif not passed_over and not member.isdir():
                    raise StoreError(f"{path} also holds {member.name!r}, which would be lost: copy to another file")
            # What tarfile takes for the end may be a damaged header as well, or the end of a file that was cut off.
            whole.seek(archive.offset)
            zeros = 0
            while (block := whole.read(2**20)) and not block.strip(b"\0"):
                zeros += len(block)
            if block or zeros < 2 * tarfile.BLOCKSIZE:
                raise StoreError(f"{path} is cut off or damaged at byte {archive.offset + zeros:,}: it has no end")
    except tarfile.TarError as error:
        raise StoreError(f"{path} is no tar file: {error}") from None


def _pack(folder: Path, path: Path) -> None:
    """Write the files of a store that a tar file holds, which may be not all in the folder, down to the disk."""
    with path.open("xb") as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            names = sorted(part.relative_to(folder).as_posix() for part in folder.rglob("*") if part.is_file())
            for name in filter(_MEMBER.fullmatch, names):
                archive.add(folder / name, name, filter=_anonymous)
        file.flush()
        os.fsync(file.fileno())


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
