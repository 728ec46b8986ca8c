"""DuckDB, pandas, polars and pyarrow read the folders of a store as they are, without options: each trial once, always.

The snippets are those of docs/store.md, on `published/`.
"""

import itertools
import re
import threading
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pytest

from sweeper.store.copying import copy
from sweeper.store.store import Store
from tests.power_cuts import survived
from tests.results import failure, outcomes, result

ROOT = Path(__file__).parents[2]


def snippets():
    """The lines of Python of the page's section about other tools."""
    text = (ROOT / "docs" / "store.md").read_text()
    section = text.partition("## Other tools")[2].partition("\n## ")[0]
    return re.search(r"```python\n(.*?)```", section, re.DOTALL)[1]


@pytest.mark.slow
def test_the_snippets_of_the_page_agree_on_the_published_store(tmp_path, monkeypatch):
    (tmp_path / "results").symlink_to(ROOT / "published")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(snippets(), names)
    expected = Store.open(ROOT / "published").trials().to_pandas().groupby("baseline")["success"].mean()
    for tool in ("by_duckdb", "by_pandas", "by_polars", "by_pyarrow"):
        assert set(names[tool].keys()) == set(expected.index), tool
        assert all(names[tool][baseline] == pytest.approx(expected[baseline]) for baseline in expected.index), tool


def counts(path):
    """Rows of the files of trials as four tools count them, and how many trials they are of."""
    frames = [pd.read_parquet(path), pl.read_parquet(path).to_pandas(), ds.dataset(path).to_table().to_pandas()]
    return [
        duckdb.sql(f"select count(*), count(distinct trial_id) from '{path}/**/*.parquet'").fetchall()[0],
        *((len(frame), frame["trial_id"].nunique()) for frame in frames),
    ]


@pytest.fixture
def store(tmp_path):
    store = Store.open(tmp_path / "results")
    for seed in range(7):
        curves = [(1, "train_loss", float(seed))]
        store.commit(result({"seed": seed}, curves=curves, outcomes=outcomes(2), network=None if seed else {}))
    store.commit(failure({"seed": 7}))
    return store


@pytest.mark.slow
def test_each_trial_once_whenever_a_compaction_dies(store, tmp_path):
    for moment in itertools.count():
        ended = survived(moment, store.compact)
        assert counts(tmp_path / "results" / "trials") == [(8, 8)] * 4, moment
        if ended:
            break
        for name in store.listing("snapshots"):
            store.delete(name)
    assert moment == 2


@pytest.mark.slow
def test_each_trial_once_beside_commits_and_compactions(store, tmp_path):
    done = threading.Event()

    def work():
        for seed in itertools.count(100):
            if done.is_set():
                break
            store.commit(result({"seed": seed}))
            store.compact()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(10):
            assert all(rows == trials >= 8 for rows, trials in counts(tmp_path / "results" / "trials"))
    finally:
        done.set()
        worker.join()


def test_nested_columns_are_read_by_all(store, tmp_path):
    trials = tmp_path / "results" / "trials"
    unnested = f"select unnest(outcomes['success']) as success from '{trials}/**/*.parquet'"
    assert duckdb.sql(f"select sum(success) from ({unnested})").fetchall() == [(7 * (0.0 + 1.0),)]
    maps = [dict(outcomes) for outcomes in pl.read_parquet(trials)["outcomes"].to_list() if outcomes]
    assert [list(outcomes["success"]) for outcomes in maps] == [[0.0, 1.0]] * 7
    frame = pd.read_parquet(trials, columns=["trial_id", "curves"])
    points = {key: dict(curves or []) for key, curves in zip(frame["trial_id"], frame["curves"], strict=True)}
    assert sorted(points[key]["train_loss"][0]["value"] for key in points if points[key])[:2] == [0.0, 0.2]


@pytest.mark.slow
def test_a_store_in_a_bucket_is_read_by_all(store, s3):
    copy(store, Store.open(s3.url("tools")))
    folder = "bucket/tools/trials"
    by_polars = pl.read_parquet(f"s3://{folder}/", storage_options=s3.options).select("trial_id", "baseline").rows()
    by_pandas = pd.read_parquet(folder, filesystem=s3.filesystem)[["trial_id", "baseline"]]
    dataset = ds.dataset(folder, filesystem=s3.filesystem, partitioning="hive")
    by_pyarrow = dataset.to_table().to_pandas()
    rows = duckdb.from_arrow(dataset).select("trial_id", "baseline").fetchall()  # of its own it needs an extension
    for answer in (rows, by_polars, by_pandas.values.tolist(), by_pyarrow[["trial_id", "baseline"]].values.tolist()):
        assert sorted(map(tuple, answer)) == sorted((key, "Aq_R") for key in store.committed())
