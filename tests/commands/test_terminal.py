"""Text that strangers wrote into a store cannot control the terminal of its reader."""

import dataclasses
import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from sweeper.store.store import Store, SweepRecord
from sweeper.trial import plugins, provenance
from sweeper.trial.trial_spec import trial_id
from tests.results import failure

pytestmark = pytest.mark.slow

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\rgone\u202e"
"""Sets the title, rings, clears the screen, in the 8-bit form too, and writes over the line."""

SHOWN = r"\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\rgone\u202e"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with hostile text in a row and in the command of a sweep."""
    store = Store.open(tmp_path / "results")
    row = failure()
    row = dataclasses.replace(row, error={"kind": HOSTILE, "message": HOSTILE, "step": 1})
    store.commit(row)
    origin = provenance.capture([HOSTILE])
    record = SweepRecord(name="hostile", text="", overrides=(), trial_ids=(trial_id(row.trial),), provenance=origin)
    store.record_sweep(record)
    return tmp_path / "results"


def on_a_terminal(*arguments: str) -> str:
    """What a command prints to a terminal, on both streams."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments], cwd=plugins.ROOT, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
        env=os.environ | {"TERM": "dumb", "COLUMNS": "400"},
    )  # fmt: skip
    os.close(theirs)
    printed = io.BytesIO()
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        printed.write(part)
    process.wait()
    os.close(ours)
    return printed.getvalue().decode(errors="surrogateescape")


QUERY = 'select error_message, error_kind as "a\x1bc" from trials'


@pytest.mark.parametrize(
    "arguments",
    [
        ("sweeper.query", QUERY),
        ("sweeper.query", QUERY, "--format", "csv"),
        pytest.param(("sweeper.query", QUERY, "--format", "json"), marks=pytest.mark.long),
        pytest.param(("sweeper.query", "select * from trials"), marks=pytest.mark.long),
        ("sweeper.query", "show", ""),
        ("sweeper.query", "select error_message::int from trials"),
        ("sweeper.query", f"select '{HOSTILE}' from nowhere"),
        ("sweeper.status",),
        ("sweeper.report",),
    ],
    ids=lambda arguments: " ".join(arguments).encode("unicode_escape").decode(),
)
def test_stored_text_is_spelt_out(store, arguments):
    printed = on_a_terminal(*arguments, "--results", str(store))
    assert printed
    assert not {"\x1b", "\x07", "\x9b", "\x7f", "\u202e"} & set(printed), ascii(printed)
    assert "\rgone" not in printed


def test_a_query_shows_what_was_there(store):
    assert SHOWN in on_a_terminal("sweeper.query", "select error_message from trials", "--results", str(store))


def test_programs_get_the_text_as_it_is(store):
    command = [sys.executable, "-m", "sweeper.query", QUERY, "--format", "csv", "--results", str(store)]
    done = subprocess.run(command, cwd=plugins.ROOT, capture_output=True, check=True)
    assert HOSTILE.encode() in done.stdout
