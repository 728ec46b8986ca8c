"""From a file of rows to a table, and whether the rows and their seals say the same.

A file may be whole, with the digest that belongs to its bytes, and still make no sense: rows of another trial or status
than the seal says, a specification that is no JSON, or a few kilobytes that would be decoded to gigabytes.
"""

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic_core import from_json

from sweeper.store.decoded_size import ROWS_LIMIT, decoded_bytes
from sweeper.store.quarantine import Damage
from sweeper.store.schema import IN_FILE
from sweeper.store.seal import Seal
from sweeper.store.sealed_parquet import footer_start

_COMPARED = ["trial_id", "status", "spec", "extra_metrics"]


def decoded_rows(data: bytes, name: str, seals: Sequence[Seal]) -> pa.Table | Damage:
    """The rows in a file, whose columns are some of those of `TRIALS`; columns of newer programs are left out.

    Args:
        data: The file.
        name: Its name below `trials`.
        seals: The seal of each row, from the file's seal.
    """
    return _decoded(data, name, seals, None)


def contradiction(data: bytes, name: str, seals: Sequence[Seal]) -> Damage | None:
    """The contradiction between the rows of a file and its seal, in words; None if they agree. See `decoded_rows`."""
    if len(seals) == 1 and _in_plain_text(data, seals[0]):
        return None  # a start reads thousands of such files, and decoding takes ten times as long as reading
    rows = _decoded(data, name, seals, _COMPARED)
    return rows if isinstance(rows, Damage) else None


def _decoded(data: bytes, name: str, seals: Sequence[Seal], columns: Collection[str] | None) -> pa.Table | Damage:
    """The rows with all known columns, or with some."""
    declared = IN_FILE["trials"]
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        size, schema = decoded_bytes(file.metadata), file.schema_arrow
        if size > ROWS_LIMIT:
            return Damage("trials", name, f"would take {size:,} bytes, too many for rows")
        names = None  # of all columns: pyarrow reads them faster without their names
        if columns is not None or not schema.equals(declared):
            known = [field for field in schema if field.name in (columns or declared.names)]
            names = [field.name for field in known if field in declared]
            if len(names) < len(known):
                return Damage("trials", name, "has columns of other types than a trial's row")
        if file.metadata.num_rows != len(seals):
            return Damage("trials", name, "does not hold the row of a trial")
        table = file.read(columns=names, use_threads=False).replace_schema_metadata(None)
    except (pa.ArrowException, OSError) as error:
        return Damage("trials", name, str(error))
    reason = _disagreement(table, seals)
    return table if reason is None else Damage("trials", name, reason)


def _disagreement(rows: pa.Table, seals: Sequence[Seal]) -> str | None:
    """How rows disagree with their seals or with themselves, in words; None if they agree."""
    if missing := {"trial_id", "status", "spec"}.difference(rows.column_names):
        return f"has no column {min(missing)!r}"
    for column in ("trial_id", "status"):
        if rows[column].to_pylist() != [getattr(seal, column) for seal in seals]:
            return f"has another {column} than its seal"
    for spec, seal in zip(rows["spec"].to_pylist(), seals, strict=True):
        try:
            values = from_json(spec)
            named = (values["task"]["name"], values["baseline"])
        except (ValueError, TypeError, LookupError):
            return "has no readable specification"
        if named != (seal.task, seal.baseline):
            return "has the specification of another task or baseline"
    for metrics in rows["extra_metrics"].to_pylist() if "extra_metrics" in rows.column_names else ():
        try:
            if metrics is not None and not isinstance(from_json(metrics), dict):
                return "has no readable metrics"
        except ValueError:
            return "has no readable metrics"
    return None


def _in_plain_text(data: bytes, seal: Seal) -> bool:
    """Whether the bytes of a row before its seal show the trial, status, task and baseline that the seal says.

    Rows are written without compression, so they do. False only means that the row has to be decoded.
    """
    columns = data[: footer_start(data)]
    words = (seal.trial_id, seal.status)
    parts = [len(word).to_bytes(4, "little") + word.encode() for word in words]
    parts += [f'"baseline":"{seal.baseline}"'.encode(), f'"name":"{seal.task}"'.encode()]
    return all(part in columns for part in parts)
