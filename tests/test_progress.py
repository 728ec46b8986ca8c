"""What people see while a command works: a bar on a terminal, lines elsewhere."""

import contextlib
import io
import re
import threading

from sweeper import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


AT_ONCE = progress.Pace(patience=0.0, news=0.0, drawing=0.001, line=0.001)


def until_shown(stream, text):
    """Wait, while something is under way, until a stream has a text."""
    for _ in range(2000):
        if text in stream.getvalue():
            return
        threading.Event().wait(0.005)
    raise AssertionError(stream.getvalue())


def seen(stream):
    """What is left on a terminal of one line: what was written since the line was last cleared."""
    return re.split(r"\r\x1b\[2K", stream.getvalue())[-1]


def test_a_log_gets_lines_about_the_innermost_activity():
    log = io.StringIO()
    with progress.shown(log, AT_ONCE), progress.doing("planning"):
        until_shown(log, "planning · 0 s\n")
        for number in progress.each(range(3), "reading files"):
            until_shown(log, f"reading files: {number} of 3 · 0 s\n")


def test_a_terminal_gets_a_bar_that_is_gone_when_the_activity_has_ended():
    terminal = Terminal()
    with progress.shown(terminal, AT_ONCE):
        for number in progress.each(range(4), "copying"):
            until_shown(terminal, f"copying: {number} of 4 · 0 s")
            assert "╌" in terminal.getvalue()
        assert seen(terminal) == "", "who prints next has the line"
        with progress.doing("importing \x1b[2J"):
            until_shown(terminal, r"importing \x1b[2J")
    assert seen(terminal) == ""
    assert "\x1b[?25l" not in terminal.getvalue(), "a signal may end the process while the bar is there"


def test_an_activity_that_fails_has_ended():
    terminal = Terminal()
    with progress.shown(terminal, AT_ONCE):
        with contextlib.suppress(ValueError), progress.doing("drawing"):
            until_shown(terminal, "drawing")
            raise ValueError
        assert seen(terminal) == ""


def test_what_ends_at_once_is_not_shown():
    log, terminal, patient = io.StringIO(), Terminal(), AT_ONCE._replace(patience=60.0)
    with progress.shown(log, patient), progress.shown(terminal, patient), progress.doing("planning"):
        threading.Event().wait(0.05)
    assert log.getvalue() == terminal.getvalue() == ""
