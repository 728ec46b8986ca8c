"""Parquet files that prove themselves whole.

The footer of every file of a store carries, under the key `sweeper`, a little JSON: what the file holds, and the digest
of the whole file with the digest's own place zeroed. So a truncated, emptied or altered file is told from a whole one
by its bytes alone, and what it holds is known without decoding a table. Pages carry checksums too, for readers who take
only some columns.

A file belongs to one trial, or to many after compaction. The seal of compacted rows says of every member what the seal
of its own row said; it is thereby the manifest of the compaction, and publishing the file is the swap.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from sweeper.store.files import StoreError
from sweeper.store.rows import SCHEMA_VERSION, Kind, Status


class DamagedError(Exception):
    """A file that is not what its writer wrote; the message says in which way."""


class Seal(NamedTuple):
    """What the footer of a trial's file says.

    The sizes are those of the trial's other files when its row was made, and None in those files themselves. A
    rewritten file of another size is as good as long as its own seal holds.
    """

    kind: Kind
    schema_version: int
    trial_id: str
    task: str
    baseline: str
    status: Status
    curves_bytes: int | None
    outcomes_bytes: int | None
    outcome_columns: tuple[str, ...]

    @property
    def name(self) -> str:
        """The trial's file below `trials`, `curves` or `outcomes`."""
        return f"task={self.task}/baseline={self.baseline}/{self.trial_id}.parquet"


class Member(NamedTuple):
    """One trial of a compacted file; its rows stand in the order of the members."""

    trial_id: str
    status: Status
    curves_group: int | None
    """Row group of the compacted curves that holds the trial's; None if there are none."""
    outcomes_bytes: int | None
    outcome_columns: tuple[str, ...]


class CompactedSeal(NamedTuple):
    """What the footer of a compacted file says; that of curves has no members and no size."""

    kind: Kind
    schema_version: int
    title: str
    task: str
    baseline: str
    curves_bytes: int | None
    members: tuple[Member, ...]

    @property
    def name(self) -> str:
        """The file below `trials` or `curves`."""
        return f"task={self.task}/baseline={self.baseline}/{self.title}.parquet"

    def of(self, member: Member) -> Seal:
        """What the seal of the member's own row would say; its curves are not in a file of their own."""
        return Seal(
            "trials", self.schema_version, member.trial_id, self.task, self.baseline, member.status,
            None, member.outcomes_bytes, member.outcome_columns,
        )  # fmt: skip


RANK: dict[Status, int] = {"failed": 0, "stopped": 1, "finished": 2}
"""Of two rows of one trial the one of the higher rank stands."""

_SEAL = re.compile(rb'\{"digest":"([0-9a-f]{32})","(seal|compacted)":(\[[^\x00-\x1f{}]*\])\}')
_MAGIC = b"PAR1"


def sealed(tables: Sequence[pa.Table], seal: Seal | CompactedSeal, options: dict[str, Any]) -> bytes:
    """A parquet file with a row group or more for each table, sealed; `options` are those of pyarrow's writer."""
    word = "seal" if isinstance(seal, Seal) else "compacted"
    text = json.dumps({"digest": "0" * 32, word: seal}, separators=(",", ":"))
    buffer = pa.BufferOutputStream()
    with pq.ParquetWriter(buffer, tables[0].schema, store_schema=False, write_page_checksum=True, **options) as writer:
        for table in tables:
            writer.write_table(table)
        writer.add_key_value_metadata({"sweeper": text})
    data = buffer.getvalue().to_pybytes()
    found = _seal_in(data)
    if found is None:
        names = tables[0].column_names
        raise ValueError(f"columns {names} cannot be sealed: a name holds a brace, or pyarrow has changed")
    start, end = found.span(1)
    return data[:start] + _digest(data, start, end) + data[end:]


def unsealed(data: bytes, kind: Kind, name: str | None = None) -> Seal:
    """The seal of a trial's file that is whole and, if `name` is given, stands where it belongs.

    Raises:
        DamagedError: it is not.
        StoreError: a newer version of this program wrote it.
    """
    values = _values(data, b"seal", name or kind)
    try:
        seal = Seal._make([*values[:8], tuple(values[8]), *values[9:]])
    except (TypeError, IndexError) as error:
        raise DamagedError("has a seal of no known form") from error
    if seal.kind != kind or (name is not None and seal.name != name) or seal.status not in get_args(Status):
        raise DamagedError("is the file of another trial")
    return seal


def unsealed_compacted(data: bytes, kind: Kind, name: str) -> CompactedSeal:
    """The same of a compacted file."""
    values = _values(data, b"compacted", name)
    try:
        members = tuple(Member._make([*member[:4], tuple(member[4]), *member[5:]]) for member in values[6])
        seal = CompactedSeal._make([*values[:6], members, *values[7:]])
    except (TypeError, IndexError) as error:
        raise DamagedError("has a seal of no known form") from error
    if seal.kind != kind or seal.name != name or any(member.status not in get_args(Status) for member in seal.members):
        raise DamagedError("is the file of other trials")
    return seal


def _values(data: bytes, word: bytes, what: str) -> list[Any]:
    """The fields of the seal of a whole file."""
    if not data:
        raise DamagedError("is empty")
    found = _seal_in(data)
    if found is None or found[2] != word:
        raise DamagedError("is truncated or was not written by a sweep")
    if _digest(data, *found.span(1)) != found[1]:
        raise DamagedError("was altered: its digest does not fit")
    try:
        values = json.loads(found[3])
        check_version(values[1], what)
    except (ValueError, TypeError, IndexError) as error:
        raise DamagedError("has a seal of no known form") from error
    return values


def _digest(data: bytes, start: int, end: int) -> bytes:
    """Digest of a file with the digest's own place, from `start` to `end`, zeroed."""
    digest = hashlib.blake2b(memoryview(data)[:start], digest_size=16)
    digest.update(b"0" * (end - start))
    digest.update(memoryview(data)[end:])
    return digest.hexdigest().encode()


def _seal_in(data: bytes) -> re.Match[bytes] | None:
    """The seal in the footer of a parquet file, None if the file has none or is not whole."""
    if len(data) < 12 or not data.startswith(_MAGIC) or not data.endswith(_MAGIC):
        return None
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return _SEAL.search(data, footer) if footer >= 4 else None


def check_version(version: Any, what: str) -> None:
    """Refuse what a newer program has written.

    Raises:
        StoreError: the version is newer than this program's.
        ValueError: it is no version.
    """
    if not isinstance(version, int):
        raise ValueError(f"{version!r} is not a schema version")
    if version > SCHEMA_VERSION:
        raise StoreError(f"{what!r} has schema version {version}, this program knows up to {SCHEMA_VERSION}: update it")
