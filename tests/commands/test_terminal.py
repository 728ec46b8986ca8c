"""Text that strangers wrote into a store cannot control the terminal of its reader."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from sweeper.store.annotations import Subject, annotate
from sweeper.store.store import Store
from sweeper.trial import plugins
from tests.filled_stores import swept
from tests.results import failure

pytestmark = pytest.mark.slow

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\rgone\u202e"
"""Sets the title, rings, clears the screen, in the 8-bit form too, and writes over the line."""

SHOWN = r"\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\rgone\u202e"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with hostile text in a row and in the command of a sweep."""
    store = Store.open(tmp_path / "results")
    swept(store, failure(kind=HOSTILE, message=HOSTILE), name="hostile", command=HOSTILE)
    store.write_bytes("sweeps/hostile/000009-00000000.json", f'{{"schema_version": "{HOSTILE}"}}'.encode())
    annotate(store.files, Subject("hostile"), note=HOSTILE)
    return tmp_path / "results"


RUNS_ALL = """
import json, runpy, sys
for arguments in json.loads(sys.argv[1]):
    sys.argv = arguments
    try:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    except SystemExit:
        pass
    print("== END ==", flush=True)
"""
"""Runs commands in turns: most of a command's time is its imports."""


def on_a_terminal(*commands: Sequence[str]) -> list[str]:
    """What each command prints to a terminal, on both streams."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", RUNS_ALL, json.dumps(commands)], cwd=plugins.ROOT, stdin=subprocess.DEVNULL,
        stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "dumb", "COLUMNS": "400"},
    )  # fmt: skip
    os.close(theirs)
    printed = b"".join(iter(lambda: _read(ours), b""))
    process.wait()
    os.close(ours)
    *parts, rest = printed.decode(errors="surrogateescape").split("== END ==\r\n")
    assert (len(parts), rest) == (len(commands), ""), ascii(rest)
    return parts


QUERY = 'select error_message, error_kind as "a\x1bc" from trials'


def test_stored_text_is_spelt_out(store):
    commands = [
        ("sweeper.query", "select error_message from trials"),
        ("sweeper.query", QUERY),
        ("sweeper.query", QUERY, "--format", "csv"),
        ("sweeper.query", QUERY, "--format", "json"),
        ("sweeper.query", "select * from trials"),
        ("sweeper.query", "show", ""),
        ("sweeper.query", "select error_message::int from trials"),
        ("sweeper.query", f"select '{HOSTILE}' from nowhere"),
        ("sweeper.status",),
        ("sweeper", "note", "hostile"),
        ("sweeper", "note", "hostile", HOSTILE, "--remove"),
        ("sweeper.report",),
    ]
    told = on_a_terminal(*([*command, "--results", str(store)] for command in commands))
    assert SHOWN in told[0]
    for command, printed in zip(commands, told, strict=True):
        assert printed
        assert not {"\x1b", "\x07", "\x9b", "\x7f", "\u202e"} & set(printed), (command, ascii(printed))
        assert "\rgone" not in printed, command


def test_programs_get_the_text_as_it_is(store):
    command = [sys.executable, "-m", "sweeper.query", QUERY, "--format", "csv", "--results", str(store)]
    done = subprocess.run(command, cwd=plugins.ROOT, capture_output=True, check=True)
    assert HOSTILE.encode() in done.stdout


@pytest.mark.parametrize("program", ["WezTerm", "other"])
def test_a_terminal_that_can_shows_the_picture_itself(tmp_path, program):
    parent, terminal = pty.openpty()
    command = ["-m", "sweeper", "plot", "q", "success", "--results", "published", "--where", "keys = 15", "--out"]
    running = subprocess.Popen(
        [sys.executable, *command, str(tmp_path / "plot.png")], cwd=plugins.ROOT, stdout=terminal,
        env=os.environ | {"TERM_PROGRAM": program},
    )  # fmt: skip
    os.close(terminal)
    printed = b"".join(iter(lambda: _read(parent), b""))
    assert running.wait() == 0
    assert (b"\x1b]1337;File=inline=1:iVBOR" in printed) == (program == "WezTerm")
    assert b"figure: " in printed


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 2**16)
    except OSError:  # the end of a terminal
        return b""
