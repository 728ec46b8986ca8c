"""DuckDB, pandas, polars and pyarrow read the folders of a store as they are, without options: each trial once, always.

So they do with the shipped store. The snippets are those of docs/store.md.
"""

import dataclasses
import math
import os
import re
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pytest

from sweeper.store import local_files
from sweeper.store.store import Store
from sweeper.trial.trial import trial_of
from tests.results import failure, outcomes, result

ROOT = Path(__file__).parents[2]


@pytest.fixture
def store(tmp_path):
    """Finished trials of two baselines, one without a network, and a failed trial without outcomes."""
    store = Store.open(tmp_path / "results")
    for seed, baseline in enumerate(("Aq_R", "Aq_R", "AE_r0")):
        trial = {"seed": seed, "baseline": baseline}
        curves = [(1, "train_loss", float(seed))]
        metrics = {"success": seed / 4}
        network = {} if seed else None
        store.commit(result(trial, metrics=metrics, curves=curves, outcomes=outcomes(2), network=network))
    store.commit(failure({"seed": 7}))
    return store


def snippets():
    """The lines of Python of the page's section about other tools."""
    text = (ROOT / "docs" / "store.md").read_text()
    section = text.partition("## Other tools")[2].partition("\n## ")[0]
    return re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]


def test_the_snippets_of_the_page_agree(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(snippets(), names)
    for tool in ("by_duckdb", "by_pandas", "by_polars", "by_pyarrow"):
        assert dict(names[tool]) == {"Aq_R": 0.125, "AE_r0": 0.5}, tool


@pytest.mark.slow  # 1,388 files by four tools
def test_the_shipped_store_has_the_same_numbers_for_all():
    trials = ROOT / "published" / "trials"
    columns = ["trial_id", "success", "loss", "q", "learning_rate", "steps", "cpu_seconds"]
    frames = {
        "duckdb": duckdb.sql(f"select * from '{trials}/**/*.parquet'").select(*columns).df(),
        "pandas": pd.read_parquet(trials, columns=columns),
        "polars": pl.scan_parquet(f"{trials}/**/*.parquet").collect().select(columns).to_pandas(),
        "pyarrow": ds.dataset(trials).to_table(columns=columns).to_pandas(),
    }
    expected = Store.existing(ROOT / "published").trials().select(columns).to_pandas()
    assert len(expected) > 1000
    for tool, frame in frames.items():
        sorted_frame = frame.sort_values("trial_id", ignore_index=True)
        pd.testing.assert_frame_equal(sorted_frame, expected, check_dtype=False, check_exact=True, obj=tool)


def counts(path):
    """Rows of the files of trials as four tools count them, and how many trials they are of."""
    frames = [pd.read_parquet(path), pl.read_parquet(path), ds.dataset(path).to_table().to_pandas()]
    return {
        duckdb.sql(f"select count(*), count(distinct trial_id) from '{path}/**/*.parquet'").fetchall()[0],
        *((len(frame), len(set(frame["trial_id"]))) for frame in frames),
    }


@pytest.mark.slow
def test_each_trial_is_there_once_at_every_moment_of_commits_and_of_a_compaction(store, tmp_path, monkeypatch):
    seen, fsync = [], os.fsync

    def looked_at(descriptor):
        seen.append(counts(tmp_path / "results" / "trials"))
        fsync(descriptor)

    monkeypatch.setattr(local_files.os, "fsync", looked_at)
    store.commit(result({"seed": 7}))
    store.commit(result({"seed": 8}))
    assert seen == [{(4, 4)}] * 3 + [{(5, 5)}]
    store.compact()
    assert store.listing("snapshots")
    assert len(seen) > 5
    assert seen[4:] == [{(5, 5)}] * (len(seen) - 4)


def test_nested_columns_are_read_by_all(store, tmp_path):
    trials = tmp_path / "results" / "trials"
    unnested = f"select unnest(outcomes['success']) as success from '{trials}/**/*.parquet'"
    assert duckdb.sql(f"select sum(success) from ({unnested})").fetchall() == [(3 * (0.0 + 1.0),)]
    maps = [dict(outcomes) for outcomes in pl.read_parquet(trials)["outcomes"].to_list() if outcomes]
    assert [list(outcomes["success"]) for outcomes in maps] == [[0.0, 1.0]] * 3
    frame = pd.read_parquet(trials, columns=["trial_id", "curves"])
    points = [dict(curves) for curves in frame["curves"] if curves is not None and len(curves)]
    assert sorted(curves["train_loss"][0]["value"] for curves in points) == [0.0, 0.2, 1.0, 2.0]


def test_the_metrics_of_all_kinds_of_trial_are_read_by_name(store, tmp_path):
    """Metrics with a column of their own and others, of a folder with an experiment beside learned algorithms."""
    experiment = trial_of({"experiment": {"name": "classification"}, "steps": 1})
    made = result(metrics={"accuracy": 0.75, "loss": 0.125, "reach": math.inf})
    store.commit(dataclasses.replace(made, trial=experiment))
    trials = tmp_path / "results" / "trials"
    asked = "select metrics['{}'] as value from '{}/**/*.parquet' where value is not null order by value"
    for name, values in (("accuracy", [0.75]), ("loss", [0.125]), ("reach", []), ("success", [0.0, 0.25, 0.5])):
        assert [value for (value,) in duckdb.sql(asked.format(name, trials)).fetchall()] == values
        for column in (
            pl.read_parquet(trials)["metrics"].to_list(),
            pd.read_parquet(trials, columns=["metrics"])["metrics"],
            ds.dataset(trials).to_table(columns=["metrics"])["metrics"].to_pylist(),
        ):
            found = [value for metrics in column for key, value in dict(metrics).items() if key == name]
            assert sorted(value for value in found if value is not None) == values
            assert len(found) == len(values) or name == "reach"
