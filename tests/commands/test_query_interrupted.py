"""Ctrl-C ends a query, also inside long functions of the database."""

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
    "a recursion": "with recursive r(n) as (select 1 union all select n + 1 from r) select max(n) from r",
    "a sort that spills": "select * from range(3000000000) order by hash(range) limit 1 offset 1000000000",
    "aggregates": "select count(distinct a.range * b.range) from range(1000000) a, range(1000000) b",
    "windows": "select max(s) from (select sum(hash(a.range)) over (order by hash(b.range)) s from range(100000) a, "
    "range(100000) b)",
    # One call of one function for the whole time, within which nothing looks up.
    "one call of a function": "select levenshtein(repeat('a', 300000), repeat('b', 300000))",
    "stored rows": "select count(*) from trials a, range(1000000) b, range(1000000) c where b.range + c.range < 0",
    "curves": "select count(*) from curves, range(1000000) b, range(1000000) c where b.range + c.range < 0",
}


HARDEST = "one call of a function"
"""The process ends with it all the same; all others are also ended by the database."""


@pytest.mark.parametrize(
    "sql", [pytest.param(sql, id=name, marks=() if name == HARDEST else pytest.mark.long) for name, sql in LONG.items()]
)
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
    assert process.communicate() == ("", "interrupted\n")
    assert process.returncode == 130
    assert not {*scratch.iterdir()} - {own}
