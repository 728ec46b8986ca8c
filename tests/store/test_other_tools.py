"""DuckDB, pandas, polars and pyarrow read the folders of a store as they are, without options: each trial once, always.

So they do with the shipped store. The snippets are those of docs/store.md.
"""

import dataclasses
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


@pytest.mark.slow  # all files by four tools
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


def test_maps_are_read_by_all(store, tmp_path):
    """Metrics with a column of their own and others, of a folder with an experiment beside learned algorithms."""
    experiment = trial_of({"experiment": {"name": "classification"}, "steps": 1})
    store.commit(dataclasses.replace(result(metrics={"accuracy": 0.75}, curves=[], outcomes=None), trial=experiment))
    trials = tmp_path / "results" / "trials"

    def by_duckdb(asked):
        return duckdb.sql(f"select {asked} as value from '{trials}/**/*.parquet' where value is not null").fetchall()

    assert sorted(by_duckdb("metrics['success']")) == [(0.0,), (0.25,), (0.5,)]
    assert by_duckdb("metrics['accuracy']") == [(0.75,)]
    assert by_duckdb("list_sum(outcomes['success'])") == [(1.0,)] * 3
    assert sorted(by_duckdb("curves['train_loss'][1].value")) == [(0.0,), (0.2,), (1.0,), (2.0,)]
    columns = ["metrics", "outcomes", "curves"]
    for rows in (
        pl.read_parquet(trials).select(columns).to_dicts(),
        pd.read_parquet(trials, columns=columns).to_dict("records"),
        ds.dataset(trials).to_table(columns=columns).to_pylist(),
    ):
        metrics, outcomes, curves = ([dict(row[name] or ()) for row in rows] for name in columns)
        assert sorted(of["success"] for of in metrics if of.get("success") is not None) == [0.0, 0.25, 0.5]
        assert [of["accuracy"] for of in metrics if "accuracy" in of] == [0.75]
        assert [list(of["success"]) for of in outcomes if of] == [[0.0, 1.0]] * 3
        assert sorted(of["train_loss"][0]["value"] for of in curves if of) == [0.0, 0.2, 1.0, 2.0]
