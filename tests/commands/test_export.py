"""`python -m sweeper export` writes one view, or one network, as one file."""

import json

import pandas as pd
import polars as pl
import pytest
import safetensors.numpy

from sweeper.store.store import Store
from sweeper.trial.trial import trial_id
from tests.processes import refusal, told
from tests.results import WEIGHTS, failure, outcomes, result

KEY, FAILED = trial_id(result().trial), trial_id(failure({"seed": 2}).trial)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    store = Store.open(tmp_path_factory.mktemp("export"))
    store.commit(result(metrics={"success": 0.5, "partwise_5": 0.25}))
    store.commit(result({"seed": 1}, outcomes=outcomes(3)))
    store.commit(failure({"seed": 2}))
    return store


def exported(results, file, *options):
    return told("export", file, "--results", results.url, *options).output


READERS = {".parquet": (pd.read_parquet, pl.read_parquet), ".csv": (pd.read_csv, pl.read_csv)}


@pytest.mark.parametrize(("view", "rows"), [("trials", 3), ("curves", 6), ("outcomes", 15)])
@pytest.mark.parametrize("suffix", READERS)
def test_a_view_is_one_file(results, tmp_path, view, rows, suffix):
    file = tmp_path / f"{view}{suffix}"
    file.write_text("an earlier export")
    assert exported(results, file, "--view", view).startswith(f"{rows} rows of {view} ")
    assert [len(read(file)) for read in READERS[suffix]] == [rows, rows]
    assert not list(tmp_path.glob(".*"))


def test_trials_have_their_further_columns(results, tmp_path):
    exported(results, tmp_path / "t.parquet")
    frame = pd.read_parquet(tmp_path / "t.parquet").sort_values("seed")
    assert frame["task_vertices"].tolist() == [5, 5, 5]
    assert frame["partwise_5"].tolist()[0] == 0.25
    exported(results, tmp_path / "t.csv")
    assert json.loads(pd.read_csv(tmp_path / "t.csv")["evaluation_votes"][0]) == [3]


def test_a_network_is_a_safetensors_file(results, tmp_path):
    file = tmp_path / "network.safetensors"
    assert KEY in exported(results, file, "--trial", KEY[:6])
    weights = safetensors.numpy.load_file(file)
    assert {name: values.tolist() for name, values in weights.items()} == {
        name: values.tolist() for name, values in WEIGHTS.items()
    }


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["n.safetensors"], "--trial"), (["x.csv", "--trial", KEY], "--trial"),
        (["n.safetensors", "--trial", "zz"], "'zz'"), (["n.safetensors", "--trial", FAILED], FAILED),
        (["x.txt"], "x.txt"), (["no/x.csv"], "no/"), (["x.csv", "--results", "nowhere"], "nowhere"),
        (["x.csv", "--sweep", "cycles"], "--sweep"), (["x.parquet", "--to", "csv"], "x.parquet"),
        (["logs", "--to", "tensorboard", "--view", "curves"], "--view"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(results, tmp_path, monkeypatch, arguments, named):
    monkeypatch.chdir(tmp_path)
    assert named in refusal("export", "--results", results.url, *arguments)
    assert not list(tmp_path.iterdir())
