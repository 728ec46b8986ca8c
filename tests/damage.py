"""Damage to the bytes of a file, and lies in a snapshot."""

import dataclasses

import pyarrow as pa

from sweeper.store import snapshots
from sweeper.store.seal import seal_of, text_of


def flipped(data: bytes, place: int, bit: int = 0) -> bytes:
    """The data with one bit of one byte flipped."""
    damaged = bytearray(data)
    damaged[place] ^= 1 << bit
    return bytes(damaged)


DAMAGES = {
    "emptied": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "cut by a byte": lambda data: data[:-1],
    "longer": lambda data: data + b"\0",
    "flipped in the footer": lambda data: flipped(data, -200),
    "foreign": lambda data: b"PAR1" + b"x" * 100 + b"PAR1",
}
"""Of a file of Parquet, by a name for it."""


def lie(store, trial_id, **changes):
    """Compact a store into a snapshot that says something else of a trial, in its seal and in its row."""
    listed = store.files.listing("trials")
    store.compact()
    held, _ = snapshots.held(store.files, listed, snapshots.ROWS.names)
    told = held.to_pylist()
    for row in told:
        if row["trial_id"] == trial_id:
            seal = seal_of(row["seal"])
            known = {name: value for name, value in changes.items() if hasattr(seal, name)}
            row |= {"seal": text_of(dataclasses.replace(seal, **known))} | changes
    snapshots.write(store.files, listed, pa.Table.from_pylist(told, snapshots.ROWS))
