"""A Markdown file with places for tables: they are filled from a store, and filling twice changes nothing."""

import json

import pytest

from docs.fill import filled
from sweeper.analysis.report_sources import ReportError
from sweeper.space import search_space
from sweeper.store.store import Store
from tests.filled_stores import swept
from tests.results import result

SPACE = """
name: small
trial: {task: {name: coloring}, baseline: Aq_R}
panels:
  - kind: curve
    name: 5A
    x: q
    y: {percent: true}
    metric: success
    tail: success_p5
    series: [{label: $A_R$, where: {baseline: Aq_R}}]
    published:
      - {series: $A_R$, metric: success, source: figure, values: {1: 0.895, 10: 0.865}}
      - {series: $A_R$, metric: success_p5, source: figure, values: {10: 0.7, 3: 0.73}}
  - kind: curve
    name: 5B
    x: q
    metric: loss
    series: [{label: $A_R$, where: {baseline: Aq_R}}]
    published: [{series: $A_R$, metric: loss, source: figure, values: {1: 0.0036}}]
"""

TABLE = """\
# What came out

<!-- table: SELECT q, baseline, count(*) AS trials, avg(success) AS success
     FROM trials GROUP BY ALL ORDER BY q -->
<!-- end -->

Between.

<!-- published: small 5A 5B -->
old text
<!-- end -->

Below.
"""


@pytest.fixture
def store(tmp_path):
    store = Store.open(tmp_path / "store")
    measured = {"success": 0.75, "success_p5": 0.5, "loss": 0.0036}
    trials = [{"objective": {"q": q, "m": 4}, "seed": seed} for q in (1.0, 10.0) for seed in (0, 1)]
    results = [result(trial, metrics=measured | {"success": 0.86 + trial["seed"] / 100}) for trial in trials]
    swept(store, *results, name="small", text=SPACE)
    return str(tmp_path / "store")


@pytest.fixture
def page(tmp_path):
    def write(text):
        path = tmp_path / "page.md"
        path.write_text(text)
        return path

    return write


def test_tables_of_queries_and_of_published_numbers_are_written(store, page):
    made, *counts = filled(page(TABLE), store)
    assert counts == [2, 2]
    assert made.endswith("<!-- end -->\n\nBelow.\n")
    assert "old text" not in made
    lines = [line for line in made.splitlines() if line.startswith("|")]
    assert lines == [
        "| q | baseline | trials | success |",
        "| ---: | --- | ---: | ---: |",
        "| 1 | Aq_R | 2 | 0.865 |",
        "| 10 | Aq_R | 2 | 0.865 |",
        "| panel | series | metric | 1 | 3 | 10 | seeds | steps |",
        "| --- | --- | --- | ---: | ---: | ---: | --- | --- |",
        "| 5A | A_R | success | 86.5 (89.5) |  | 86.5 (86.5) | 2 | 250 |",
        "| 5A | A_R | success_p5 |  | - (73) | **50.0** (70) | 2 | 250 |",
        "| 5A | A_R | success_p5_pooled |  |  | **1.4** (70) | 2 | 250 |",
        "| 5B | A_R | loss | 0.0036 (0.0036) |  |  | 2 | 250 |",
    ]


def test_filling_twice_changes_nothing(store, page):
    once, *_ = filled(page(TABLE), store)
    assert filled(page(once), store) == (once, 2, 0)


PLANNED = """
name: small
trial:
  task: {name: coloring, vertices: 5}
  model: {name: transformer, width: 4, key_size: 4}
  baseline: Aq_R
  objective: {q: {choice: [3, 10]}, m: 4}
  steps: 250
panels:""" + SPACE.split("panels:")[1]


def test_a_space_is_filled_from_the_trials_that_it_plans_and_says_what_is_missing(store, page, tmp_path):
    space = tmp_path / "planned.yaml"
    space.write_text(PLANNED)
    text = page(f"<!-- published: {space} 5A -->\n<!-- end -->\n")
    command = f"`python -m sweeper.run {space} --results {store}`"
    lines = filled(text, store)[0].splitlines()
    assert lines[-5] == "| 5A | A_R | success_p5 |  | - (73) | - (70) |  |  |", "not of the recorded sweep of that name"
    assert lines[-4:] == ["", f"2 of 2 trials not run yet: {command}", "", "<!-- end -->"]
    (first, second) = search_space.read(space).expand().trials
    opened = Store.open(store)
    opened.commit(result(json.loads(first.model_dump_json()), metrics={"success": 0.5, "success_p5": 0.7}))
    lines = filled(text, store)[0].splitlines()
    assert lines[-6:-2] == [
        "| 5A | A_R | success | - (89.5) |  | - (86.5) |  |  |",
        "| 5A | A_R | success_p5 |  | 70.0 (73) | - (70) | 1 | 250 |",
        "",
        f"1 of 2 trials not run yet: {command}",
    ]
    opened.commit(result(json.loads(second.model_dump_json())))
    assert "not run yet" not in filled(text, store)[0]


def test_a_query_without_an_answer_says_so(store, page):
    text = filled(page("<!-- table: SELECT q FROM trials WHERE q = 77 -->\n<!-- end -->\n"), store)[0]
    assert text.splitlines()[1:-1] == ["", "The store has no such trial yet.", ""]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n\n<!-- table: SELECT 1 -->\nno end\n", "page.md:3: the place for a table has no <!-- end -->"),
        ("<!-- table: SELECT 1 -->\n<!-- published: small -->\n<!-- end -->\n", "page.md:1: the place for a table has"),
        ("nothing to fill\n", "has no place for a table, such as"),
        ("a\n<!-- table: SELECT nought FROM trials -->\n<!-- end -->\n", 'page.md:2: .*"nought" not found'),
        ("<!-- published: smal 5A -->\n<!-- end -->\n", "page.md:1: the store has no sweep 'smal'; did you mean 'sm"),
        ("<!-- published: small 5C -->\n<!-- end -->\n", "page.md:1: the sweep small has no panel '5C'"),
        ('<!-- published: small "5A -->\n<!-- end -->\n', 'page.md:1: small "5A: No closing quotation'),
        ("<!-- published: no.yaml 5C -->\n<!-- end -->\n", "page.md:1: no.yaml: there is no such file"),
    ],
)
def test_what_cannot_be_filled_is_told_with_its_line(text, message, store, page):
    with pytest.raises(ReportError, match=message):
        filled(page(text), store)
