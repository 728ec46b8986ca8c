"""A store as one tar file: written as a whole, and unpacked into a private folder to be read.

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

from sweeper.messages import redacted
from sweeper.store.files import StoreError, explained
from sweeper.store.store import Store

_MEMBER = re.compile(r"annotations\.json|(?:trials|evaluations|sweeps)(?:/[A-Za-z0-9_=-][\w.=-]*)+", re.ASCII)
"""Names of files that are taken out of a tar file."""


def is_tar(address: str | Path) -> bool:
    """Whether an address is that of a tar file."""
    return str(address).endswith(".tar") and "://" not in str(address)


@contextlib.contextmanager
def source_store(address: str) -> Iterator[Store]:
    """The store at an address that may be a tar file, which is then unpacked for as long as the context lives.

    Raises:
        StoreError: nothing is there, or it is no store.
    """
    if not is_tar(address):
        yield Store.existing(address)
        return
    if not Path(address).is_file():
        raise StoreError(f"there is no file {redacted(address)}")
    with tempfile.TemporaryDirectory(prefix="sweeper-tar-") as folder:
        with explained("unpack", address):
            _unpack(Path(address), Path(folder))
        if not any(Path(folder).iterdir()):
            raise StoreError(f"{address} holds no results store")
        yield Store.open(folder)


@contextlib.contextmanager
def target_store(address: str) -> Iterator[Store]:
    """The store at an address that may be that of a tar file, which then appears as a whole when the context ends well.

    Raises:
        StoreError: the tar file cannot be written.
    """
    if not is_tar(address):
        yield Store.open(address)
        return
    path = Path(os.path.abspath(Path(address).expanduser()))
    with explained("write", str(path)):
        folder = tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        store, packed = Path(folder, "store"), Path(folder, path.name)
        yield Store.open(store)
        with explained("write", str(path)):
            _pack(store, packed)
            os.replace(packed, path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unpack(path: Path, folder: Path) -> None:
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                if member.isreg() and not member.issparse() and _MEMBER.fullmatch(member.name):
                    target = folder / member.name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    data = archive.extractfile(member)
                    assert data is not None  # a plain file
                    with data, target.open("wb") as file:
                        shutil.copyfileobj(data, file)
    except tarfile.TarError as error:
        raise StoreError(f"{path} is no tar file: {error}") from None


def _pack(folder: Path, path: Path) -> None:
    """Write all files below a folder as a tar file, down to the disk."""
    with path.open("xb") as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for part in sorted(part for part in folder.rglob("*") if part.is_file()):
                archive.add(part, str(part.relative_to(folder)), filter=_anonymous)
        file.flush()
        os.fsync(file.fileno())


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """The file without its owner."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
