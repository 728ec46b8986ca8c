"""`note` and `tag` write on what a tired person names, show it, and take it away; queries, status and page show it."""

import json

import pytest

from sweeper.analysis import page, sql
from sweeper.store.annotations import FOLDER
from tests.filled_stores import IDS
from tests.processes import told


def done(store, *arguments, code=0):
    return told(*arguments, "--results", store.url, code=code).output


def tags_of(store):
    frame = sql.frame("select trial_id, tags from trials where len(tags) > 0", store)
    return {IDS.index(trial_id): list(tags) for trial_id, tags in zip(frame["trial_id"], frame["tags"], strict=True)}


@pytest.mark.slow
def test_a_sweep_its_trials_and_one_trial_are_named(store):
    assert done(store, "tag", "quick", "keep", "first").startswith("quick: ")
    done(store, "note", "quick", "the rate was wrong")
    two = ("--where", "seed = 1 or status = 'failed'")
    assert done(store, "tag", "quick", *two, "odd").startswith("2 trials of quick: ")
    assert IDS[1] in done(store, "tag", IDS[1][:8], "odd", "best")
    assert tags_of(store) == {1: ["best", "odd"], 4: ["odd"]}
    before = store.listing(FOLDER)
    done(store, "tag", "quick", "--where", "seed = 1", "odd")
    assert store.listing(FOLDER) == before, "the trial has the tag already"


@pytest.mark.slow
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


@pytest.mark.slow
def test_answers_and_exported_files_have_them(store):
    done(store, "tag", "quick", "--where", "seed < 1", "keep")

    def asked(*question):
        return told("query", *question, "--results", store.url).stdout

    assert "keep" in asked("show", IDS[0])
    assert "[]" not in asked("select * from trials"), "what nothing is on says nothing"
    assert json.loads(asked("select tags from trials where seed = 0", "--format", "json")) == [{"tags": ["keep"]}]


def test_status_shows_them(store):
    assert "tags" not in told("status", "--results", store.url).output
    done(store, "tag", "quick", "keep")
    done(store, "note", "quick", "the rate was wrong")
    lines = told("status", "--results", store.url).output.splitlines()
    assert any(line.split()[-2:] == ["tags", "notes"] for line in lines)
    assert any(line.startswith("quick") and "keep" in line and line.endswith("was wrong") for line in lines)


@pytest.mark.usefixtures("vega")
def test_the_page_shows_them(store):
    done(store, "note", "quick", "the <b>rate</b> was wrong")
    done(store, "note", IDS[0], "look here")
    text = page.render(store, store.trials(), [])
    assert "the &lt;b&gt;rate&lt;/b&gt; was wrong" in text
    assert "look here" in text


def test_notes_and_tags_are_listed(store):
    assert len(done(store, "note").splitlines()) == 1, "there are none"
    done(store, "tag", "quick", "--where", "1 = 1", "keep")
    done(store, "note", "other", "first\nsecond \x1b[31m")
    done(store, "note", "other", "third")
    for command in ("note", "tag"):
        heads, *lines = done(store, command).splitlines()
        assert heads.split() == ["sweep", "or", "trial", "tags", "note", "written"]
        for line, words in zip(lines, ("first\\nsecond \\x1b[31m", "third", min(IDS[0], IDS[1], IDS[4])), strict=True):
            assert words in line
    assert len(done(store, "note", "quick").splitlines()) == 2
    assert "keep" not in done(store, "note", IDS[3])
    done(store, "tag", IDS[3], "alone")
    tags = {line.split()[0]: "alone" in line for line in done(store, "tag").splitlines()[3:]}
    assert tags == {min(IDS[0], IDS[1], IDS[4]): False, IDS[3]: True}, "trials with other tags have a row of their own"


def test_what_was_written_is_taken_away(store):
    done(store, "tag", "quick", "keep", "old")
    for text in ("first thought", "first of all"):
        done(store, "note", "quick", text)
    assert "'keep'" in done(store, "tag", "quick", "--remove", "kepp", code=2), "is proposed"
    done(store, "tag", "quick", "--remove", "keep")
    refused = done(store, "note", "quick", "first", "--remove", code=2)
    assert "'first of all'" in refused
    assert "'first thought'" in refused
    assert "'first thought'" in done(store, "note", "quick", "first t", "--remove")
    done(store, "note", "quick", "first")
    assert "'first'" in done(store, "note", "quick", "first", "--remove"), "the note of this text, not a beginning"
    listed = done(store, "note", "quick")
    assert [word in listed for word in ("first of all", "first thought", "old", "keep")] == [True, False, True, False]


@pytest.mark.parametrize(
    "arguments",
    [
        ["tag", "quik", "keep"], ["tag", "g", "keep"], ["tag", "0" * 20, "keep"],
        ["tag", "quick", "two words"], ["tag", "quick", "a,b"],
        *(
            ["tag", "quick", "--where", where, "keep"]
            for where in ("seed > 99", "sed = 1", "", "q, seed")
        ),
        ["tag", "--where", "seed = 1"], ["tag", IDS[1][:8], "--where", "seed = 1", "keep"],
        ["tag", "quick", "--remove"], ["note", "quick", "bytes \udcff"], ["note", "quick", " "],
        ["note", "quick", "x" * 10_001], ["note", "quick", "x", "--remove"],
    ],
    ids=ascii,
)  # fmt: skip
def test_what_makes_no_sense_is_refused(made, arguments):
    assert done(made, *arguments, code=2)
    assert made.listing(FOLDER) == []
