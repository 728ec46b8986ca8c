"""Publishing a trial: its details first, then its row, which is the commit and names them by digest.

Details are curves, outcomes and the network. Two processes may publish one trial at the same time, and write over each
other's details. The row decides: afterwards each process checks which row stands. The process of that row publishes its
details again if they were written over; the other process deletes its own details. Between these steps, and if one of
the two dies, readers leave out details that the row does not name.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from sweeper.store.details import digest_at
from sweeper.store.file_names import file_path
from sweeper.store.files import DurableFiles
from sweeper.store.rows import ENCODINGS
from sweeper.store.schema import RANK, Detail, DetailTable, Status
from sweeper.store.seal import DamagedError, Seal, SealedFile
from sweeper.store.sealed_network import sealed_network
from sweeper.store.sealed_parquet import sealed, unsealed


def publish(
    files: DurableFiles,
    seal: Seal,
    row: pa.Table,
    tables: Mapping[DetailTable, pa.Table],
    network: Mapping[str, np.ndarray] | None = None,
) -> bool:
    """Publish a trial, unless its file holds a row that stands.

    Args:
        files: The files of the store.
        seal: The seal of the row; it need not name the details.
        row: The row.
        tables: The curves and outcomes that are published with it.
        network: The weights that are published with it; None leaves an existing network as it is.

    Returns:
        Whether the row was published.
    """
    details: dict[Detail, SealedFile] = {}
    for kind, table in tables.items():
        details[kind] = sealed([table], seal.bare(kind), ENCODINGS[kind](table))
    if network is not None:
        details["networks"] = sealed_network(network, seal.bare("networks"))
    return publish_sealed(files, *sealed_row(seal, row, details), details)


def sealed_row(seal: Seal, row: pa.Table, details: Mapping[Detail, SealedFile]) -> tuple[Seal, bytes]:
    """The new seal, in which these details replace those of the same kind, and the file of the row."""
    seal = dataclasses.replace(seal, **{kind: file.mark for kind, file in details.items()})
    return seal, sealed([row], seal, ENCODINGS["trials"](row)).data


def publish_sealed(files: DurableFiles, seal: Seal, row: bytes, details: Mapping[Detail, SealedFile]) -> bool:
    """Publish the files of a trial, unless its file holds a row that stands.

    Args:
        files: The files of the store.
        seal: The seal of the row.
        row: The file of the row.
        details: The files that are published with it.

    Returns:
        Whether the row was published.
    """
    for kind, file in details.items():
        files.write(file_path(kind, seal.name), file.data)
    done = files.write(f"trials/{seal.name}", row, keep=lambda present: stands(present, seal.status))
    _settle(files, seal.name, details)
    return done


def _settle(files: DurableFiles, name: str, published: Mapping[Detail, SealedFile]) -> None:
    """Checks that the details of the row that stands are there, and deletes details that this row does not name."""
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
            files.delete(file_path(kind, name), only=file.data)
        elif named.digest is not None and digest_at(files, kind, name) != named.digest:
            files.write(file_path(kind, name), file.data)


def stands(present: bytes, status: Status) -> bool:
    """Whether a row that is already there stays when a row of `status` arrives."""
    try:
        old = unsealed(present, "trials").status
    except DamagedError:
        return False
    return RANK[old] > RANK[status] or old == status != "failed"
