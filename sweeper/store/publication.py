"""Publishing a trial: its curves and outcomes first, then its row, which is the commit and names them by digest.

Two processes may publish one trial at the same time, and write over each other's curves and outcomes. The row decides:
whoever has published it looks whether the curves and outcomes are still its own and if not publishes them again;
whoever was refused takes back what it has published. Between these steps, and if one of the two dies, readers leave out
curves and outcomes that the row does not name.
"""

import dataclasses
from collections.abc import Mapping

import pyarrow as pa

from sweeper.store.files import DurableFiles
from sweeper.store.rows import ENCODINGS
from sweeper.store.schema import RANK, Detail, Status
from sweeper.store.sealed_parquet import END, DamagedError, Seal, SealedFile, digest_of, sealed, unsealed


def publish(files: DurableFiles, seal: Seal, row: pa.Table, details: Mapping[Detail, pa.Table]) -> bool:
    """Publish a trial, unless its file holds a row that stands.

    Args:
        files: The files of the store.
        seal: The seal of the row; it need not name the details.
        row: The row.
        details: The curves and outcomes that are published with it.

    Returns:
        Whether the row was published.
    """
    published: dict[Detail, SealedFile] = {}
    for kind, table in details.items():
        bare = dataclasses.replace(seal, kind=kind, curves=None, outcomes=None)
        published[kind] = sealed([table], bare, ENCODINGS[kind](table))
        files.write(f"{kind}/{seal.name}", published[kind].data)
    seal = dataclasses.replace(seal, **{kind: file.mark for kind, file in published.items()})
    data = sealed([row], seal, ENCODINGS["trials"](row)).data
    done = files.write(f"trials/{seal.name}", data, keep=lambda present: stands(present, seal.status))
    (_restore if done else _take_back)(files, seal.name, published)
    return done


def _restore(files: DurableFiles, name: str, published: Mapping[Detail, SealedFile]) -> None:
    """Publishes details of a published row again that another process has written over."""
    for kind, file in published.items():
        end = files.read_end(f"{kind}/{name}", END)
        if end is None or digest_of(end) != file.mark.digest:
            files.write(f"{kind}/{name}", file.data)


def _take_back(files: DurableFiles, name: str, published: Mapping[Detail, SealedFile]) -> None:
    """Deletes details of a refused row, unless the row that stands names files of the same bytes."""
    row = files.read(f"trials/{name}")
    try:
        seal = None if row is None else unsealed(row, "trials", name)
    except DamagedError:
        return
    for kind, file in published.items():
        named = None if seal is None else seal.detail(kind)
        if seal is not None and (named is None or not named.is_file(file.mark.digest)):
            files.delete(f"{kind}/{name}", only=file.data)


def stands(present: bytes, status: Status) -> bool:
    """Whether a row that is already there stays when a row of `status` arrives."""
    try:
        old = unsealed(present, "trials").status
    except DamagedError:
        return False
    return RANK[old] > RANK[status] or old == status != "failed"
