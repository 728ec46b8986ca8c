"""A table of values as text: what stands on which side, and how a value is written."""

import math

import pyarrow as pa
import pytest

from sweeper.analysis.table import attempted, markdown, narrowed, texts, values, width
from sweeper.tables import MISSING, Amount, table, value_text


def test_numbers_stand_on_the_right_and_all_else_on_the_left():
    row = {"n": 1, "amount": Amount(10, "10 (49.1 %)"), "missing": MISSING, "word": "x", "truth": True, "pair": (1, 2)}
    lines = markdown(table([row, dict.fromkeys(row)])).splitlines()
    assert lines[1:] == [
        "| ---: | ---: | ---: | --- | --- | --- |",
        '| 1 | 10 (49.1 %) | - | x | true | [1, 2] |',
        "|  |  |  |  |  |  |",
    ]  # fmt: skip


def test_a_text_of_a_store_stays_in_its_cell():
    frame = table([{"a|b": "c|d\n\x1b[2J"}], "title", "note")
    assert markdown(frame) == "## title\n\n| a&#124;b |\n| --- |\n| c&#124;d\\n\\x1b[2J |\n\nnote"


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (1234567, "count", "1,234,567"),
        (0.123456, "number", "0.1235"),
        (0.5, "per cent", "50.0 %"),
        (90, "seconds", "90 s"),
        (0.1 + 0.2, "", "0.3"),
        (math.inf, "", "inf"),
        (math.nan, "", "nan"),
        ([1.0, None], "", "1, null"),
        ((1, 2), "", "[1, 2]"),
        (tuple(range(100)), "", "0, …, 99 (100 values)"),
        (None, "count", ""),
        ("no moment", "moment", "no moment"),
    ],
)
def test_a_format_says_how_a_value_is_written(value, form, text):
    assert texts(table([{"a": value}], formats={"a": form})) == [(text,)]


def test_a_format_that_there_is_not_is_an_error():
    with pytest.raises(KeyError):
        texts(table([{"a": 1}], formats={"a": "counts"}))


def test_values_of_a_store_stay_as_they_are():
    frame = values(pa.table({"n": pa.array([2**60, None]), "x": pa.array([math.nan, None])}))
    assert (frame["n"].tolist(), frame["x"][1], value_text(frame["x"][0])) == ([2**60, None], None, "nan")


def test_columns_are_left_out_from_the_last_until_the_table_fits():
    frame = table([{"a": "x" * 10, "b": "x" * 10, "c": "x" * 10, "d": "x" * 10}], "title")
    assert width(frame) == 46
    fitted, left_out = narrowed(frame, 30, ["b", "c"])
    assert ([*fitted.columns], left_out, fitted.attrs["title"]) == (["a", "d"], ["b", "c"], "title")


def test_a_table_that_cannot_be_made_says_why():
    made = attempted("Votes", lambda: 1 / 0)
    assert not isinstance(made, float)
    assert made.empty
    assert "ZeroDivisionError" in made.attrs["note"]
