"""Seals: what a parquet file of a store is, as JSON in its footer, and the proof that a file is as it was written.

The footer carries, under the key `sweeper`, one object of JSON:

    {"kind":"trial","schema_version":1,"trial_id":…,…}

Parquet proves its pages itself: each has a checksum, which is verified when the page is read. The footer, which says
where the pages are and how to decode them, has none: a bit that is flipped there may give a column the values of
another one, or end the process inside of pyarrow. So the digest of the footer stands before it, where Parquet leaves
room, and a reader looks at it before anything else.
"""

import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterable
from typing import Any, Literal, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ConfigDict, TypeAdapter
from pydantic_core import from_json

from sweeper.events import Status
from sweeper.messages import one_line, printable
from sweeper.store.files import BUFFER, DurableFiles, StoreError
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


class DamagedError(Exception):
    """A damaged file; the message says how the file is damaged, such as "is empty"."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrialSeal:
    """The seal of the file of a trial: how it ended, after how many steps, computed by which code, with
    which outcomes, and with which network (its digest; None without one).

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
    fingerprint: str
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

_DIGEST = 16  # bytes of the digest of a footer

_FORMS: dict[type, TypeAdapter[Any]] = {form: TypeAdapter(form) for form in (TrialSeal, SnapshotSeal)}


def text_of(seal: TrialSeal | SnapshotSeal) -> str:
    """The seal as JSON. That of a trial names no protocol."""
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
    buffer = pa.BufferOutputStream()
    with pq.ParquetWriter(buffer, table.schema, store_schema=False, write_page_checksum=True, **options) as writer:
        writer.write_table(table, rows)
        writer.add_key_value_metadata({"sweeper": text_of(seal)})
    data = buffer.getvalue().to_pybytes()
    start = len(data) - _footer_length(data)
    return data[:start] + _digest(data[start:]) + data[start:]


def _footer_length(end: bytes) -> int:
    """Bytes of the footer, with its length and the closing mark, of a file that ends so."""
    return int.from_bytes(end[-8:-4], "little") + 8


def _digest(footer: bytes) -> bytes:
    return hashlib.blake2b(footer, digest_size=_DIGEST).digest()


# Read; what is damaged is a `DamagedError`


def unsealed(file: pa.NativeFile, form: type[Seal], name: str) -> tuple[Seal, pq.ParquetFile]:
    """The seal of a file, which must be of this form and of this name, and the file to read columns from."""
    if not (size := file.size()):
        raise DamagedError("is empty")
    end = file.read_at(BUFFER, max(0, size - BUFFER))
    length = _footer_length(end) + _DIGEST
    if len(end) < length <= size:
        end = file.read_at(length, size - length)
    footer = end[_DIGEST - length :]
    if end[-length:] != _digest(footer) + footer:
        raise DamagedError("is truncated, was altered or was not written by a sweep")
    try:
        parquet = pq.ParquetFile(file, pre_buffer=True, page_checksum_verification=True)
        text = (parquet.metadata.metadata or {})[b"sweeper"]
        check_version(from_json(text)["schema_version"], name)
        seal: Seal = _FORMS[form].validate_json(text)
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError) as error:
        raise DamagedError("is truncated, was altered or was not written by a sweep") from error
    if seal.name != name:
        raise DamagedError(f"belongs to another file, {seal.name!r}")
    return seal, parquet


def row_of(parquet: pq.ParquetFile, schema: pa.Schema, columns: Iterable[str]) -> pa.Table:
    """Some columns of a file of one row with this schema."""
    wanted = list(columns)
    try:
        if not parquet.schema_arrow.equals(schema):
            raise DamagedError("has other columns than this program writes")
        row = parquet.read(wanted, use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DamagedError(" ".join(str(error).split())) from error
    if row.num_rows != 1:
        raise DamagedError("does not hold one row")
    return row.select(wanted).replace_schema_metadata(None)


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
