"""Parquet files that prove themselves whole.

The footer of every file carries two short texts beside the columns: the seal, which describes the content
(`sweeper.store.seal`), and the digest of the whole file with the digest's own place zeroed. So the bytes of a file
alone show whether it was emptied, truncated or altered, and the seal shows its content without decoding a table. Pages
carry checksums too, for readers that take only some columns.

The digest stands in `{"digest":"…","seal":["keyed",3]}`, or `"compacted"` for a file of many trials. Programs from
before keyed seals take that 3 for a schema version that they do not know, and refuse the store.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic_core import from_json

from sweeper.store import positional_seals
from sweeper.store.schema import FileKind
from sweeper.store.seal import (
    SEAL_VERSION,
    AnySeal,
    CompactedSeal,
    DamagedError,
    DetailFile,
    EvaluationSeal,
    Seal,
    SealedFile,
    check_seal_version,
    check_version,
    digest_without,
    seal_of,
    text_of,
    word_of,
)

_STAMP = re.compile(rb'\{"digest":"([0-9a-f]{32})","(seal|compacted|evaluation)":(\[[^\x00-\x1f{}]*\])\}')
_SEAL = re.compile(rb'\{"baseline":[\x20-\x7e]*?,"version":\d+\}')
_MAGIC = b"PAR1"


def sealed(tables: Sequence[pa.Table], seal: AnySeal, options: dict[str, Any]) -> SealedFile:
    """A parquet file with a row group or more for each table, sealed.

    Args:
        tables: Tables of one schema.
        seal: The seal of the file.
        options: Options of pyarrow's writer.
    """
    stamp = json.dumps({"digest": "0" * 32, word_of(seal): ["keyed", SEAL_VERSION]}, separators=(",", ":"))
    buffer = pa.BufferOutputStream()
    with pq.ParquetWriter(buffer, tables[0].schema, store_schema=False, write_page_checksum=True, **options) as writer:
        for table in tables:
            writer.write_table(table)
        writer.add_key_value_metadata({"digest": stamp, "sweeper": text_of(seal)})
    data = buffer.getvalue().to_pybytes()
    place = _stamp(data)
    assert place is not None  # pyarrow keeps texts as they are
    start, end = place.span(1)
    digest = digest_without(data, start, end)
    return SealedFile(data[:start] + digest + data[end:], DetailFile(len(data), digest.decode()))


def unsealed(data: bytes, kind: FileKind, name: str | None = None) -> Seal:
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


def unsealed_compacted(data: bytes, kind: FileKind, name: str) -> CompactedSeal:
    """The seal of a compacted file; arguments and errors are those of `unsealed`."""
    seal = _proven(data, name)
    if not isinstance(seal, CompactedSeal) or seal.kind != kind or seal.name != name:
        raise DamagedError("is the file of other trials")
    return seal


def unsealed_evaluation(data: bytes, name: str) -> EvaluationSeal:
    """The seal of an evaluation; arguments and errors are those of `unsealed`."""
    seal = _proven(data, name)
    if not isinstance(seal, EvaluationSeal) or seal.name != name:
        raise DamagedError("is the file of another evaluation")
    return seal


END = 16 * 1024
"""Number of last bytes of a file of curves or outcomes that surely hold its digest."""


def digest_of(end: bytes) -> str | None:
    """The digest that a file carries, unproven, from the file or its last `END` bytes; None if it carries none."""
    stamps = _STAMP.findall(end[-END:])
    return stamps[-1][0].decode() if stamps else None


def is_whole(data: bytes) -> bool:
    """Whether the digest that a file carries is the file's."""
    stamp = _stamp(data)
    return stamp is not None and digest_without(data, *stamp.span(1)) == stamp[1]


def _proven(data: bytes, what: str) -> AnySeal:
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
    if digest_without(data, *stamp.span(1)) != stamp[1]:
        raise DamagedError("was altered: its digest does not fit")
    word = stamp[2].decode()
    try:
        values = from_json(stamp[3])
        if values[0] == "keyed":
            check_seal_version(values[1], what)
            text = _SEAL.search(data, footer_start(data))
            if text is None:
                raise ValueError("there is no seal")
            return seal_of(text[0], word, what)
        check_version(values[1], what)
        return seal_of(json.dumps(positional_seals.OLDER[word](values)), word, what)
    except (ValueError, TypeError, LookupError) as error:
        raise DamagedError("has a seal of no known form") from error


def footer_start(data: bytes) -> int:
    """Where the footer of a parquet file begins; a file without a whole footer has it at its end."""
    if len(data) < 12 or not data.startswith(_MAGIC) or not data.endswith(_MAGIC):
        return len(data)
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return start if start >= 4 else len(data)


def _stamp(data: bytes) -> re.Match[bytes] | None:
    """The place of the digest in the footer of a parquet file; None if the file has none or is not whole."""
    return _STAMP.search(data, footer_start(data))
