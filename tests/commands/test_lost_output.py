"""Output that goes away, is full, or cannot encode a character ends no command, and prints no traceback."""

import errno
import io
import os
import shlex
import subprocess
import sys

import pytest

from sweeper.events import Stream, SweepPlanned
from sweeper.listeners.live_view import LogLines
from sweeper.store.store import Store
from sweeper.sweeps.output import Output
from sweeper.trial import plugins
from tests.processes import complaints
from tests.tiny_sweeps import SPACE

pytestmark = pytest.mark.slow  # each command is a process

LINES = "select range, chr(177) as sign from range(50000)"  # more than any buffer holds, and not all in ASCII
FORMS = {form: ["query", LINES, "--format", form] for form in ("csv", "json", "parquet")}
COMMANDS = {"status": ["status"], "best": ["query", "best", "quick"], **FORMS}


def several(*here, of=COMMANDS):
    """The commands, of which `make test` runs those that are named."""
    params = [
        pytest.param(command, id=name, marks=() if name in here else pytest.mark.long) for name, command in of.items()
    ]
    return pytest.mark.parametrize("command", params)


def run(command, made, stdout, **environment):
    program = [sys.executable, "-m", "sweeper", *command, "--results", made.url]
    return subprocess.run(
        program, cwd=plugins.ROOT, env=os.environ | environment, stdout=stdout, stderr=subprocess.PIPE, text=True,
        check=False,
    )  # fmt: skip


@several("csv", of=COMMANDS | {"dry run": ["run", "search_spaces/ski_rental.yaml", "--dry-run"]})
def test_a_full_disk_is_one_sentence(command, made):
    with open("/dev/full", "wb") as full:
        done = run(command, made, full)
    assert done.returncode == 1
    assert os.strerror(errno.ENOSPC) in done.stderr
    assert len(complaints(done.stderr)) == 1


@several("parquet")
def test_a_reader_who_has_had_enough_is_no_error(command, made):
    reader, writer = os.pipe()
    os.close(reader)
    done = run(command, made, writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@several("csv", of={"best": COMMANDS["best"], "csv": FORMS["csv"]})
def test_a_terminal_of_ascii_gets_other_characters(command, made):
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run(command, made, subprocess.DEVNULL, **ascii_only)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.long  # starts a cluster; the tests of streams below hold in this process what this needs
def test_a_sweep_outlives_who_reads_its_log(tmp_path):
    (tmp_path / "tiny.yaml").write_text(SPACE)
    program = [sys.executable, "-m", "sweeper.run", str(tmp_path / "tiny.yaml"), "--address", "local"]
    read = f"{shlex.join([*program, '--results', str(tmp_path / 'results')])} 2>&1 | head -1"
    assert subprocess.run(["sh", "-c", read], cwd=plugins.ROOT, stdout=subprocess.DEVNULL, check=False).returncode == 0
    assert list(Store.open(tmp_path / "results").committed().values()) == ["finished"]


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ENOSPC, errno.EIO])
def test_a_program_whose_streams_have_gone_goes_on(number, monkeypatch):
    class Gone(io.StringIO):
        def write(self, text):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(sys, "stdout", Gone())
    monkeypatch.setattr(sys, "stderr", Gone())
    for output in (Output.plain(), Output.plain(Gone())):
        output.say("a line")
        output.complain("another")
        with Stream([LogLines(output.out).hear], warn=output.complain) as stream:
            stream.emit(SweepPlanned("sweep", trials=1, done=0, failed=0, programs={}))


def test_a_program_in_ascii_spells_out_what_it_cannot_print():
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Output.plain(file).say("0.5 ± 0.1")
    file.flush()
    assert file.buffer.getvalue() == b"0.5 \\xb1 0.1\n"
