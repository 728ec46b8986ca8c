"""`note` and `tag` write on what a tired person names, show it, and take it away; queries, status and page show it."""

import json

import pytest
from typer.testing import CliRunner

from sweeper.__main__ import app
from sweeper.analysis import page, sql
from sweeper.analysis.views import write_view
from sweeper.commands import query, status
from sweeper.store.annotations import FILE
from sweeper.store.store import Store
from tests.filled_stores import IDS, filled
from tests.results import record, result


@pytest.fixture
def store(tmp_path):
    return filled(tmp_path / "results")


def run(store, *arguments):
    return CliRunner().invoke(app, [*arguments, "--results", store.url], terminal_width=200)


def done(store, *arguments):
    answer = run(store, *arguments)
    assert answer.exit_code == 0, answer.output
    return answer.output


def tags_of(store):
    frame = sql.frame("select trial_id, tags from trials where len(tags) > 0", store)
    return {IDS.index(trial_id): list(tags) for trial_id, tags in zip(frame["trial_id"], frame["tags"], strict=True)}


def test_a_sweep_its_trials_and_one_trial_are_named(store):
    assert done(store, "tag", "quick", "keep", "first") == "quick: tagged keep, first\n"
    assert done(store, "note", "quick", "the rate was wrong") == "quick: noted\n"
    two = ("--where", "seed = 1 or status = 'failed'")
    assert done(store, "tag", "quick", *two, "odd") == "2 trials of quick: tagged odd\n"
    assert done(store, "tag", IDS[1][:8], "odd", "best") == f"trial {IDS[1]}: tagged odd, best\n"
    assert tags_of(store) == {1: ["best", "odd"], 4: ["odd"]}
    before = store.read_bytes(FILE)
    done(store, "tag", "quick", "--where", "seed = 1", "odd")
    assert store.read_bytes(FILE) == before, "the trial has the tag already"


def test_queries_choose_by_tags(store):
    done(store, "tag", "quick", "--where", "seed < 1", "keep")
    done(store, "tag", "other", "published")
    done(store, "note", "other", "for the paper")
    assert sql.frame("select seed from trials where list_contains(tags, 'keep')", store)["seed"].tolist() == [0]
    assert len(sql.frame("select * from trials where not list_contains(tags, 'keep')", store)) == 5
    assert len(sql.frame("select * from all_trials where tags = []", store)) == 5
    by_sweep = "select distinct sweep, sweep_notes from sweeps where list_contains(sweep_tags, 'published')"
    assert sql.table(by_sweep, store).to_pylist() == [{"sweep": "other", "sweep_notes": ["for the paper"]}]
    assert sql.frame("select tags from evaluations", store)["tags"].tolist() == [["keep"]]
    assert "keep" in CliRunner().invoke(query.app, ["show", IDS[0], "--results", store.url]).output
    printed = CliRunner().invoke(query.app, ["select * from trials", "--results", store.url])
    assert "[]" not in printed.output, "what nothing is on says nothing"
    question = ["select tags from trials where seed = 0", "--format", "json", "--results", store.url]
    assert json.loads(CliRunner().invoke(query.app, question).stdout) == [{"tags": ["keep"]}]


def test_exported_files_have_them(store, tmp_path):
    done(store, "tag", "quick", "--where", "seed < 1", "keep")
    write_view(store, "trials", tmp_path / "trials.csv")
    assert '["keep"]'.replace('"', '""') in (tmp_path / "trials.csv").read_text()


def test_an_entry_of_the_same_name_keeps_its_column(tmp_path, monkeypatch):
    store = Store.open(tmp_path)
    store.commit(result(metrics={"success": 0.5, "tags": 3.0}))
    done(store, "tag", IDS[0], "keep")
    (row,) = sql.table("select tags, trial_tags, notes from trials", store).to_pylist()
    assert row == {"tags": 3.0, "trial_tags": ["keep"], "notes": []}


def test_status_and_page_show_them(store):
    before = CliRunner().invoke(status.app, ["--results", store.url]).output
    assert "tags" not in before
    done(store, "tag", "quick", "keep")
    done(store, "note", "quick", "the <b>rate</b> was wrong")
    done(store, "note", IDS[0], "look here")
    lines = CliRunner().invoke(status.app, ["--results", store.url]).output.splitlines()
    assert lines[0].split()[-2:] == ["tags", "notes"]
    assert any(line.startswith("quick") and "keep" in line and line.endswith("was wrong") for line in lines)
    text = page.render(store, store.trials(), [])
    assert "the &lt;b&gt;rate&lt;/b&gt; was wrong" in text
    assert "look here" in text


def test_notes_and_tags_are_listed(store):
    assert done(store, "note") == "no notes and no tags\n"
    done(store, "tag", "quick", "--where", "1 = 1", "keep")
    done(store, "note", "other", "first\nsecond \x1b[31m")
    done(store, "note", "other", "third")
    for command in ("note", "tag"):
        lines = done(store, command).splitlines()
        assert lines[0].split() == ["sweep", "or", "trial", "tags", "note", "written"]
        assert len(lines) == 4
        assert "first\\nsecond \\x1b[31m" in lines[1]
        assert "third" in lines[2]
        assert f"{min(IDS[0], IDS[1], IDS[4])} and 2 more" in lines[3]
    assert done(store, "note", "quick").count("\n") == 2
    assert done(store, "note", IDS[3]) == "no notes and no tags\n"


def test_what_was_written_is_taken_away(store):
    done(store, "tag", "quick", "keep", "old")
    done(store, "note", "quick", "first thought")
    done(store, "note", "quick", "first of all")
    assert "did you mean 'keep'?; tags are: keep, old" in run(store, "tag", "quick", "--remove", "kepp").output
    assert done(store, "tag", "quick", "--remove", "keep") == "quick: without keep\n"
    refused = run(store, "note", "quick", "first", "--remove")
    assert refused.exit_code == 2
    assert "more than one note begins with 'first': 'first of all'; 'first thought'" in refused.output
    assert done(store, "note", "quick", "first t", "--remove") == "quick: the note 'first thought' is gone\n"
    done(store, "note", "quick", "first")
    assert done(store, "note", "quick", "first", "--remove") == "quick: the note 'first' is gone\n"
    listed = done(store, "note", "quick")
    assert "first of all" in listed
    assert "old" in listed
    assert "keep" not in listed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tag", "quik", "keep"], "the store has no sweep 'quik'; did you mean 'quick'? (known: other, quick)"),
        (["tag", "0", "keep"], "no committed trial has an id that begins with '0'"),
        (["tag", "quick", "two words"], "'two words' cannot be a tag"),
        (["tag", "quick", "a,b"], "'a,b' cannot be a tag"),
        (["tag", "quick", "--where", "seed > 99", "keep"], "no committed trial of quick has seed > 99"),
        (["tag", "quick", "--where", "sed = 1", "keep"], 'column "sed" not found'),
        (["tag", "quick", "--where", "1=1); drop table trials; --", "keep"], "--where takes one condition"),
        (["tag", "quick", "--where", "true) union all (select trial_id from trials where true", "keep"], "one condi"),
        (["tag", "quick", "--where", "true -- \n) or (true", "keep"], "--where takes one condition"),
        (["tag", "quick", "--where", "", "keep"], "--where takes one condition"),
        (["tag", "quick", "--where", "q, seed", "keep"], "--where takes one condition"),
        (["tag", "quick", "--where", "q = '\udcff'", "keep"], "--where takes one condition"),
        (["note", "quick", "bytes \udcff"], "the note is no text in UTF-8"),
        (["tag", "--where", "seed = 1"], "name the sweep"),
        (["tag", IDS[1][:8], "--where", "seed = 1", "keep"], "and this is a trial"),
        (["tag", "quick", "--remove"], "--remove takes away what is named"),
        (["note", "quick", " "], "the note is empty"),
        (["note", "quick", "x" * 10_001], "the note has 10,001 characters"),
        (["note", "quick", "x", "--remove"], "no note of quick begins with 'x'"),
    ],
)
def test_what_makes_no_sense_is_refused(store, arguments, message):
    if arguments[1] == "0":
        store.record_sweep(record("zero", []))
        arguments[1] = next(digit for digit in "0123456789abcdef" if not any(key.startswith(digit) for key in IDS))
        message = message.replace("'0'", f"'{arguments[1]}'")
    answer = run(store, *arguments)
    assert answer.exit_code == 2
    assert message in answer.output
    assert store.read_bytes(FILE) is None
