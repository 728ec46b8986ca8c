"""Seals: what a parquet file of a store is, and the proof that it is whole, in a few hundred bytes of its footer.

The footer carries, under the key `sweeper`, one object of JSON:

    {"kind":"trial","schema_version":1,"trial_id":…,…,"proof":"000000524288-<32 digits>-<32 digits>"}

The proof divides the file into its head, of so many bytes, and its tail, and has the digest of each: BLAKE2b of 16
bytes, that of the tail with its own digits as zeros. The head holds the large columns, if there are any; the tail holds
the small ones, and the footer with the seal. So a reader of the small columns reads the tail and proves what it has
read, also in a bucket; and the digest of the tail, which covers that of the head, names the content of the whole file.

Pages have checksums too, for readers that take a large column out of the middle of a file.
"""

import dataclasses
import hashlib
import json
import logging
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ConfigDict, Field, NonNegativeInt, TypeAdapter
from pydantic_core import from_json

from sweeper.store.files import DurableFiles, StoreError
from sweeper.store.schema import (
    SCHEMA_VERSION,
    TRIAL_ID,
    Status,
    evaluation_file_name,
    named_trial,
    trial_file_name,
)
from sweeper.trial.plugins import IDENTIFIER

logger = logging.getLogger(__name__)

LARGEST_TAIL = 16 * 2**20  # bytes of the largest tail that is read
LARGEST_FILE = 2**32  # bytes of the largest file that is read
END = 64 * 2**10  # bytes that are read from the end of a file at first; nearly every tail is smaller

_BEGIN, _PROOF, _STOP = b'{"kind":"', b',"proof":"', b'"}'
_SIZE_DIGITS, _DIGEST_DIGITS = 12, 32
_PROOF_LENGTH = _SIZE_DIGITS + 2 * (1 + _DIGEST_DIGITS)

Identifier = Annotated[str, Field(pattern=f"^{IDENTIFIER}$")]
TrialId = Annotated[str, Field(pattern=f"^{TRIAL_ID}$")]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]


class DamagedError(Exception):
    """A damaged file; the message says how the file is damaged, such as "is empty"."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TrialSeal:
    """The seal of the file of a trial: how it ended, after how many steps, computed by which code (None if that is not
    known), with which outcomes, and with which network (its digest; None without one)."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    kind: Literal["trial"] = "trial"
    schema_version: int = SCHEMA_VERSION
    trial_id: TrialId
    task: Identifier
    baseline: Identifier
    status: Status
    steps: NonNegativeInt = 0
    fingerprint: str | None = None
    outcomes: tuple[str, ...] = ()
    network: Digest | None = None

    @property
    def name(self) -> str:
        """The file, relative to the root of the store."""
        return trial_file_name(self.task, self.baseline, self.trial_id)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSeal:
    """The seal of an evaluation: by which protocol (its id), of which network (its digest), by which code."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    kind: Literal["evaluation"] = "evaluation"
    schema_version: int = SCHEMA_VERSION
    trial_id: TrialId
    task: Identifier
    baseline: Identifier
    protocol: TrialId
    network: Digest
    fingerprint: str | None

    @property
    def name(self) -> str:
        return evaluation_file_name(self.task, self.baseline, self.trial_id, self.protocol)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSeal:
    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    kind: Literal["snapshot"] = "snapshot"
    schema_version: int = SCHEMA_VERSION


Seal = TypeVar("Seal", TrialSeal, EvaluationSeal, SnapshotSeal)

_FORMS: dict[type, TypeAdapter[Any]] = {form: TypeAdapter(form) for form in (TrialSeal, EvaluationSeal, SnapshotSeal)}


def text_of(seal: TrialSeal | EvaluationSeal | SnapshotSeal) -> str:
    """The seal as JSON, without the proof."""
    return json.dumps(dataclasses.asdict(seal), separators=(",", ":"))


def seal_of(text: str) -> TrialSeal:
    return _FORMS[TrialSeal].validate_json(text)


# Write


def sealed(
    table: pa.Table,
    seal: TrialSeal | EvaluationSeal | SnapshotSeal,
    options: dict[str, Any],
    first_of_tail: str | None,
    rows: int | None = None,
) -> bytes:
    """A parquet file of a table, sealed.

    The tail begins with the column `first_of_tail`; without one it is the footer alone. `rows` is the size of a row
    group (by default all rows are one), `options` are those of pyarrow's writer.
    """
    place = "0" * _PROOF_LENGTH
    text = text_of(seal)[:-1] + f',"proof":"{place}"}}'
    buffer = pa.BufferOutputStream()
    with pq.ParquetWriter(buffer, table.schema, store_schema=False, write_page_checksum=True, **options) as writer:
        writer.write_table(table, rows)
        writer.add_key_value_metadata({"sweeper": text})
    data = bytearray(buffer.getvalue())
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    head = footer if first_of_tail is None else _column_start(data, first_of_tail)
    start = data.rindex(_PROOF) + len(_PROOF)
    digits = start + _PROOF_LENGTH - _DIGEST_DIGITS
    data[start:digits] = f"{head:0{_SIZE_DIGITS}}-{_digest(memoryview(data)[:head])}-".encode()
    data[digits : digits + _DIGEST_DIGITS] = _digest(memoryview(data)[head:]).encode()
    return bytes(data)


def _column_start(data: bytearray, name: str) -> int:
    """Where the pages of a column begin in a file of one row group."""
    group = pq.read_metadata(pa.BufferReader(data)).row_group(0)
    for place in range(group.num_columns):
        column = group.column(place)
        if column.path_in_schema.partition(".")[0] == name:
            pages = (column.dictionary_page_offset, column.data_page_offset)
            return min(page for page in pages if page is not None)
    raise KeyError(name)


def _digest(*parts: Any) -> str:
    digest = hashlib.blake2b(digest_size=_DIGEST_DIGITS // 2)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


# Read


@dataclasses.dataclass(frozen=True, slots=True)
class Tail:
    """The tail of a file, not proven yet: bytes that end with the tail, and the number of bytes of the whole file."""

    data: bytes
    size: int

    @property
    def digest(self) -> str | None:
        """The digest that the file carries for its tail; None if it carries none."""
        proof = _proof(self.data)
        return None if proof is None else proof[2]

    def padded(self) -> pa.Buffer:
        """A file of the same size for parquet readers, with zeros in place of what is not here."""
        if self.size > LARGEST_FILE:
            raise DamagedError(f"has {self.size:,} bytes, too many for a trial")
        padded = np.zeros(self.size, np.uint8)  # of which the system gives memory only to what is written
        padded[self.size - len(self.data) :] = np.frombuffer(self.data, np.uint8)
        return pa.py_buffer(padded)


def tail_of(files: DurableFiles, name: str) -> Tail | None:
    """The tail of a file, unproven, or only the end of one that is too large; None where there is no file."""
    count = END
    while (found := files.read_end(name, count)) is not None:
        tail = Tail(*found)
        proof = _proof(tail.data)
        needed = 0 if proof is None else tail.size - proof[0]
        if needed <= len(tail.data) or len(tail.data) == tail.size or needed > LARGEST_TAIL:
            return tail
        count = needed
    return None


def unsealed(tail: Tail, form: type[Seal], name: str) -> Seal:
    """The seal of a file, which must be of this form, after proof that its tail is whole.

    A tail that is not whole, or a trial or an evaluation in another file than its seal names, is a `DamagedError`.
    """
    if not tail.size:
        raise DamagedError("is empty")
    data, proof = tail.data, _proof(tail.data)
    begin, end = _place(data)
    needed = tail.size - (0 if proof is None else proof[0])
    if proof is not None and needed > max(len(data), LARGEST_TAIL):
        raise DamagedError(f"has a row of {needed:,} bytes, too many")
    start = len(data) - needed
    if proof is None or not 0 <= start <= begin:
        raise DamagedError("is truncated or was not written by a sweep")
    digits = end - len(_STOP) - _DIGEST_DIGITS
    view = memoryview(data)
    if _digest(view[start:digits], b"0" * _DIGEST_DIGITS, view[digits + _DIGEST_DIGITS :]) != proof[2]:
        raise DamagedError("was altered: its digest does not fit")
    try:
        text = data[begin : end - len(_STOP) - _PROOF_LENGTH - len(_PROOF)] + b"}"
        check_version(from_json(text)["schema_version"], name)
        seal: Seal = _FORMS[form].validate_json(text)
    except (ValueError, TypeError, LookupError) as error:
        raise DamagedError("has a seal of no known form") from error
    if not isinstance(seal, SnapshotSeal) and seal.name != name:
        raise DamagedError(f"belongs to another file, {seal.name!r}")
    return seal


def proven_whole(data: bytes, form: type[Seal], name: str) -> Seal:
    """The seal of a file, after proof that every byte is as it was written; arguments and errors as of `unsealed`."""
    seal = unsealed(Tail(data, len(data)), form, name)
    proof = _proof(data)
    assert proof is not None
    if _digest(memoryview(data)[: proof[0]]) != proof[1]:
        raise DamagedError("was altered: its digest does not fit")
    return seal


def _place(data: bytes) -> tuple[int, int]:
    """Where the last seal in some bytes begins and ends."""
    begin = data.rfind(_BEGIN)
    return begin, data.find(_STOP, begin) + len(_STOP)


def _proof(data: bytes) -> tuple[int, str, str] | None:
    """Size of the head, its digest and that of the tail, as the seal says; None if there is no seal."""
    begin, end = _place(data)
    start = end - len(_STOP) - _PROOF_LENGTH
    if begin < 0 or not data.endswith(b"PAR1") or data[start - len(_PROOF) : start] != _PROOF:
        return None
    try:
        head, *digests = data[start : start + _PROOF_LENGTH].decode().split("-")
        return int(head), digests[0], digests[1]
    except (ValueError, IndexError):
        return None


def check_version(version: Any, what: str) -> None:
    """Refuse what a newer program has written; what is no version at all is a `ValueError`."""
    if type(version) is not int:
        raise ValueError(f"{version!r} is not a schema version")
    if version > SCHEMA_VERSION:
        raise StoreError(f"{what!r} has schema version {version}, this program knows up to {SCHEMA_VERSION}: update it")


# Set aside


def set_aside(files: DurableFiles, name: str, reason: object) -> None:
    """Move a damaged file below `quarantine/`, with a warning that says how it is damaged, such as "is empty".

    If it is that of a trial, the trial is pending again. A file that cannot be moved stays, and readers leave it out.
    """
    trouble = f"damaged: {name!r} {' '.join(str(reason).split())}"
    pending = named_trial(name) is not None
    moved = "its trial was set aside in quarantine/ and is pending again" if pending else "set aside in quarantine/"
    try:
        files.move(name, f"quarantine/{name}")
    except StoreError as error:
        logger.warning("%s; it is left out, but %s", trouble, error)
    else:
        logger.warning("%s; %s", trouble, moved)
