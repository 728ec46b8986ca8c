"""`note` and `tag` write on a sweep or a trial and take it away; queries, status and page show it."""

import json

import pytest

from sweeper.analysis import page, sql
from sweeper.store.annotations import FOLDER
from tests.filled_stores import IDS
from tests.processes import told


def done(store, *arguments, code=0):
    return told(*arguments, "--results", store.url, code=code).output


def test_a_sweep_and_a_trial_are_named_and_queries_choose_by_tags(store):
    done(store, "tag", IDS[0][:8], "keep", "best")
    done(store, "tag", "other", "published")
    done(store, "note", "other", "for the paper")
    assert sql.frame("select seed from trials where list_contains(tags, 'keep')", store)["seed"].tolist() == [0]
    assert len(sql.frame("select * from all_trials where tags = []", store)) == 5
    by_sweep = "select distinct sweep, sweep_notes from sweeps where list_contains(sweep_tags, 'published')"
    assert sql.table(by_sweep, store).to_pylist() == [{"sweep": "other", "sweep_notes": ["for the paper"]}]
    assert sql.table("select tags from evaluations", store).to_pylist() == [{"tags": ["best", "keep"]}]
    asked = told("query", "select tags from trials where seed = 0", "--format", "json", "--results", store.url).stdout
    assert json.loads(asked) == [{"tags": ["best", "keep"]}]


def test_status_shows_them(store):
    assert "tags" not in told("status", "--results", store.url).output
    done(store, "tag", "quick", "keep")
    done(store, "note", "quick", "the rate was wrong")
    lines = told("status", "--results", store.url).output.splitlines()
    assert any(line.startswith("quick") and "keep" in line and line.endswith("was wrong") for line in lines)


@pytest.mark.usefixtures("vega")
def test_the_page_shows_them(store):
    done(store, "note", "quick", "the <b>rate</b> was wrong")
    done(store, "note", IDS[0], "look here")
    text = page.render(store, store.trials(), [])
    assert "the &lt;b&gt;rate&lt;/b&gt; was wrong" in text
    assert "look here" in text


def test_what_was_written_is_taken_away(store):
    done(store, "tag", "quick", "keep", "old")
    done(store, "note", "quick", "first thought")
    done(store, "note", IDS[0], "first thought")
    assert "kepp" in done(store, "tag", "quick", "--remove", "kepp", code=2)
    done(store, "tag", "quick", "--remove", "keep")
    done(store, "note", "quick", "first", "--remove")
    shown = told("status", "--results", store.url).output
    assert [word in shown for word in ("old", "keep", "first")] == [True, False, False]
    assert len(store.listing(FOLDER)) == 2, "the note on the trial stays"


@pytest.mark.parametrize(
    "arguments",
    [
        ["tag", "quik", "keep"], ["tag", "g", "keep"], ["tag", "0" * 20, "keep"], ["tag", "quick", "two words"],
        ["tag", "quick"], ["note", "quick"], ["note", "quick", " "], ["note", "quick", "x", "--remove"],
    ],
    ids=ascii,
)  # fmt: skip
def test_what_makes_no_sense_is_refused(made, arguments):
    assert done(made, *arguments, code=2)
    assert made.listing(FOLDER) == []
