"""`python -m sweeper.export` writes one view as one file."""

import json
import re
from pathlib import Path

import pandas as pd
import polars as pl
import pytest
import safetensors.numpy
from typer.testing import CliRunner

from sweeper.commands import export
from sweeper.store.store import Store
from sweeper.trial.trial_spec import trial_id
from tests.processes import refusal
from tests.results import WEIGHTS, failure, outcomes, result


@pytest.fixture
def results(tmp_path):
    store = Store.open(tmp_path / "results")
    store.commit(result(metrics={"success": 0.5, "partwise_5": 0.25}))
    store.commit(result({"seed": 1}, outcomes=outcomes(3)))
    store.commit(failure({"seed": 2}))
    return store


def exported(results, file, *options):
    return CliRunner().invoke(export.app, [str(file), "--results", results.url, *options])


def test_a_home_that_is_not_there_is_no_folder_of_this_name(results, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = exported(results, Path("~nosuchuser/trials.csv"))
    assert done.exit_code == 2
    assert "names the home of a user that this machine does not know" in re.sub(r"[│\s]+", " ", done.output)
    assert not (tmp_path / "~nosuchuser").exists()


@pytest.mark.parametrize(("view", "rows"), [("trials", 3), ("curves", 6), ("outcomes", 15)])
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_view_is_one_file(results, tmp_path, view, rows, suffix):
    file = tmp_path / f"{view}{suffix}"
    file.write_text("an earlier export")
    done = exported(results, file, "--view", view)
    assert (done.exit_code, done.output) == (0, f"{rows} rows of {view} written to {file}\n")
    pandas_reads, polars_reads = (
        (pd.read_parquet, pl.read_parquet) if suffix == ".parquet" else (pd.read_csv, pl.read_csv)
    )
    assert len(pandas_reads(file)) == len(polars_reads(file)) == rows
    assert not list(tmp_path.glob(".*"))


def test_trials_have_their_further_columns(results, tmp_path):
    exported(results, tmp_path / "t.parquet")
    frame = pd.read_parquet(tmp_path / "t.parquet").sort_values("seed")
    assert frame["vertices"].tolist() == [5, 5, 5]
    assert frame["partwise_5"].tolist()[0] == 0.25
    exported(results, tmp_path / "t.csv")
    assert json.loads(pd.read_csv(tmp_path / "t.csv")["votes"][0]) == [3]


def test_a_network_is_a_safetensors_file(results, tmp_path):
    file, key = tmp_path / "network.safetensors", trial_id(result().trial)
    done = exported(results, file, "--trial", key[:6])
    assert (done.exit_code, done.output) == (0, f"the network of trial {key} written to {file}\n")
    weights = safetensors.numpy.load_file(file)
    assert {name: values.tolist() for name, values in weights.items()} == {
        name: values.tolist() for name, values in WEIGHTS.items()
    }
    failed = trial_id(failure({"seed": 2}).trial)
    for arguments, words in (
        ((file,), "--trial ID"), ((tmp_path / "x.csv", "--trial", key), "--trial ID"),
        ((file, "--trial", "zz"), "no committed trial"), ((file, "--trial", failed), "failed, and has no network"),
        ((tmp_path / "x.txt",), "must end in .parquet or .csv"), ((tmp_path / "no" / "x.csv",), "No such"),
    ):  # fmt: skip
        assert words in refusal(export.app, *arguments, "--results", results.url)


def test_a_store_that_is_not_there_is_told(tmp_path):
    nowhere = refusal(export.app, tmp_path / "x.csv", "--results", tmp_path / "nowhere")
    assert "there is no results store" in nowhere
