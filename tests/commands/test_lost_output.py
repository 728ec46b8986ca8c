"""A reader who has had enough, such as `head`, ends a command without a word."""

import os
import subprocess
import sys

import pytest

from sweeper.trial import plugins

LINES = "select range from range(50000)"  # more than any buffer holds


@pytest.mark.slow
@pytest.mark.parametrize("command", [["query", LINES, "--format", "csv"]])
def test_a_reader_who_has_had_enough_is_no_error(command, made):
    reader, writer = os.pipe()
    os.close(reader)
    program = [sys.executable, "-m", "sweeper", *command, "--results", made.url]
    done = subprocess.run(program, cwd=plugins.ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert done.stderr == ""
