"""Folders of starts: those of the living stay, those of the dead go."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeper.temporary_folders import remove_those_of_the_dead, temporary_folder
from sweeper.trial import plugins

START = """
import sys
from sweeper.temporary_folders import temporary_folder
with temporary_folder("code") as folder:
    (folder / "project").mkdir()
    (folder / "project" / "a.py").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def start() -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    """A process that has a folder until its standard input ends."""
    command, pipe = [sys.executable, "-c", START], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=plugins.ROOT) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Temporary folders lie in one of this test."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def test_a_start_removes_the_folders_of_those_that_were_killed_and_of_no_other(elsewhere):
    (elsewhere / "sweeper-foreign").mkdir()
    with start() as (killed, left), start() as (_, living), temporary_folder("code") as own:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert left.is_dir()
        remove_those_of_the_dead()
        assert not left.exists()
        assert living.joinpath("project", "a.py").is_file()
        assert own.is_dir()
    assert [path.name for path in elsewhere.iterdir()] == ["sweeper-foreign"]


def test_a_folder_that_is_kept_is_removed_by_the_next_start():
    with temporary_folder("ray", keep=lambda folder: True) as folder:
        pass
    assert folder.is_dir()
    remove_those_of_the_dead()
    assert not folder.exists()
