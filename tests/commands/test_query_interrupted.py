"""Ctrl-C ends a query, also while the database works."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from sweeper.store.store import Store
from sweeper.trial import plugins
from tests.results import result

pytestmark = pytest.mark.slow

LONG = {
    "a cross join": "select count(*) from range(1000000) a, range(1000000) b, range(1000000) c where a.range < b.range",
    "a sort that spills": "select * from range(3000000000) order by hash(range) limit 1 offset 1000000000",
    "stored rows": "select count(*) from trials a, range(1000000) b, range(1000000) c where b.range + c.range < 0",
}


@pytest.mark.parametrize("sql", LONG.values(), ids=LONG)
def test_an_endless_query_ends_with_ctrl_c(tmp_path: Path, sql: str):
    Store.open(tmp_path / "results").commit(result())
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "sweeper", "query", sql, "--results", str(tmp_path / "results")],
        cwd=plugins.ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"TMPDIR": str(scratch)},
    )  # fmt: skip
    own = scratch / f"sweeper-{os.getuid()}"  # a user's folder, which stays (`private_folder`)
    while not {*scratch.iterdir()} - {own}:
        assert process.poll() is None
        time.sleep(0.05)
    working = psutil.Process(process.pid)
    begun = sum(working.cpu_times()[:2])
    while sum(working.cpu_times()[:2]) < begun + 0.5:  # CPU seconds, so that the query is under way on any machine
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.communicate()[0] == ""
    assert process.returncode == 130
    assert not {*scratch.iterdir()} - {own}
