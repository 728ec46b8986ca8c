"""What the benchmark of the first second sees of a start, and which processes' time it counts."""

import subprocess
import sys

import pytest

from benchmarks import first_second
from benchmarks.first_second import ALL, CHECKPOINT, END, FIRST, PLANNED, RAY, reached, table
from benchmarks.process_tree import ProcessTree, has_title
from sweeper.events import SweepStarted
from sweeper.listeners.views import sentences
from sweeper.store.schema import trial_file_name
from tests.heartbeats import until

ORPHAN = """
import os, time
parent = os.getppid()
print("begun", flush=True)
while os.getppid() == parent:
    time.sleep(0.01)
while time.process_time() < 0.35:  # which /proc, in hundredths, rounds down twice
    pass
print("worked", flush=True)
time.sleep(600)
"""
PARENT = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {ORPHAN!r}]); sys.stdin.readline()"
FIRST_PROCESS = f"import subprocess, sys, time; subprocess.run([sys.executable, '-c', {PARENT!r}]); time.sleep(600)"


def test_phases_are_seen_in_the_words_and_files_of_a_start(tmp_path):
    def files(*names):
        for name in names:
            tmp_path.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
            tmp_path.joinpath(name).touch()

    assert list(reached("quickstart: 2 trials\n", tmp_path)) == []
    printed = "quickstart: 2 trials\n  0 done · 2 to run\n"
    assert list(reached(printed, tmp_path)) == [PLANNED]
    printed += "\n".join(sentences(SweepStarted(None)))
    assert list(reached(printed, tmp_path)) == [PLANNED, RAY]
    first, second = (trial_file_name("coloring", "Aq_R", digit * 20) for digit in "ab")
    files("checkpoints/abc.ckpt", f".unfinished/{first}.0123456789abcdef")
    assert list(reached(printed, tmp_path)) == [PLANNED, RAY, CHECKPOINT]
    files(first)
    assert list(reached(printed, tmp_path)) == [PLANNED, RAY, CHECKPOINT, FIRST]
    files(second)
    assert list(reached(printed, tmp_path)) == [PLANNED, RAY, CHECKPOINT, FIRST, ALL]


def test_a_table_has_means_and_ranges_and_no_cell_for_what_was_not_seen():
    lines = table(["now, cold", "now, warm"], [[{END: 40.0, RAY: 8.0}, {END: 43.0}], [{END: 30.04}]]).splitlines()
    assert lines[0] == "| until | now, cold | now, warm |"
    assert f"| {END} | 41.5 (40.0 to 43.0) | 30.0 |" in lines
    assert f"| {RAY} | 8.0 |  |" in lines
    assert len(lines) == 2 + len(first_second.ROWS)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_time_of_an_orphan_counts_and_it_can_be_killed():
    pipe = subprocess.PIPE
    with (
        subprocess.Popen([sys.executable, "-c", FIRST_PROCESS], stdin=pipe, stdout=pipe, text=True) as first,
        subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=pipe) as stranger,
    ):
        tree = ProcessTree(first.pid)
        try:
            assert first.stdout.readline() == "begun\n"
            assert len(tree.look()) == 3
            first.stdin.write("\n")
            first.stdin.flush()
            assert first.stdout.readline() == "worked\n"
            until(lambda: len(tree.look()) == 2)
            assert tree.seconds > 0.3
            assert has_title(first.pid, sys.executable)
            assert stranger.pid not in tree.look()
        finally:
            tree.kill()
        until(lambda: tree.look() == [])
        assert tree.seconds > 0.3
        first.communicate()
        assert not has_title(first.pid, sys.executable)
    assert stranger.returncode == 0
