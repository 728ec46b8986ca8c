"""Values of Arrow columns as JSON has them, in the answers of queries and in exported files.

JSON has no NaN and no infinities: null, and the words that specifications use. A map becomes an object.
"""

import datetime
import decimal
import json
import math
from typing import Any

import pyarrow as pa


def json_value(value: Any, kind: pa.DataType) -> Any:
    """The value of a column of a type as JSON can hold it, at every depth."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {_key(json_value(key, kind.key_type)): json_value(item, kind.item_type) for key, item in value}
    if pa.types.is_struct(kind):
        return {part.name: json_value(value[part.name], part.type) for part in kind}
    if isinstance(value, list):
        return [json_value(item, kind.value_type) for item in value]
    if isinstance(value, pa.MonthDayNano):  # as ISO 8601 writes a duration
        return f"P{value.months}M{value.days}DT{value.nanoseconds / 1e9}S"
    if isinstance(value, bytes):
        return value.decode("ascii", errors="backslashreplace")
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return value if isinstance(value, str | bool | int | float) else str(value)


def _key(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def json_texts(column: pa.ChunkedArray) -> list[str | None]:
    """The values of a column as texts: JSON of lists, structs and maps."""
    values = [json_value(value, column.type) for value in column.to_pylist()]
    return [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]


def csv_table(table: pa.Table) -> pa.Table:
    """The table with texts where CSV has no form."""
    of_none = (pa.types.is_nested, pa.types.is_interval, pa.types.is_binary, pa.types.is_large_binary)
    for place, field in enumerate(table.schema):
        if any(is_of(field.type) for is_of in of_none):
            table = table.set_column(place, field.name, pa.array(json_texts(table.column(place)), pa.string()))
    return table
