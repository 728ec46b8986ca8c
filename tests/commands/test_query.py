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
from rich.console import Console

from sweeper.analysis import answer_formats, sql
from sweeper.analysis import results as results_frame
from sweeper.analysis.sql import QueryError
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


def refused(results, *arguments):
    return refusal("query", "--results", results.url, *arguments)


def rows_of(results, *arguments):
    """The lines of an answer, as words."""
    return [line.split() for line in asked(results, *arguments).stdout.splitlines()]


def test_a_frame_of_trials(results):
    frame = sql.frame("select seed, success, q from trials order by seed", results)
    assert isinstance(frame, pd.DataFrame)
    assert frame["seed"].tolist() == [0, 1, 2]
    assert frame["q"].tolist() == [3, math.inf, 3]
    assert frame["success"].isna().tolist() == [False, False, True]
    huge = sql.frame("select sum(9223372036854775807) as huge, sum(seed) as small from trials", results)
    assert huge.to_dict("list") == {"huge": [3 * 2.0**63], "small": [3]}
    by_folder = sql.frame("select count(*) as n from trials", results.url)
    assert by_folder["n"].tolist() == [3]


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
        ([1, 2.5], [1.0, 2.5], pa.float64()),
        ([1, "inf"], [1.0, math.inf], pa.float64()),
        ([True, False], [True, False], pa.bool_()),
        (["a", None], ["a", None], pa.string()),
        (["inf", "a"], ['"inf"', '"a"'], pa.string()),
        ([[1, 2], []], [[1, 2], []], pa.list_(pa.int64())),
        ([[1], ["a"]], ["[1]", '["a"]'], pa.string()),
        ([[1], ["a", "inf"]], ["[1]", '["a", "inf"]'], pa.string()),
        ([True, 1], ["true", "1"], pa.string()),
        ([2**70, 1], [str(2**70), "1"], pa.string()),
        ([None, None], [None, None], pa.null()),
    ],
)
def test_plain_data_get_the_narrowest_type(values, expected, kind):
    specs = [json.dumps({"task": {"size": value}}) for value in values]
    rows = results_frame.named(pa.table({"spec": specs, "extra_metrics": [None] * len(specs)}))
    assert (rows["task_size"].to_pylist(), rows["task_size"].type) == (expected, kind)


def test_curves_and_outcomes_can_be_joined(results):
    frame = sql.frame(
        "select seed, max(input) as last, max(step) as step from trials join outcomes using (trial_id) "
        "join curves using (trial_id) where status = 'finished' group by seed order by seed",
        results,
    )
    assert frame.to_dict("list") == {"seed": [0, 1], "last": [11, 2], "step": [200, 200]}


def test_each_outcome_has_its_column_and_each_input_its_row(results):
    (trial,) = sql.chosen_ids("seed = 1", results)
    frame = sql.frame(f"select * from outcomes where trial_id = '{trial}' order by input", results)
    assert frame["input"].tolist() == [0, 1, 2]
    for name, values in outcomes(3).items():
        assert frame[name].tolist() == pytest.approx(values, rel=2**-13), name


def test_only_the_views_a_query_names_are_read(results, monkeypatch):
    read = []
    for name, view in sql.VIEWS.items():
        watched = view._replace(rows=lambda _, name=name, view=view: read.append(name) or view.schema.empty_table())
        monkeypatch.setitem(sql.VIEWS, name, watched)
    sql.frame("select count(*) from Curves", results)
    sql.frame("show tables", results)
    assert read == ["curves"]


# The command

STAR = "select * from trials order by seed"

ASK = "select seed, q, status, success, started, evaluation_votes from trials order by seed"


def test_the_table(results):
    heads, *rows = rows_of(results, ASK)
    assert heads == ["seed", "q", "status", "success", "started", "evaluation_votes"]
    assert [row[:3] for row in rows] == [["0", "3", "finished"], ["1", "inf", "finished"], ["2", "3", "failed"]]


def test_a_wide_table_is_not_cut_and_text_is_no_markup(results):
    done = asked(results, "select *, command from trials order by seed")
    assert done.stdout.count("python -m sweeper.run search_spaces/quickstart.yaml") == 3
    assert "[red]no markup[/red]" in done.stdout


def heads_of(results, *arguments):
    return rows_of(results, *arguments)[0]


@pytest.mark.slow
def test_a_star_leaves_out_provenance_unless_the_query_names_it(results):
    star = asked(results, STAR)
    assert not {*answer_formats.PROVENANCE, *answer_formats.JSON_COLUMNS} & {*star.stdout.splitlines()[0].split()}
    assert "--format csv" in star.stderr
    assert "device" in heads_of(results, "select *, device from trials")
    for text in ("select *, commit from trials", "from trials where commit is not null"):
        assert "commit" in heads_of(results, text)
    assert "commit" in asked(results, "--format", "csv", STAR).stdout.splitlines()[0].split(",")


def test_a_star_says_once_what_all_rows_share_and_shows_settings_before_metrics(results):
    done = asked(results, STAR)
    heads = done.stdout.splitlines()[0].split()
    assert "task coloring, baseline Aq_R, model transformer, m 2," in done.stderr
    assert heads[:5] == ["trial_id", "status", "q", "seed", "error_kind"]
    assert "variance" not in heads, "no row has a value"
    assert heads_of(results, "select task, * from trials order by seed")[0] == "task", "what the query names stays"


def test_a_star_fits_the_terminal(results, monkeypatch):
    monkeypatch.setattr(answer_formats, "console", lambda: Console(width=60, highlight=False))
    done = asked(results, STAR)
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert max(map(len, lines)) <= 60
    assert lines[1].startswith(f"{trial_id(result().trial)[:8]}… ")
    assert "optimizer_warmup_steps" in done.stderr, "for which there is no room"
    assert ["q", "3"] in rows_of(results, "select * from trials where seed = 0")


def test_expressions_beside_a_star_stay(results):
    heads = asked(results, "select *, 1 + 1, upper(task) from trials").stdout.splitlines()[0]
    assert "(1 + 1)" in heads
    assert "upper(task)" in heads.lower()


# Sweeps and ready questions

SPACE = with_seeds(2).replace("q: 3", "q: {choice: [2, 3]}")


def trained(q, seed, **metrics):
    return result({"objective": {"q": q, "m": 2}, "seed": seed}, metrics=metrics)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Two sweeps that share a trial; of one trial there is no row, and of one setting only one seed of two."""
    filled = Store.open(tmp_path_factory.mktemp("swept") / "results")
    trials = [
        trained(2.0, 0, success=0.5, success_worst5=0.1),
        trained(2.0, 1, success=0.6, success_worst5=0.2),
        trained(3.0, 0, success=0.4, success_worst5=0.3),
        trained(3.0, 1, success=0.5, success_worst5=0.3),
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
    assert len(examples) >= 5
    for text in examples:
        text = " ".join(text.split())
        assert sql.table(text, swept).num_columns > 1, text
        assert "avg(" not in text or "status = 'finished'" in text, "no average joins stopped trials with finished ones"


def test_who_looks_for_a_sweep_in_trials_is_told_where_it_is(swept):
    done = told("query", "--results", swept.url, "select avg(success) from trials where sweep = 'all'", code=2)
    assert "join sweeps using (trial_id) where sweep = 'x'" in done.stderr


def test_the_best_settings_of_a_sweep(swept):
    title, heads, *rows, without = asked(swept, "best", "all").stdout.splitlines()
    assert title.startswith("all: 2 settings by highest success_worst5")
    assert heads.split() == ["rank", "q", "seeds", "success_worst5", "success"]
    assert [line.replace(" ± ", "±").split() for line in rows] == [
        ["1", "3", "2", "0.3±0", "0.45±0.07"],
        ["2", "2", "2", "0.15±0.07", "0.55±0.07"],
    ]
    assert "1 setting without a rank" in without
    first, second = csv.DictReader(io.StringIO(asked(swept, "best", "all", "--format", "csv").stdout))
    assert (first["rank"], first["q"], second["success_worst5"]) == ("1", "3.0", str((0.1 + 0.2) / 2))
    assert float(second["success_worst5_deviation"]) == pytest.approx(math.sqrt(0.005))


@pytest.mark.parametrize(
    ("question", "named"),
    [
        (["best"], "all, small"), (["best", "al"], "'all'"), (["best", "all", "small"], "best"), (["show"], "show"),
        (["show", "xyz"], "'xyz'"), (["curves", ""], "5 trials"), (["select", "1"], "SELECT"),
    ],
)  # fmt: skip
def test_a_question_that_makes_no_sense_is_one_message(swept, question, named):
    assert named in refused(swept, *question)


def test_all_about_a_trial(swept):
    shared = trial_id(trained(2.0, 0).trial)
    lines = rows_of(swept, "show", shared[:6])
    assert ["sweeps", "all,", "small"] in lines
    assert ["setting", "task", "coloring"] in lines
    assert ["task_vertices", "5"] in lines
    assert ["metrics", "success", "0.5"] in lines
    assert ["lanes", "2"] in lines
    (record,) = json.loads(asked(swept, "show", shared, "--format", "json").stdout)
    assert (record["trial_id"], record["sweeps"], record["task_vertices"]) == (shared, ["all", "small"], 5)


def test_an_entry_called_like_a_metric_is_no_metric(results):
    lines = rows_of(results, "show", trial_id(result().trial))
    metrics = next(place for place, words in enumerate(lines) if words[:1] == ["metrics"])
    assert lines.index(["evaluation_seeds", "10"]) < metrics < lines.index(["seeds", "7"])


def test_a_failed_trial_shows_its_message(results):
    lines = rows_of(results, "show", trial_id(failure({"seed": 2}).trial))
    assert ["error_message", "[red]no"] in [line[:2] for line in lines]


def test_the_curves_of_a_trial(swept):
    trial = trial_id(trained(4.0, 0).trial)
    points = [["step", "train_loss"], ["100", "0.2"], ["200", "0.1"]]
    assert rows_of(swept, "curves", trial[:8]) == [[trial], *points]
    rows = csv.reader(io.StringIO(asked(swept, "curves", trial, "--format", "csv").stdout))
    assert list(rows) == points


def test_a_long_table_says_that_it_was_cut(results):
    long = f"select * from range({answer_formats.SHOWN + 5})"
    done = asked(results, long)
    assert len(done.stdout.splitlines()) == answer_formats.SHOWN + 1
    assert "--format csv" in done.stderr
    assert len(asked(results, "--format", "csv", long).stdout.splitlines()) == answer_formats.SHOWN + 6


def test_csv_and_json(results):
    rows = list(csv.DictReader(io.StringIO(asked(results, "--format", "csv", ASK).stdout)))
    assert [(row["seed"], row["q"]) for row in rows] == [("0", "3.0"), ("1", "inf"), ("2", "3.0")]
    assert rows[2]["success"] == ""
    rows = json.loads(asked(results, "--format", "json", ASK).stdout)
    assert rows[1] == {
        "seed": 1, "q": "inf", "status": "finished", "success": 0.75, "started": "2026-01-02T03:04:05+00:00",
        "evaluation_votes": [3],
    }  # fmt: skip
    assert rows[2]["success"] is None
    assert json.loads(asked(results, "--format", "json", f"select * from ({ASK}) where false").stdout) == []


@pytest.mark.parametrize("text", ["=1+1", "+1+1", "-1+1", "@SUM(1)", "\t=1", " =1+1", "\n=1", "\uff1d1+1"])
def test_no_cell_of_csv_is_a_formula_unless_it_is_to_be_raw(results, tmp_path, text):
    ask = f"select '{text}' as \"={text}\", '-1.5e3' as number, -2 as \"-2\", ['{text}'] as list"

    def rows(*options):
        return list(csv.reader(io.StringIO(asked(results, "--format", "csv", *options, ask).stdout, newline="")))

    assert rows() == [[f"'={text}", "number", "-2", "list"], [f"'{text}", "-1.5e3", "-2", json.dumps([text])]]
    assert rows("--raw")[1][0] == text
    told("export", tmp_path / "trials.csv", "--results", results.url, "--raw")


NESTED = {
    "sum(seed)": 3, "sum(seed)::decimal(9, 2)": 3.0, "'nan'::double": None, "['nan'::double, 1]": [None, 1.0],
    "{'x': '-inf'::float, 'y': [{'z': 'nan'::double}]}": {"x": "-inf", "y": [{"z": None}]},
    "map {'k': 'inf'::double}": {"k": "inf"}, "map {1.5: map {date '2026-01-02': null}}": {"1.5": {"2026-01-02": None}},
    "map {[1]: 2}": {"[1]": 2}, "[1.5::decimal(9, 2)]": [1.5], "interval 90 minutes": "P0M0DT5400.0S",
    "'a\\xFF'::blob": "a\\xff", "array['nan'::float]::float[1]": [None], "union_value(n := 'inf'::double)": "inf",
    "timestamp '2026-01-02 03:04:05'": "2026-01-02T03:04:05",
}  # fmt: skip


def test_json_and_csv_have_one_form_at_every_depth(results, tmp_path):
    query = f"select {', '.join(NESTED)} from trials"
    printed = asked(results, "--format", "json", query).stdout
    (record,) = json.loads(printed, parse_constant=pytest.fail)
    assert list(record.values()) == [*NESTED.values()]
    _, row = csv.reader(io.StringIO(asked(results, "--format", "csv", query).stdout))
    for text, value in zip(row, NESTED.values(), strict=True):
        if isinstance(value, list | dict):
            assert json.loads(text) == value
    assert '{"k": "inf"}' in asked(results, query).stdout
    empty = asked(results, "--format", "csv", "select null::integer[] as missing, 'a' as text").stdout
    assert list(csv.reader(io.StringIO(empty))) == [["missing", "text"], ["", "a"]]
    assert "x::text" in refused(results, "--format", "parquet", "select interval 1 day as i"), "is proposed"


TWICE = "select t.success, e.success, e.seed as success_1, t.* from trials t join trials e using (trial_id) order by 3"


@pytest.mark.slow
def test_two_columns_of_one_name_are_both_there(results):
    names = sql.table(TWICE, results).column_names
    assert len({name.lower() for name in names}) == len(names) == len(sql.frame("from trials", results).columns) + 3
    for within in (TWICE, f"from ({TWICE})", f"with x as ({TWICE}) from x"):
        assert list(sql.frame(within, results)) == names
    (record, *_) = json.loads(asked(results, "--format", "json", TWICE).stdout)
    assert list(record) == names
    assert [*record.values()][:3] == [0.5, 0.5, 0]
    assert asked(results, "--format", "csv", TWICE).stdout.splitlines()[0] == ",".join(names)
    written = io.BytesIO(asked(results, "--format", "parquet", TWICE).stdout_bytes)
    assert pl.read_parquet(written).columns == list(pd.read_parquet(written)) == names
    heads = heads_of(results, TWICE)
    assert heads[:2] == ["success", "success_1"]
    assert not {"started", "started_1"} & {*heads}


PIVOT = "pivot (select seed, baseline, 1 as one from trials) on seed using sum(one) group by baseline"


@pytest.mark.slow
def test_a_pivot_has_a_column_for_every_value_also_for_those_that_nobody_lists(results):
    seeds = sql.frame("select distinct seed from trials order by all", results)["seed"]
    for pivot in (PIVOT, f"from ({PIVOT})", f"with x as ({PIVOT}) from x", f"{PIVOT};"):
        assert list(sql.frame(pivot, results)) == ["baseline", *map(str, seeds)]
    asked(results, PIVOT)


BAD = [
    "selec 1", "", "-- select 1", "select 1; select 2", "select nope from trials", "select * from trails",
    "select cast(status as int) from trials", "update extensions", "explain select 1", "select date '290000-01-01'",
    "select [date 'infinity']", "prepare p as select 1", "begin", "select '\udcff'",
]  # fmt: skip

FUNCTIONS = [
    "select * from read_csv('{secret}')", "select * from read_text('{secret}')", "select * from '{secret}'",
    "select * from glob('{folder}/*')", "select * from sniff_csv('{secret}')",
    "select * from parquet_metadata('{secret}')", "select * from query('copy (select 1) to ''{target}''')",
    "select * from query('from read_text(''{secret}'')')", "select * from query_table(['{secret}'])",
    "select * from duckdb_secrets()", "select * from enable_logging(storage='file', storage_path='{target}')",
    "select * from read_blob('{secret}')", "select * from read_json('{secret}')",
    "select * from read_parquet('http://127.0.0.1:9/x.parquet')", "select * from read_csv('/etc/passwd')",
    "select set_config('enable_external_access', 'true')", "select getenv('HOME')", "select * from secret_frame",
]  # fmt: skip
"""Functions and tables that read or write elsewhere; the last one is a variable of the test."""

STATEMENTS = [
    "copy (select 1) to '{target}'", "explain analyze copy (select 1) to '{target}'", "export database '{target}'",
    "attach '{target}'", "install httpfs", "load '{secret}'", "set lock_configuration=false",
    "set enable_external_access=true", "select 1; copy (select 1) to '{target}'", "create table x as select 1",
    "alter table trials add column x int default random()", "pivot trials on seed; copy (select 1) to '{target}'",
    "drop view trials", "pragma enable_profiling", "attach 'sqlite:{target}' as x", "attach 's3://bucket/x.db'",
    "detach memory", "reset enable_external_access", "pragma disable_verification", "call pragma_database_size()",
    "import database '{folder}'", "checkpoint", "insert into trials select * from trials", "update trials set seed = 1",
    "with x as (copy (select 1) to '{target}') select * from x", "set allow_unsigned_extensions=true",
    "create secret (type s3, key_id 'x', secret 'y')", "create macro f() as table select * from read_csv('{secret}')",
]  # fmt: skip
"""Statements that are no SELECT, also in one."""


@pytest.mark.parametrize("statement", [*BAD, *FUNCTIONS, *STATEMENTS], ids=ascii)
def test_a_query_can_only_read_the_store_and_a_bad_one_is_one_message(results, tmp_path, monkeypatch, statement):
    monkeypatch.chdir(tmp_path)
    secret_frame = pd.DataFrame({"secret": [1]})
    secret, target = tmp_path / "secret.csv", tmp_path / "target"
    secret.write_text("a,b\n1,2\n")
    statement = statement.format(secret=secret, target=target, folder=tmp_path)
    with pytest.raises(QueryError):
        sql.frame(statement, results)
    done = told("query", "--results", results.url, "--format", "csv", statement, code=2)
    assert done.stdout == ""
    assert done.stderr.strip()
    assert os.listdir(tmp_path) == ["secret.csv"]
    assert len(secret_frame) == 1


@pytest.mark.parametrize("statement", ["select time '24:00:00'", "select 1::union(a int, b text)"])
def test_what_pandas_cannot_hold_is_one_readable_message(results, statement):
    asked(results, statement)
    with pytest.raises(QueryError, match="x::text"):
        sql.frame(statement, results)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("vertices", "'task_vertices'"), ("sucess", "'success'"), ("tsak_vertices", "'task_vertices'")],
)
def test_a_column_that_is_not_there_is_told_with_the_one_that_may_be_meant(results, written, meant):
    with pytest.raises(QueryError, match=rf"did you mean .*{meant}"):
        sql.frame(f"select {written} from trials", results)


def test_no_scratch_folder_is_left(results, tmp_path, monkeypatch):
    monkeypatch.setattr(sql.tempfile, "tempdir", str(tmp_path))
    sql.frame("select * from trials", results)
    with pytest.raises(QueryError):
        sql.frame("select", results)
    assert os.listdir(tmp_path) == []


def test_a_store_that_is_not_there(tmp_path):
    with pytest.raises(StoreError, match="nowhere"):
        sql.frame("select 1", tmp_path / "nowhere")
    assert "foo" in refusal("query", "select 1", "--results", "foo://x")
    assert not (tmp_path / "nowhere").exists()


def test_an_empty_store_has_all_views(tmp_path):
    for name in ("trials", "sweeps", "curves", "outcomes"):
        assert sql.frame(f"select trial_id from {name}", tmp_path).empty
