"""What a terminal and a log show of a sweep."""

import io
import sys
import types

from rich.console import Console

from sweeper import events, listeners
from sweeper.events import Event, Listener
from sweeper.listeners import live_view
from sweeper.listeners.live_view import sentences
from sweeper.store.store import Store

PLANNED = events.SweepPlanned("test", trials=8, done=0, failed=0, steps={1: 2000}, programs=1)
STARTED = events.PackStarted("0123456789", "coloring Aq_R q=2 m=2", ("a", "b", "c", "d"), 250)
PROGRESSED = events.PackProgressed("0123456789", "training", 120, 250, 4, {}, 0.25, 40.0)


def heard_by(console: Console, store: Store) -> list[Listener]:
    """The listeners of a start from a command line."""
    return [listeners.view(console), *listeners.of_sweep(store, "", bool)]


def test_a_log_gets_the_counts_after_two_seconds_and_every_ten():
    out, now = io.StringIO(), [0.0]
    log = live_view.LogLines(Console(file=out, width=200), lambda: now[0])
    log.hear(PLANNED)
    for now[0] in (1.9, 2.0, 11.0, 11.9, 12.0, 21.0):
        log.hear(events.Ticked())
    assert out.getvalue().splitlines() == [
        "0/8 done · 0 running · 0 failed · waiting for a worker for 2 s · 2 s so far · time left unknown",
        "0/8 done · 0 running · 0 failed · waiting for a worker for 12 s · 12 s so far · time left unknown",
    ]


def shown(*heard: Event) -> str:
    """What a terminal gets of these events of a sweep."""
    out = io.StringIO()
    view = live_view.LiveView(Console(file=out, force_terminal=True, width=120))
    for event in (PLANNED, events.SweepStarted(None), *heard, events.Ticked(), events.SweepEnded()):
        view.hear(event)
    return out.getvalue()


def test_a_terminal_sees_running_packs_and_keeps_the_sentences():
    lost = events.TrialsLost("0123456789", ("a", "b"), "no space [left]")
    out = shown(STARTED, PROGRESSED, lost)
    for text in ("coloring Aq_R q=2 m=2", "training 120", "loss 0.25", "4 running", *sentences(lost)):
        assert text in out
    assert "waiting" in shown(STARTED)
    assert "waiting" not in out


def test_the_cursor_is_back_after_the_end():
    out = shown()
    assert out.rfind("\x1b[?25h") > out.rfind("\x1b[?25l") > 0
    # A sweep without a cluster has drawn nothing.
    live_view.LiveView(Console(file=io.StringIO(), force_terminal=True)).hear(events.SweepEnded())


def test_what_an_exception_says_cannot_steer_the_terminal(tmp_path):
    reason = "\x1b[2J\x1b]0;owned\x07\nand more"
    for form in ({}, {"force_terminal": True}):
        out = io.StringIO()
        console = Console(file=out, width=200, **form)
        for listener in heard_by(console, Store.open(tmp_path)):
            listener(events.TrialsLost("p", ("a",), reason))
            listener(events.PackFailed("p", ("a",), reason, reason))
        assert "\x1b[2J" not in out.getvalue()
        assert "\x07" not in out.getvalue()
        assert r"\x1b[2J\x1b]0;owned\x07\nand more" in out.getvalue()


def test_a_notebook_has_one_output_with_a_bar_and_no_line(monkeypatch, tmp_path, capsys):
    outputs = []

    class Output:
        def __init__(self, shown, **how):
            outputs.append(shown)

        def update(self, shown, **how):
            outputs[-1] = shown

    shell = types.SimpleNamespace(kernel=object())
    package = types.ModuleType("IPython")
    package.get_ipython = lambda: shell  # pyright: ignore[reportAttributeAccessIssue]
    module = types.ModuleType("IPython.display")
    module.display = Output  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    hear = heard_by(Console(), Store.open(tmp_path))[0]
    lost = events.TrialsLost("0123456789", ("a", "b"), "no <space> left")
    done = events.TrialCommitted("0123456789", "a", "finished")
    for event in (PLANNED, events.SweepStarted(None), STARTED, PROGRESSED, done, lost, events.SweepEnded()):
        hear(event)
    (shown,) = outputs
    assert '<progress max="8" value="1"' in shown["text/html"]
    assert "no &lt;space&gt; left" in shown["text/html"]
    assert "1/8 done" in shown["text/plain"]
    assert capsys.readouterr() == ("", "")
    shell.kernel = None
    assert heard_by(Console(file=io.StringIO()), Store.open(tmp_path))[0].__self__.__class__ is live_view.LogLines
