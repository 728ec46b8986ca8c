"""Phrases of messages: proposals, and text that a terminal may be sent."""

import pytest

from sweeper import messages


def test_the_nearest_name_is_proposed():
    known = ("learning_rate", "weight_decay")
    assert messages.nearest_name("Learning_Rte", known) == "learning_rate"
    assert "'learning_rate'" in messages.did_you_mean("learning_rate")
    assert messages.did_you_mean(messages.nearest_name("colour", known)) == ""
    assert messages.nearest_name(3, known) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ünïcode and 数", "plain, ünïcode and 数"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\x9b31mred", "\\x9b31mred"),
        ("a\rb\tc\x07\x08", "a\\rb\\tc\\x07\\x08"),
        ("right\u202eleft", "right\\u202eleft"),
        ("half \ud800 a pair", "half \\ud800 a pair"),
    ],
)
def test_what_a_terminal_would_obey_is_spelt_out(text, shown):
    assert messages.printable(text) == shown
    assert messages.printable_lines(f"{text}\n{text}") == f"{shown}\n{shown}"
    assert messages.printable("a\nb") == "a\\nb"


def test_many_lines_keep_their_reason():
    heading = "1 validation error for TrialSpec\n  Value error, no such task\n\n"
    assert messages.one_line(heading) == "1 validation error for TrialSpec; Value error, no such task"
    long = messages.one_line("\n".join(["Traceback:", "frame " * 200, "the reason \udcff"]))
    assert long.startswith("Traceback:; frame")
    assert long.endswith(r"the reason \udcff")
    assert len(long) < 410
