"""Parquet files that prove themselves whole.

The footer of every file carries two short texts beside the columns: the seal, which says what the file holds, and the
digest of the whole file with the digest's own place zeroed. So an emptied, truncated or altered file is told from a
whole file by its bytes alone, and what it holds is known without decoding a table. Pages carry checksums too, for
readers that take only some columns.

A file belongs to one trial, or to many after compaction. The seal of a trial's row names the trial's curves and
outcomes by their digests. The seal of compacted rows says of every member what the seal of the member's own row said:
it is the manifest of the compaction, and publishing the file is the swap.

The seal is canonical JSON: sorted keys, no spaces. The digest stands in `{"digest":"…","seal":["keyed",2]}`, or
`"compacted"` for a file of many trials. Programs from before keyed seals take that 2 for a schema version that they do
not know, and refuse the store.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ConfigDict, Field, TypeAdapter
from pydantic_core import from_json

from sweeper.store import positional_seals
from sweeper.store.file_names import COMPACTED, IDENTIFIER, TRIAL_ID, file_name
from sweeper.store.files import StoreError
from sweeper.store.schema import SCHEMA_VERSION, Detail, Kind, Status

SEAL_VERSION: Literal[2] = 2
"""Version of the form of seals. Seals of version 1 were lists, see `positional_seals`."""


class DamagedError(Exception):
    """A file that is not what its writer wrote; the message says in which way."""


Identifier = Annotated[str, Field(pattern=f"^{IDENTIFIER}$")]
TrialId = Annotated[str, Field(pattern=f"^{TRIAL_ID}$")]
Count = Annotated[int, Field(ge=0)]


@dataclasses.dataclass(frozen=True, slots=True)
class DetailFile:
    """The file of a trial's curves or outcomes, as the trial's row names it.

    Attributes:
        bytes: Size of the file when the row was made.
        digest: The digest in that file. None in rows from before keyed seals.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    bytes: Count
    digest: str | None

    def is_file(self, digest: str | None) -> bool:
        """Whether the file with this digest is the file that the row names; an older row takes any."""
        return self.digest in (None, digest)


@dataclasses.dataclass(frozen=True, slots=True)
class Seal:
    """What the footer of a trial's own file says.

    Attributes:
        kind: Which of the trial's files this is.
        schema_version: Version of the columns.
        trial_id: The trial.
        task: Name of its task.
        baseline: Its baseline.
        status: How it ended.
        curves: The trial's curves; None if there are none, and in files that are not a row.
        outcomes: The trial's outcomes, in the same way.
        outcome_columns: Columns of the outcomes that depend on the task.
        fingerprint: Fingerprint of the code that computed the trial; None where it is not known.
        version: Version of the form of the seal.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    kind: Kind
    schema_version: int
    trial_id: TrialId
    task: Identifier
    baseline: Identifier
    status: Status
    curves: DetailFile | None = None
    outcomes: DetailFile | None = None
    outcome_columns: tuple[str, ...] = ()
    fingerprint: str | None = None
    version: Literal[2] = SEAL_VERSION

    @property
    def name(self) -> str:
        """The trial's file below `trials`, `curves` or `outcomes`."""
        return file_name(self.task, self.baseline, self.trial_id)

    def detail(self, kind: Detail) -> DetailFile | None:
        """The curves or outcomes that the row names."""
        return self.curves if kind == "curves" else self.outcomes


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """One trial of a compacted file; its rows stand in the order of the members.

    Attributes:
        trial_id: The trial.
        status: How it ended.
        curves_group: Row group of the compacted curves that holds the trial's; None if it has none.
        outcomes: The trial's outcomes, which stay in a file of their own.
        outcome_columns: Columns of the outcomes that depend on the task.
        fingerprint: Fingerprint of the code that computed the trial; None where it is not known.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    trial_id: TrialId
    status: Status
    curves_group: Count | None
    outcomes: DetailFile | None
    outcome_columns: tuple[str, ...]
    fingerprint: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class CompactedSeal:
    """What the footer of a compacted file says; that of curves has no members and names no curves.

    Attributes:
        kind: "trials" or "curves".
        schema_version: Version of the columns.
        title: The file's name without its folder and ending.
        task: Name of the task of all members.
        baseline: Baseline of all members.
        curves: The compacted curves of the members; None if no member has any.
        members: The trials, in the order of their rows.
        version: Version of the form of the seal.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    kind: Kind
    schema_version: int
    title: Annotated[str, Field(pattern=f"^{COMPACTED}$")]
    task: Identifier
    baseline: Identifier
    curves: DetailFile | None
    members: tuple[Member, ...]
    version: Literal[2] = SEAL_VERSION

    @property
    def name(self) -> str:
        """The file below `trials` or `curves`."""
        return file_name(self.task, self.baseline, self.title)

    @property
    def rows(self) -> list[Seal]:
        """What the seals of the members' own rows would say."""
        return [self.of(member) for member in self.members]

    def of(self, member: Member) -> Seal:
        """What the seal of the member's own row would say; its curves are not in a file of their own."""
        return Seal(
            "trials", self.schema_version, member.trial_id, self.task, self.baseline, member.status,
            None, member.outcomes, member.outcome_columns, member.fingerprint,
        )  # fmt: skip


_FORMS: dict[str, TypeAdapter[Any]] = {"seal": TypeAdapter(Seal), "compacted": TypeAdapter(CompactedSeal)}
"""What a seal of either word holds."""

_STAMP = re.compile(rb'\{"digest":"([0-9a-f]{32})","(seal|compacted)":(\[[^\x00-\x1f{}]*\])\}')
_SEAL = re.compile(rb'\{"baseline":[\x20-\x7e]*?,"version":\d+\}')
_MAGIC = b"PAR1"


class SealedFile(NamedTuple):
    """A file that is ready to be published.

    Attributes:
        data: Its bytes.
        mark: How a row names it.
    """

    data: bytes
    mark: DetailFile


def sealed(tables: Sequence[pa.Table], seal: Seal | CompactedSeal, options: dict[str, Any]) -> SealedFile:
    """A parquet file with a row group or more for each table, sealed.

    Args:
        tables: Tables of one schema.
        seal: What the file holds.
        options: Those of pyarrow's writer.
    """
    text = json.dumps(dataclasses.asdict(seal), sort_keys=True, separators=(",", ":"))
    word = "seal" if isinstance(seal, Seal) else "compacted"
    stamp = json.dumps({"digest": "0" * 32, word: ["keyed", SEAL_VERSION]}, separators=(",", ":"))
    buffer = pa.BufferOutputStream()
    with pq.ParquetWriter(buffer, tables[0].schema, store_schema=False, write_page_checksum=True, **options) as writer:
        for table in tables:
            writer.write_table(table)
        writer.add_key_value_metadata({"digest": stamp, "sweeper": text})
    data = buffer.getvalue().to_pybytes()
    place = _stamp(data)
    assert place is not None  # pyarrow keeps texts as they are
    start, end = place.span(1)
    digest = _digest(data, start, end)
    return SealedFile(data[:start] + digest + data[end:], DetailFile(len(data), digest.decode()))


def unsealed(data: bytes, kind: Kind, name: str | None = None) -> Seal:
    """The seal of a trial's own file, after proof that the file is whole.

    Args:
        data: The file.
        kind: Of which kind it has to be.
        name: Its name below the folder of that kind; None if any place is right.

    Raises:
        DamagedError: it is not whole, or belongs somewhere else.
        StoreError: a newer version of this program wrote it.
    """
    seal = _proven(data, name or kind)
    if not isinstance(seal, Seal) or seal.kind != kind or (name is not None and seal.name != name):
        raise DamagedError("is the file of another trial")
    return seal


def unsealed_compacted(data: bytes, kind: Kind, name: str) -> CompactedSeal:
    """The seal of a compacted file; arguments and errors are those of `unsealed`."""
    seal = _proven(data, name)
    if not isinstance(seal, CompactedSeal) or seal.kind != kind or seal.name != name:
        raise DamagedError("is the file of other trials")
    return seal


END = 16 * 1024
"""So many of the last bytes of a file of curves or outcomes hold its digest."""


def digest_of(end: bytes) -> str | None:
    """The digest that a file carries, unproven, from the file or its last `END` bytes; None if it carries none."""
    stamps = _STAMP.findall(end[-END:])
    return stamps[-1][0].decode() if stamps else None


def is_whole(data: bytes) -> bool:
    """Whether the digest that a file carries is the file's."""
    stamp = _stamp(data)
    return stamp is not None and _digest(data, *stamp.span(1)) == stamp[1]


def _proven(data: bytes, what: str) -> Seal | CompactedSeal:
    """The seal of a whole file.

    Raises:
        DamagedError: the file is not whole, or its seal has no known form.
        StoreError: a newer version of this program wrote it.
    """
    if not data:
        raise DamagedError("is empty")
    stamp = _stamp(data)
    if stamp is None:
        raise DamagedError("is truncated or was not written by a sweep")
    if _digest(data, *stamp.span(1)) != stamp[1]:
        raise DamagedError("was altered: its digest does not fit")
    word = stamp[2].decode()
    try:
        values = from_json(stamp[3])
        if values[0] == "keyed":
            text = _keyed(data, values[1], what)
        else:
            check_version(values[1], what)
            text = json.dumps(positional_seals.OLDER[word](values)).encode()
        check_version(from_json(text)["schema_version"], what)
        return _FORMS[word].validate_json(text)
    except (ValueError, TypeError, LookupError) as error:
        raise DamagedError("has a seal of no known form") from error


def _keyed(data: bytes, version: Any, what: str) -> bytes:
    """The text of a keyed seal.

    Raises:
        ValueError: there is none, or the version is none.
        StoreError: a newer version of this program wrote it.
    """
    if type(version) is int and version > SEAL_VERSION:
        raise StoreError(f"{what!r} has seal version {version}, this program knows up to {SEAL_VERSION}: update it")
    text = _SEAL.search(data, footer_start(data))
    if version != SEAL_VERSION or text is None:
        raise ValueError("there is no seal of this version")
    return text[0]


def _digest(data: bytes, start: int, end: int) -> bytes:
    """Digest of a file with the digest's own place, from `start` to `end`, zeroed; 32 hexadecimal digits."""
    digest = hashlib.blake2b(memoryview(data)[:start], digest_size=16)
    digest.update(b"0" * (end - start))
    digest.update(memoryview(data)[end:])
    return digest.hexdigest().encode()


def footer_start(data: bytes) -> int:
    """Where the footer of a parquet file begins; a file without a whole footer has it at its end."""
    if len(data) < 12 or not data.startswith(_MAGIC) or not data.endswith(_MAGIC):
        return len(data)
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return start if start >= 4 else len(data)


def _stamp(data: bytes) -> re.Match[bytes] | None:
    """The place of the digest in the footer of a parquet file; None if the file has none or is not whole."""
    return _STAMP.search(data, footer_start(data))


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
