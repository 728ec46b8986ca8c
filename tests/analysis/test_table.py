"""A table of values as text: how a value is written."""

import math

import pyarrow as pa
import pytest

from sweeper.analysis.table import markdown, texts, values
from sweeper.tables import table, value_text


def test_a_text_of_a_store_stays_in_its_cell():
    frame = table([{"a|b": "c|d\n\x1b[2J"}], "title", "note")
    assert markdown(frame) == "## title\n\n| a&#124;b |\n| --- |\n| c&#124;d\\n\\x1b[2J |\n\nnote"


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (0.123456, "number", "0.1235"),
        (0.5, "per cent", "50.0 %"),
        (0.1 + 0.2, "", "0.3"),
        (math.nan, "", "nan"),
        ([1.0, None], "", "1, null"),
        ((1, 2), "", "[1, 2]"),
        (None, "count", ""),
    ],
)
def test_a_format_says_how_a_value_is_written(value, form, text):
    assert texts(table([{"a": value}], formats={"a": form})) == [(text,)]


def test_values_of_a_store_stay_as_they_are():
    frame = values(pa.table({"n": pa.array([2**60, None]), "x": pa.array([math.nan, None])}))
    assert (frame["n"].tolist(), frame["x"][1], value_text(frame["x"][0])) == ([2**60, None], None, "nan")
