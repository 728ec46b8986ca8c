"""The query command answers in every format, reads what it must, and can do nothing but read."""

import csv
import io
import json
import math
import os
import re

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sweeper
from sweeper.analysis import results as results_frame
from sweeper.analysis import sql
from sweeper.analysis.sql import QueryError
from sweeper.analysis.table import SHOWN
from sweeper.messages import UserError
from sweeper.space import search_space
from sweeper.store import store
from sweeper.store.store import Store, StoreError
from sweeper.trial import plugins
from sweeper.trial.trial import trial_id
from tests.processes import refusal, told
from tests.results import failure, outcomes, record, result
from tests.tiny_sweeps import with_seeds


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Two finished trials, one of them with an infinite q, and a failed one."""
    filled = Store.open(tmp_path_factory.mktemp("query") / "results")
    filled.commit(result(metrics={"success": 0.5, "partwise_5": 0.25, "seeds": 7.0}))
    filled.commit(result({"seed": 1, "objective": {"q": "inf", "m": 2}}, outcomes=outcomes(3)))
    filled.commit(failure({"seed": 2}, message="[red]no markup[/red]"))
    return filled


def asked(results, *arguments):
    return told("query", "--results", results.url, *arguments)


def rows_of(results, *arguments):
    """The lines of an answer, as words."""
    return [line.split() for line in asked(results, *arguments).stdout.splitlines()]


def test_a_frame_of_trials(results):
    frame = sql.frame("select seed, success, q, evaluation_votes from trials order by seed", results)
    assert isinstance(frame, pd.DataFrame)
    assert frame["seed"].tolist() == [0, 1, 2]
    assert frame["q"].tolist() == [3, math.inf, 3]
    assert frame["success"].isna().tolist() == [False, False, True]
    assert list(frame["evaluation_votes"][0]) == [3]
    sums = sql.frame("select sum(seed) as small, sum(seed) / 2 as half from trials", results.url)
    assert sums.to_dict("list") == {"small": [3.0], "half": [1.5]}


def test_entries_of_the_specification_are_columns(results):
    table = sql.table("select * from trials order by seed", results)
    names = table.column_names
    assert names[: len(store.TRIALS)] == store.TRIALS.names
    assert len({name.lower() for name in names}) == len(names)
    first = table.to_pylist()[0]
    assert first == first | {
        "task_vertices": 5, "task_training_cycles": None, "model_width": 4, "optimizer_weight_decay": 0.0,
        "optimizer_schedule": "cosine", "evaluation_seeds": 10, "evaluation_votes": [3],
    }  # fmt: skip
    carried = {"task_name", "model_name", "optimizer_name", "objective_q", "optimizer_learning_rate"}
    assert not carried & set(names), "what the store has a column for is there once"


def test_other_metrics_are_columns_and_never_shadow_one(results):
    names = "partwise_5, evaluation_seeds, seeds"
    rows = sql.table(f"select {names} from trials order by seed", results).to_pylist()
    assert rows[0] == {"partwise_5": 0.25, "evaluation_seeds": 10, "seeds": 7.0}
    assert rows[2] == {"partwise_5": None, "evaluation_seeds": 10, "seeds": None}


@pytest.mark.parametrize(
    ("values", "expected", "kind"),
    [
        ([1, None, 2], [1, None, 2], pa.int64()),
        ([1, "inf"], [1.0, math.inf], pa.float64()),
        ([True, False], [True, False], pa.bool_()),
        (["inf", "a"], ['"inf"', '"a"'], pa.string()),
        ([[1, 2], []], [[1, 2], []], pa.list_(pa.int64())),
        ([[1], ["a", "inf"]], ["[1]", '["a", "inf"]'], pa.string()),
        ([2**70, 1], [str(2**70), "1"], pa.string()),
        ([None, None], [None, None], pa.null()),
    ],
)
def test_plain_data_get_the_narrowest_type(values, expected, kind):
    specs = [json.dumps({"task": {"size": value}}) for value in values]
    rows = results_frame.named(pa.table({"spec": specs, "extra_metrics": ["{}"] * len(specs)}))
    assert (rows["task_size"].to_pylist(), rows["task_size"].type) == (expected, kind)


def test_each_outcome_has_its_column_and_each_input_its_row(results):
    (trial,) = sql.chosen_ids("seed = 1 -- one", results)
    frame = sql.frame(f"select * from outcomes where trial_id = '{trial}' order by input", results)
    assert frame["input"].tolist() == [0, 1, 2]
    for name, values in outcomes(3).items():
        assert frame[name].tolist() == pytest.approx(values, rel=2**-13), name
    joined = "select max(input) as last, max(step) as step from outcomes join curves using (trial_id) group by trial_id"
    assert sql.frame(f"{joined} order by last", results).to_dict("list") == {"last": [2, 11], "step": [200, 200]}


def test_only_the_views_a_query_names_are_read(results, monkeypatch):
    read = []
    for name, view in sql.VIEWS.items():
        watched = view._replace(rows=lambda _, name=name, view=view: read.append(name) or view.schema.empty_table())
        monkeypatch.setitem(sql.VIEWS, name, watched)
    sql.frame("select count(*) from Curves", results)
    sql.frame("show tables", results)
    assert read == ["curves"]


# The command

ASK = "select seed, q, status, success, started, evaluation_votes from trials order by seed"


def test_the_table_has_what_was_asked_and_text_is_no_markup(results):
    heads, *rows = rows_of(results, ASK)
    assert heads == ["seed", "q", "status", "success", "started", "evaluation_votes"]
    assert [row[:3] for row in rows] == [["0", "3", "finished"], ["1", "inf", "finished"], ["2", "3", "failed"]]
    done = asked(results, "select *, upper(task) from trials order by seed")
    assert done.stdout.count("python -m sweeper.run search_spaces/quickstart.yaml") == 3, "nothing is cut"
    assert "[red]no markup[/red]" in done.stdout
    assert "variance" not in done.stdout.splitlines()[0].split(), "no row has a value"


def test_a_long_table_says_that_it_was_cut(results):
    long = f"select * from range({SHOWN + 5})"
    done = asked(results, long)
    assert len(done.stdout.splitlines()) == SHOWN + 2
    assert "--format csv" in done.stdout
    assert len(asked(results, "--format", "csv", long).stdout.splitlines()) == SHOWN + 6


def test_csv_json_and_parquet_are_those_of_duckdb(results):
    rows = list(csv.DictReader(io.StringIO(asked(results, "--format", "csv", ASK).stdout)))
    assert [(row["seed"], row["q"]) for row in rows] == [("0", "3.0"), ("1", "inf"), ("2", "3.0")]
    assert rows[2]["success"] == ""
    rows = json.loads(asked(results, "--format", "json", ASK).stdout)
    assert (rows[1]["q"], rows[1]["evaluation_votes"], rows[2]["success"]) == (math.inf, [3], None)
    written = io.BytesIO(asked(results, "--format", "parquet", ASK).stdout_bytes)
    for frame in (pl.read_parquet(written), pd.read_parquet(written)):
        assert list(frame["q"]) == [3, math.inf, 3]
    assert json.loads(asked(results, "--format", "json", f"select * from ({ASK}) where false").stdout) == []
    assert asked(results, "--format", "csv", "select '=1+1' as f").stdout.splitlines()[1] == "=1+1"


TWICE = "select t.success, e.success, t.* from trials t join trials e using (trial_id) order by 3"

PIVOT = "pivot (select seed, baseline, 1 as one from trials) on seed using sum(one) group by baseline"


@pytest.mark.parametrize(
    ("query", "first"), [(TWICE, "success"), (PIVOT, "baseline"), ("describe trials", "column_name")]
)
def test_two_columns_of_one_name_a_pivot_and_a_description_are_answers_in_every_form(results, query, first):
    names = sql.table(query, results).column_names
    assert list(sql.frame(query, results)) == names
    assert len({*names}) == len(names)
    assert names[0] == first
    for form in ("table", "csv", "json", "parquet"):
        assert asked(results, "--format", form, query).stdout_bytes


BAD = ["selec 1", "", "-- select 1", "select nope from trials", "select * from trails", "update trials set seed = 1"]

ELSEWHERE = [
    "select * from read_csv('{secret}')", "select * from '{secret}'", "select * from glob('{folder}/*')",
    "select * from secret_frame", "select * from read_parquet('http://127.0.0.1:9/x.parquet')",
    "copy (select 1) to '{target}'", "select 1; copy (select 1) to '{target}'", "attach '{target}'",
    "install httpfs", "set enable_external_access=true", "set lock_configuration=false",
]  # fmt: skip
"""What would read or write elsewhere; `secret_frame` is a variable of the test."""


@pytest.mark.parametrize("statement", [*BAD, *ELSEWHERE], ids=ascii)
def test_a_query_can_only_read_the_store_and_a_bad_one_is_a_message(results, tmp_path, monkeypatch, statement):
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sql.tempfile, "tempdir", str(tmp_path))
    secret_frame = pd.DataFrame({"secret": [1]})
    secret, target = folder / "secret.csv", folder / "target"
    secret.write_text("a,b\n1,2\n")
    statement = statement.format(secret=secret, target=target, folder=folder)
    with pytest.raises(QueryError):
        sql.frame(statement, results)
    done = told("query", "--results", results.url, "--format", "csv", statement, code=2)
    assert (done.stdout, bool(done.stderr.strip())) == ("", True)
    assert os.listdir(folder) == ["secret.csv"]
    assert os.listdir(tmp_path) == ["here"], "no scratch folder is left"
    assert len(secret_frame) == 1


def test_a_store_that_is_not_there_or_empty(tmp_path):
    with pytest.raises(StoreError, match="nowhere"):
        sql.frame("select 1", tmp_path / "nowhere")
    assert "foo" in refusal("query", "select 1", "--results", "foo://x")
    assert not (tmp_path / "nowhere").exists()
    for name in ("trials", "sweeps", "curves", "outcomes"):
        assert sql.frame(f"select trial_id from {name}", tmp_path).empty


# Sweeps and ready questions

SPACE = with_seeds(2).replace("q: 3", "q: {choice: [2, 4, inf]}") + "resources: {lanes: 2}\n"


def trained(q, seed, **metrics):
    return result({"objective": {"q": q, "m": 2}, "seed": seed}, metrics=metrics)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Two sweeps that share a trial; of one trial there is no row, and of one setting only one seed of two."""
    filled = Store.open(tmp_path_factory.mktemp("swept") / "results")
    trials = [
        trained(2.0, 0, success=0.5, success_worst5=0.1),
        trained(2.0, 1, success=0.6, success_worst5=0.2),
        trained(math.inf, 0, success=0.4, success_worst5=0.3),
        trained(math.inf, 1, success=0.5, success_worst5=0.3),
        trained(4.0, 0, success=1.0, success_worst5=1.0),
    ]
    for trial in trials:
        filled.commit(trial)
    ids = [trial_id(trial.trial) for trial in trials]
    for name, planned in {"small": [ids[0], "0" * 20], "all": [*ids[1:], ids[0]]}.items():
        for planned_then in (ids[4:], planned):
            filled.record_sweep(record(name, planned_then, SPACE))
    return filled


def test_a_sweep_is_what_its_latest_start_planned(swept):
    frame = sql.frame("select seed from trials join sweeps using (trial_id) where sweep = 'small'", swept)
    assert frame["seed"].tolist() == [0]
    planned = sql.frame("select sweep, count(*) as n from sweeps group by sweep order by sweep", swept)
    assert planned.to_dict("list") == {"sweep": ["all", "small"], "n": [5, 2]}


@pytest.mark.slow
def test_the_queries_of_the_documentation_have_an_answer(swept):
    pages = (plugins.ROOT / "README.md", *sorted((plugins.ROOT / "docs").glob("*.md")))
    query = r'-m sweeper[. ]query "(select[^"]+)"'
    examples = [found for page in pages for found in re.findall(query, page.read_text(), re.IGNORECASE)]
    assert examples
    for text in examples:
        text = " ".join(text.split())
        assert sql.table(text, swept).num_columns, text
        assert "avg(" not in text or "status = 'finished'" in text, "no average joins stopped trials with finished ones"


def test_the_results_of_a_sweep_are_a_narrow_frame_that_can_be_grouped(swept):
    frame = sweeper.results("all", swept.root)
    assert [*frame][:7] == ["trial_id", "status", "q", "seed", "success", "success_worst5", "task"]
    assert len(frame) == 5
    assert frame.notna().any().all(), "no column is null everywhere"
    assert not {"spec", "extra_metrics", "tags", "error_message"} & {*frame}
    assert frame.groupby("evaluation_votes")["success"].count().to_dict() == {(3,): 5}
    assert sweeper.sql("select tags from trials", swept.root).groupby("tags").size().to_dict() == {(): 5}
    assert asked(swept, "select distinct tags from trials").stdout.split() == ["tags", "[]"]
    with pytest.raises(UserError, match="'al'"):
        sweeper.results("al", swept.root)


def test_a_standard_error_is_that_of_the_average(swept):
    text = "select q, standard_error(success) as error from trials group by q order by q"
    two, four, infinite = sweeper.sql(text, swept.root)["error"]
    assert (two, infinite) == (pytest.approx(0.05), pytest.approx(0.05))
    assert math.isnan(four), "one training has none"


def test_the_best_settings_of_a_sweep(swept):
    _, heads, *rows, note = asked(swept, "best", "all").stdout.splitlines()
    assert heads.split() == ["rank", "q", "seeds", "success_worst5", "success"]
    assert [line.split()[:3] for line in rows] == [["1", "inf", "2"], ["2", "2", "2"]]
    assert "1 setting without a rank" in note
    first, second = csv.DictReader(io.StringIO(asked(swept, "best", "all", "--format", "csv").stdout))
    assert (first["rank"], first["q"], float(second["success_worst5"])) == ("1", "inf", pytest.approx(0.15))
    assert float(second["success_worst5_deviation"]) == pytest.approx(math.sqrt(0.005))


def test_the_best_setting_is_a_space_that_trains_it_again(swept, tmp_path):
    file = tmp_path / "again.yaml"
    file.write_text(asked(swept, "best", "all", "--yaml").stdout)
    space = search_space.read(file)
    assert (space.name, space.resources.lanes) == ("all-best", 2)
    assert [int(trial.seed) for trial in space.expand().trials] == [2, 3, 4, 5, 6]
    again = search_space.read(file, ("trial.seed={choice: [0, 1]}",))
    rows = [trial_id(trained(math.inf, seed).trial) for seed in (0, 1)]
    assert list(again.expand().trial_ids) == rows, "with the seeds of the search these are its trials"


@pytest.mark.parametrize(
    ("question", "named"),
    [
        (["best"], "all, small"), (["best", "al"], "'all'"), (["best", "all", "small"], "best"), (["show"], "show"),
        (["show", "xyz"], "'xyz'"), (["curves", ""], "5 trials"), (["select", "1"], "SELECT"),
        (["select 1", "--yaml"], "--yaml"),
    ],
)  # fmt: skip
def test_a_question_that_makes_no_sense_is_one_message(swept, question, named):
    assert named in refusal("query", "--results", swept.url, *question)


def test_all_about_a_trial(swept):
    shared = trial_id(trained(2.0, 0).trial)
    lines = rows_of(swept, "show", shared[:6])
    for words in (["sweeps", "all,", "small"], ["task", "coloring"], ["task_vertices", "5"], ["success", "0.5"]):
        assert words in lines
    (row,) = json.loads(asked(swept, "show", shared, "--format", "json").stdout)
    assert (row["trial_id"], row["sweeps"], row["task_vertices"]) == (shared, ["all", "small"], 5)


def test_the_curves_of_a_trial(swept):
    trial = trial_id(trained(4.0, 0).trial)
    points = [["step", "train_loss"], ["100", "0.2"], ["200", "0.1"]]
    assert rows_of(swept, "curves", trial[:8]) == [[trial], *points]
    assert list(csv.reader(io.StringIO(asked(swept, "curves", trial, "--format", "csv").stdout))) == points


def test_best_says_why_there_is_none_if_the_code_here_is_another_now(swept, monkeypatch):
    monkeypatch.setattr(results_frame, "numerics_version", lambda: 2)
    assert "all_trials" in refusal("query", "--results", swept.url, "best", "all")
    assert "all_trials" in asked(swept, "select seed from trials").stdout
