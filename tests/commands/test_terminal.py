"""Text that strangers wrote into a store cannot control the terminal of its reader."""

import dataclasses
import json
import os
import pty
import subprocess
import sys
from collections.abc import Sequence

import pytest

from sweeper.listeners import heartbeats
from sweeper.store.annotations import annotate
from sweeper.store.store import Store
from sweeper.trial import plugins
from tests.filled_stores import swept
from tests.heartbeats import PACK, heartbeat
from tests.results import failure

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\rgone\u202e"
"""Sets the title, rings, clears the screen, in the 8-bit form too, and writes over the line."""

SHOWN = r"\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\rgone\u202e"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory) -> Store:
    """A store with hostile text in a row, in the command of a sweep and in what its driver says."""
    store = Store.open(tmp_path_factory.mktemp("hostile"))
    swept(store, failure(kind=HOSTILE, message=HOSTILE), name="hostile", command=HOSTILE)
    store.write_bytes("sweeps/hostile/000009-00000000.json", f'{{"schema_version": "{HOSTILE}"}}'.encode())
    annotate(store.files, "hostile", note=HOSTILE)
    pack = dataclasses.replace(PACK, label=HOSTILE, node=HOSTILE)
    heartbeats.write_heartbeat(store.files, "hostile", heartbeat(command=HOSTILE, state=HOSTILE, packs=(pack,)))
    return store


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


def on_terminals(commands: Sequence[Sequence[str]]) -> list[str]:
    """What each command prints, on both streams, to a terminal that is emulated by the program beside it."""
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


@pytest.mark.slow
def test_stored_text_is_spelt_out(hostile):
    commands = [
        ("sweeper", "query", "select error_message from trials"),
        ("sweeper", "query", QUERY),
        ("sweeper", "query", QUERY, "--format", "csv"),
        ("sweeper", "query", QUERY, "--format", "json"),
        ("sweeper", "query", "select * from trials"),
        ("sweeper", "query", "show", ""),
        ("sweeper", "query", "select error_message::int from trials"),
        ("sweeper", "query", f"select '{HOSTILE}' from nowhere"),
        ("sweeper", "status"),
        ("sweeper", "note", "hostile"),
        ("sweeper", "note", "hostile", HOSTILE, "--remove"),
        ("sweeper", "report"),
    ]
    told = on_terminals([[*command, "--results", hostile.url] for command in commands])
    assert SHOWN in told[0]
    for command, printed in zip(commands, told, strict=True):
        assert printed
        assert not {"\x1b", "\x07", "\x9b", "\x7f", "\u202e"} & set(printed), (command, ascii(printed))
        assert "\rgone" not in printed, command


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 2**16)
    except OSError:  # the end of a terminal
        return b""
