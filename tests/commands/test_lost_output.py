"""Output that goes away, is full, or cannot encode a character ends no command, and prints no traceback."""

import io
import os
import shlex
import subprocess
import sys

import pytest
from rich.console import Console

from sweeper.sweeps.output import Output
from sweeper.trial import plugins

COMMANDS = [
    ["status"],
    ["query", "best", "coloring_starts"],
    *(["query", "from trials", "--format", form] for form in ("csv", "json", "parquet")),
    ["run", "search_spaces/coloring_halving.yaml", "--dry-run"],
]

pytestmark = pytest.mark.slow  # each command is a process


def run(command, stdout, **environment):
    program = [sys.executable, "-m", "sweeper", *command, "--results", "published"]
    return subprocess.run(
        program, cwd=plugins.ROOT, env=os.environ | environment, stdout=stdout, stderr=subprocess.PIPE, text=True,
        check=False,
    )  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_full_disk_is_one_sentence_and_a_reader_who_has_had_enough_is_none(command):
    with open("/dev/full", "wb") as full:
        done = run(command, full)
    assert (done.returncode, done.stderr) == (1, "the output could not be written: No space left on device\n")
    reader, writer = os.pipe()
    os.close(reader)
    done = run(command, writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_closed_output_is_none(command):
    program = shlex.join([sys.executable, "-m", "sweeper", *command, "--results", "published"])
    closed = ["sh", "-c", f"{program} >&-"]
    done = subprocess.run(closed, cwd=plugins.ROOT, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_terminal_of_ascii_gets_other_characters(command):
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run(command, subprocess.DEVNULL, **ascii_only)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_program_whose_reader_goes_away_goes_on():
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    output = Output.plain(Gone())
    assert isinstance(output.out, Console)
    output.say("a line")
    output.say("another")
