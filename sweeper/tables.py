"""A table is a pandas frame of values, and its `attrs` say how it is printed.

A cell keeps its value, and None is a missing one. `str` writes a value and `float` sorts it. `attrs` have a `title`, a
`note` that explains the rows, and `formats`: by the name of a column that of one of the formats of
`sweeper.analysis.table`, which prints tables. Every room may make one.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd


def value_text(value: Any) -> str:
    """An entry of a specification, or any other value, as people write it."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return ", ".join(map(value_text, value)) or "[]"
    return json.dumps(value) if value is None or type(value) in (bool, tuple) else str(value)


def values_text(values: Sequence[Any], most: int, between: str = ", ") -> str:
    """Values as people list them, and of more than `most` their ends and their number: "0, …, 99 (100 values)"."""
    if len(values) > most:
        return f"{value_text(values[0])}, …, {value_text(values[-1])} ({len(values):,} values)"
    return between.join("none" if value is None else value_text(value) for value in values)


def table(
    rows: Iterable[Mapping[str, Any]], title: str = "", note: str = "", formats: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Rows, each with its cells by the heads of the columns. Without any row it is a title and a note."""
    return titled(pd.DataFrame(list(rows), dtype=object), title, note, formats)


def titled(
    frame: pd.DataFrame, title: str = "", note: str = "", formats: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """The frame with a title, a note and the formats of its columns."""
    frame.attrs.update(title=title, note=note, formats=dict(formats or {}))
    return frame
