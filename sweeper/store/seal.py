"""Seals: what a parquet file of a store is, in its footer, and the proof that the file is as it was written.

The footer carries, under the key `sweeper`, one object of JSON:

    {"kind":"trial","schema_version":1,"trial_id":…,…,"footer":"<32 digits>"}

Parquet proves its pages itself: each has a checksum, which is verified when the page is read. What is left is the
footer, which says where the pages are and how to decode them. `footer` is its digest: BLAKE2b of 16 bytes, with its own
digits as zeros. So a reader reads the footer and the columns that it wants, and has proven what it has read.

In the seals of earlier files `"proof":"<12 digits>-<32 digits>-<32 digits>"` stands in the place of `footer`: their
digest, the last digits, covers the file from the place on that the first digits name.
"""

import dataclasses
import hashlib
import json
import logging
import re
from collections.abc import Iterable
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ConfigDict, TypeAdapter
from pydantic_core import from_json

from sweeper.events import Status
from sweeper.messages import one_line, printable
from sweeper.store.files import DurableFiles, StoreError
from sweeper.store.row_checks import check_row
from sweeper.store.schema import (
    EVALUATION_FILE,
    SCHEMA_VERSION,
    SNAPSHOT_FILE,
    TRIAL_FILE,
    check_version,
    evaluation_file_name,
    trial_file_name,
)

logger = logging.getLogger(__name__)

LARGEST_ROW = 2**31
"""Bytes that the row of a file may take when it is decoded: a network of the largest size, and as much again."""

_END = 16 * 2**10  # bytes that are read from the end of a file at first; the footer of a trial is smaller
_LARGEST_PROOF = 16 * 2**20  # bytes of the largest end of a file that is read for its digest
_DIGITS = 32

_SEAL = re.compile(rb'(\{"kind":".*),"(?:footer":"|proof":"(\d{12})-[0-9a-f]{32}-)([0-9a-f]{32})"\}', re.DOTALL)


class DamagedError(Exception):
    """A damaged file; the message says how the file is damaged, such as "is empty"."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrialSeal:
    """The seal of the file of a trial: how it ended, after how many steps, computed by which code (None if that is not
    known), with which outcomes, and with which network (its digest; None without one).

    Or that of an evaluation of the network by another protocol (its id).
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    kind: Literal["trial", "evaluation"] = "trial"
    schema_version: int = SCHEMA_VERSION
    trial_id: str
    task: str
    baseline: str
    status: Status = "finished"
    steps: int = 0
    fingerprint: str | None = None
    outcomes: tuple[str, ...] = ()
    network: str | None = None
    protocol: str | None = None

    @property
    def name(self) -> str:
        """The file, relative to the root of the store."""
        if self.protocol is not None:
            return evaluation_file_name(self.task, self.baseline, self.trial_id, self.protocol)
        return trial_file_name(self.task, self.baseline, self.trial_id)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the file."""
        return TRIAL_FILE if self.protocol is None else EVALUATION_FILE

    @property
    def without_network(self) -> str | None:
        """Why there is no network, in words that end a sentence about the trial; None if there is one."""
        if self.status == "failed":
            return "failed, and has no network"
        return None if self.network else "has no network: it was trained with resources.networks: false"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSeal:
    """The seal of the snapshot."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    kind: Literal["snapshot"] = "snapshot"
    schema_version: int = SCHEMA_VERSION

    @property
    def name(self) -> str:
        return SNAPSHOT_FILE


Seal = TypeVar("Seal", TrialSeal, SnapshotSeal)

_FORMS: dict[type, TypeAdapter[Any]] = {form: TypeAdapter(form) for form in (TrialSeal, SnapshotSeal)}


def text_of(seal: TrialSeal | SnapshotSeal) -> str:
    """The seal as JSON, without the digest. That of a trial names no protocol, as it did before evaluations had one."""
    fields = dataclasses.asdict(seal)
    if fields.get("protocol", "") is None:
        del fields["protocol"]
    return json.dumps(fields, separators=(",", ":"))


def seal_of(text: str) -> TrialSeal:
    return _FORMS[TrialSeal].validate_json(text)


# Write


def sealed(table: pa.Table, seal: TrialSeal | SnapshotSeal, options: dict[str, Any], rows: int | None = None) -> bytes:
    """A parquet file of a table, sealed.

    `rows` is the size of a row group (by default all rows are one), `options` are those of pyarrow's writer.
    """
    text = text_of(seal)[:-1] + f',"footer":"{"0" * _DIGITS}"}}'
    buffer = pa.BufferOutputStream()
    with pq.ParquetWriter(buffer, table.schema, store_schema=False, write_page_checksum=True, **options) as writer:
        writer.write_table(table, rows)
        writer.add_key_value_metadata({"sweeper": text})
    data = bytearray(buffer.getvalue())
    start = len(data) - _footer_length(data)
    found = _SEAL.search(data, start)
    assert found is not None
    place = found.start(3)
    data[place : place + _DIGITS] = hashlib.blake2b(data[start:], digest_size=_DIGITS // 2).hexdigest().encode()
    return bytes(data)


def _footer_length(end: bytes | bytearray) -> int:
    """Bytes of a footer, with its length and the closing mark, from the bytes with which a file ends."""
    return int.from_bytes(end[-8:-4], "little") + 8


# Read; what is damaged is a `DamagedError`


def unsealed(file: pa.NativeFile, form: type[Seal], name: str) -> Seal:
    """The seal of a file, which must be of this form and of this name, after proof that the footer is whole."""
    if not (size := file.size()):
        raise DamagedError("is empty")
    end = file.read_at(min(_END, size), max(0, size - _END))
    length = _footer_length(end)
    if not end.endswith(b"PAR1") or length > min(size, _LARGEST_PROOF):
        raise DamagedError("is truncated or was not written by a sweep")
    footer = end[-length:] if length <= len(end) else file.read_at(length, size - length)
    if (found := _SEAL.search(footer)) is None:
        raise DamagedError("is truncated or was not written by a sweep")
    seal, place, digits = found.groups()
    proven = length if place is None else size - int(place)
    if not length <= proven <= _LARGEST_PROOF:
        raise DamagedError("is truncated or was not written by a sweep")
    covered = footer if proven == length else file.read_at(proven, size - proven)
    start = proven - length + found.start(3)
    blank = covered[:start] + b"0" * _DIGITS + covered[start + _DIGITS :]
    if hashlib.blake2b(blank, digest_size=_DIGITS // 2).hexdigest().encode() != digits:
        raise DamagedError("was altered: its digest does not fit")
    try:
        check_version(from_json(seal + b"}").get("schema_version"), name)
        made: Seal = _FORMS[form].validate_json(seal + b"}")
    except ValueError as error:
        raise DamagedError("has a seal of no known form") from error
    if made.name != name:
        raise DamagedError(f"belongs to another file, {made.name!r}")
    return made


def row_of(file: pa.NativeFile, schema: pa.Schema, columns: Iterable[str], largest: int = LARGEST_ROW) -> pa.Table:
    """Some columns of a file of one row, whose pages are proven; columns that an older program did not know are null.

    A file that would take more than `largest` bytes is not decoded.
    """
    wanted = list(columns)
    try:
        parquet = pq.ParquetFile(file, page_checksum_verification=True)
        size = _decoded_size(parquet.metadata.row_group(0)) if parquet.metadata.num_row_groups == 1 else 0
        if parquet.metadata.num_rows != 1 or size > largest:
            raise DamagedError(f"does not hold one row of at most {largest:,} bytes")
        known = set(parquet.schema_arrow.names)
        row = parquet.read(columns=[name for name in wanted if name in known], use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise DamagedError(" ".join(str(error).split())) from error
    try:
        check_row(row, schema)
    except ValueError as error:
        raise DamagedError(str(error)) from None
    for name in wanted:
        if name not in known:
            row = row.append_column(schema.field(name), pa.nulls(1, schema.field(name).type))
    return row.select(wanted).replace_schema_metadata(None)


def _decoded_size(group: pq.RowGroupMetaData) -> int:
    """Bytes that a row group may take: a value of a dictionary, or of a run, is written once and decoded many times."""
    columns = [group.column(index) for index in range(group.num_columns)]
    return sum(max(column.total_uncompressed_size, 8 * column.num_values) for column in columns)


# Set aside


def set_aside(files: DurableFiles, name: str, reason: object) -> None:
    """Move a damaged file below `quarantine/`, with a warning that says how it is damaged, such as "is empty".

    If it is that of a trial, the trial is pending again. A file that cannot be moved stays, and readers leave it out.
    """
    trouble = f"damaged: {name!r} {printable(one_line(str(reason)))}"
    pending = name.startswith("trials/")
    moved = "its trial was set aside in quarantine/ and is pending again" if pending else "set aside in quarantine/"
    try:
        files.move(name, f"quarantine/{name}")
    except StoreError as error:
        logger.warning("%s; it is left out, but %s", trouble, error)
    else:
        logger.warning("%s; %s", trouble, moved)
