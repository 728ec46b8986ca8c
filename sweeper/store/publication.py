"""Publishing a trial: its curves and outcomes first, then its row, which is the commit."""

import dataclasses

import pyarrow as pa

from sweeper.store.files import DurableFiles
from sweeper.store.rows import ENCODINGS
from sweeper.store.schema import RANK, Detail, Status
from sweeper.store.sealed_parquet import DamagedError, DetailFile, Seal, sealed, unsealed


def publish_detail(files: DurableFiles, kind: Detail, row: Seal, table: pa.Table) -> DetailFile:
    """Publish the curves or outcomes of a trial, in place of earlier ones; returns how its row names them."""
    seal = dataclasses.replace(row, kind=kind, curves=None, outcomes=None)
    file = sealed([table], seal, ENCODINGS[kind](table))
    files.write(f"{kind}/{seal.name}", file.data)
    return file.mark


def publish_row(files: DurableFiles, seal: Seal, row: pa.Table) -> bool:
    """Publish the row of a trial, unless its file holds a row that stands; returns whether it was published."""
    file = sealed([row], seal, ENCODINGS["trials"](row))
    return files.write(f"trials/{seal.name}", file.data, keep=lambda present: stands(present, seal.status))


def stands(present: bytes, status: Status) -> bool:
    """Whether a row that is already there stays when a row of `status` arrives."""
    try:
        old = unsealed(present, "trials").status
    except DamagedError:
        return False
    return RANK[old] > RANK[status] or old == status != "failed"
