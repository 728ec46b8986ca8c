"""A Markdown file with places for tables: they are filled from a store."""

import pytest

from docs.fill import filled
from sweeper.analysis.report_sources import ReportError
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

<!-- table: SELECT q, baseline, count(*) AS trials, percent(success) AS success, average(loss, 4) AS loss
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


@pytest.mark.slow
def test_tables_of_queries_and_of_published_numbers_are_written(store, page):
    made, *counts = filled(page(TABLE), store)
    assert counts == [2, 2]
    assert made.endswith("<!-- end -->\n\nBelow.\n")
    assert "old text" not in made
    lines = [line for line in made.splitlines() if line.startswith("|")]
    assert lines == [
        "| q | baseline | trials | success | loss |",
        "| ---: | --- | ---: | --- | --- |",
        "| 1 | Aq_R | 2 | 86.5 ± 0.5 | 0.0036 ± 0.0 |",
        "| 10 | Aq_R | 2 | 86.5 ± 0.5 | 0.0036 ± 0.0 |",
        "| panel | series | metric | 1 | 3 | 10 | seeds |",
        "| --- | --- | --- | ---: | ---: | ---: | --- |",
        "| 5A | A_R | success | 86.5 ± 0.5 (89.5) |  | 86.5 ± 0.5 (86.5) | 2 |",
        "| 5A | A_R | success_p5 |  | - (73) | **50.0 ± 0.0** (70) | 2 |",
        "| 5A | A_R | success_p5_pooled |  |  | **1.4** (70) | 2 |",
        "| 5B | A_R | loss | 0.0036 ± 0 (0.0036) |  |  | 2 |",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n\n<!-- table: SELECT 1 -->\nno end\n", "page.md:3: .*<!-- end -->"),
        ("a\n<!-- table: SELECT nought FROM trials -->\n<!-- end -->\n", 'page.md:2: .*"nought"'),
        ("<!-- published: small 5C -->\n<!-- end -->\n", "page.md:1: .*'5C'"),
    ],
)
def test_what_cannot_be_filled_is_told_with_its_line(text, message, store, page):
    with pytest.raises(ReportError, match=message):
        filled(page(text), store)
