"""Phrases of messages: counts, durations, proposals, and text that a terminal may be sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper import messages


def test_a_noun_agrees_with_its_number():
    assert [messages.counted(number, "trial") for number in (0, 1, 2, 2000)] == [
        "0 trials", "1 trial", "2 trials", "2,000 trials",
    ]  # fmt: skip
    assert [messages.counted(number, "GPU") for number in (0.5, 1.0, 4096.0)] == ["0.5 GPUs", "1 GPU", "4096 GPUs"]
    assert [messages.inflected(number, "is", "are") for number in (0, 1, 2)] == ["are", "is", "are"]


def test_slow_steps_are_not_told_as_none():
    assert [messages.speed(rate) for rate in (0.0, 0.417, 9.96, 1230.4)] == [
        "0 steps/s", "0.42 steps/s", "10 steps/s", "1,230 steps/s",
    ]  # fmt: skip


def test_durations_have_two_units_at_most():
    seconds = [3.0, 99.0, 100.0, 120.0, 599.0, 600.0, 5999.0, 6001.0, 172_799.0, 176_400.0]
    assert [messages.duration(value) for value in seconds] == [
        "3 s", "99 s", "1 min 40 s", "2 min", "9 min 59 s", "10 min", "1 h 40 min", "1 h 40 min", "2 d 0 h", "2 d 1 h",
    ]  # fmt: skip


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


@pytest.mark.slow
@given(st.text())
def test_printable_text_is_printable_and_stays_as_it_is(text):
    shown = messages.printable(text)
    assert shown.isprintable()
    assert messages.printable(shown) == shown


def test_many_lines_keep_their_reason():
    heading = "1 validation error for TrialSpec\n  Value error, no such task\n\n"
    assert messages.one_line(heading) == "1 validation error for TrialSpec; Value error, no such task"
    long = messages.one_line("\n".join(["Traceback:", "frame " * 200, "the reason \udcff"]))
    assert long.startswith("Traceback:; frame")
    assert long.endswith(r"the reason \udcff")
    assert len(long) < 410


@pytest.mark.parametrize(
    ("program", "typed"),
    [
        ("/usr/bin/sweeper", "sweeper run 'a b.yaml'"),
        ("sweeper/__main__.py", "python -m sweeper run 'a b.yaml'"),
        ("/usr/lib/ipykernel_launcher.py", "python -m sweeper run 'a b.yaml'"),
    ],
)
def test_a_command_is_advised_as_this_process_was_started(monkeypatch, program, typed):
    monkeypatch.setattr("sys.argv", [program])
    assert messages.typed("run", "a b.yaml") == typed
