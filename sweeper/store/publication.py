"""Publishing a trial: its curves and outcomes first, then its row, which is the commit and names them by digest.

Two processes may publish one trial at the same time, and write over each other's curves and outcomes. The row decides:
afterwards each looks which row stands. The process whose row it is publishes its curves and outcomes again if they were
written over; the other takes its own back. Between these steps, and if one of the two dies, readers leave out curves
and outcomes that the row does not name.
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
    _settle(files, seal.name, published)
    return done


def _settle(files: DurableFiles, name: str, published: Mapping[Detail, SealedFile]) -> None:
    """Makes sure of the details of the row that stands, and deletes those that this row does not name."""
    row = files.read(f"trials/{name}")
    try:
        seal = None if row is None else unsealed(row, "trials", name)
    except DamagedError:
        return
    if seal is None:
        return
    for kind, file in published.items():
        named = seal.detail(kind)
        if named is None or not named.is_file(file.mark.digest):
            files.delete(f"{kind}/{name}", only=file.data)
        elif named.digest is not None and _digest_at(files, f"{kind}/{name}") != named.digest:
            files.write(f"{kind}/{name}", file.data)


def _digest_at(files: DurableFiles, path: str) -> str | None:
    """The digest that a file carries; None without a file."""
    end = files.read_end(path, END)
    return None if end is None else digest_of(end)


def stands(present: bytes, status: Status) -> bool:
    """Whether a row that is already there stays when a row of `status` arrives."""
    try:
        old = unsealed(present, "trials").status
    except DamagedError:
        return False
    return RANK[old] > RANK[status] or old == status != "failed"
