"""Other tools see each trial once: in an exported file always, in the folders whenever a start has looked at the store.

Compactions are killed at every one of their steps, and DuckDB, pandas and polars count.
"""

import contextlib
import itertools
import os
import signal

import duckdb
import pandas as pd
import polars as pl
import pytest

from sweeper.analysis.view_files import write_view
from sweeper.store import compaction
from sweeper.store.compaction import compact
from sweeper.store.local_files import LocalFiles
from sweeper.store.store import Store
from sweeper.trial.trial_spec import trial_id
from tests.results import outcomes, result

TRIALS = 7


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(compaction, "TOGETHER", 3)
    store = Store.open(tmp_path / "results")
    for seed in range(TRIALS):
        store.commit(result({"seed": seed}, curves=[(1, "train_loss", float(seed))], outcomes=outcomes(2)))
    return store


def counts(path):
    """Rows of parquet files as three tools count them, and how many trials they are of."""
    read = [pd.read_parquet(path), pl.read_parquet(path)]
    files = f"{path}/**/*.parquet" if path.is_dir() else path
    return [
        duckdb.sql(f"select count(*), count(distinct trial_id) from '{files}'").fetchall()[0],
        *((len(frame), frame["trial_id"].nunique() if isinstance(frame, pd.DataFrame) else frame["trial_id"].n_unique())
          for frame in read),
    ]  # fmt: skip


def killed_compaction(store, moment):
    """Compacts in a child process that is killed before an operation on the files; False if it came to its end."""
    child = os.fork()
    if child == 0:
        operations = itertools.count()
        for name in ("write", "delete"):
            operation = getattr(LocalFiles, name)

            def run(*arguments, operation=operation, **options):
                if next(operations) == moment:
                    os.kill(os.getpid(), signal.SIGKILL)
                return operation(*arguments, **options)

            setattr(LocalFiles, name, run)
        with contextlib.suppress(BaseException):
            compact(store)
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0


@pytest.mark.slow
def test_each_trial_once_whenever_a_compaction_is_killed(store, tmp_path):
    doubled = 0
    for moment in itertools.count():
        killed = killed_compaction(store, moment)
        doubled += counts(tmp_path / "results" / "trials")[0] != (TRIALS, TRIALS)
        for view, rows in (("trials", TRIALS), ("curves", TRIALS), ("outcomes", 2 * TRIALS)):
            assert write_view(store, view, tmp_path / f"{view}.parquet") == rows
            assert counts(tmp_path / f"{view}.parquet") == [(rows, TRIALS)] * 3, moment
        store.committed()  # as every start does
        for view, rows in (("trials", TRIALS), ("curves", TRIALS), ("outcomes", 2 * TRIALS)):
            assert counts(tmp_path / "results" / view) == [(rows, TRIALS)] * 3, moment
        if not killed:
            break
    assert doubled, "kills have left doubles before a start has looked"


def test_a_better_row_is_the_only_row_after_a_compaction(store, tmp_path):
    seeds = range(20, 23)
    for seed in seeds:
        store.commit(result({"seed": seed}, status="stopped"))
    compact(store)
    store.commit(result({"seed": 21}))
    compact(store)
    assert counts(tmp_path / "results" / "trials") == [(TRIALS + 3, TRIALS + 3)] * 3
    assert store.trials([trial_id(result({"seed": 21}).trial)])["status"].to_pylist() == ["finished"]
    assert store.curves().num_rows == TRIALS + 3 * 2


def test_a_view_of_duckdb_counts_each_trial_once(store, tmp_path):
    """The definition that docs/store gives."""
    assert killed_compaction(store, 3), "after the swap and one deletion"
    assert counts(tmp_path / "results" / "trials")[0] != (TRIALS, TRIALS)
    connection = duckdb.connect()
    connection.execute(f"""
        create view trials as from '{tmp_path}/results/trials/**/*.parquet' qualify row_number() over (
            partition by trial_id order by status = 'finished' desc, status = 'stopped' desc) = 1
    """)
    assert connection.sql("select count(*), count(distinct trial_id) from trials").fetchall()[0] == (TRIALS, TRIALS)
