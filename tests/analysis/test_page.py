"""The text of a store's page, and the tables in it.

Results are made up and committed to a real store; nothing is trained. `test_page_in_a_browser` opens pages.
"""

import html
import json
import math
import re
from pathlib import Path

import pytest

from sweeper.analysis import page
from sweeper.analysis.page import listings
from sweeper.analysis.page.page_table import EVERYTHING, MINUS, TrialKind, kinds_named, kinds_where, page_table
from sweeper.analysis.ranking import Goal
from sweeper.analysis.report import ReportOptions, write_report
from sweeper.analysis.table import COUNT, NUMBER, Column, Form, Table
from sweeper.store.annotations import Subject, annotate
from sweeper.store.store import Store
from tests.filled_stores import swept
from tests.results import PROVENANCE, STARTED, failure, result

HOSTILE = (
    "</script></style></textarea>\"'`><script>window.hit = 1</script><img src=x onerror='window.hit = 2'>${7*7}{{7*7}}"
)


def filled(folder: Path, *results, **planned) -> Store:
    """A store with these results, planned by one sweep."""
    store = Store.open(folder)
    swept(store, *results, **planned)
    return store


def rendered(store: Store, *tables: Table) -> str:
    """The text of the page of a store without figures."""
    return page.render(store, store.trials(), [], [("", table) for table in tables])


def test_nothing_is_executed_that_a_store_wrote(tmp_path):
    """The same without a browser: one script, and a policy that allows nothing but it, the style and inline images."""
    text = rendered(filled(tmp_path / "store", failure(message=HOSTILE)))
    assert text.count("<script") == 1
    assert html.escape("<script>window.hit") in text
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
    assert re.findall(r'<[a-z][^>]* (?:src|href)=(?!"(?:data:|#))[^>]*', text) == []


def test_characters_that_reorder_or_hide_text_are_spelt_out(tmp_path):
    hidden = "\u202egnp.exe\u2066\u200b\x07\x9b\x1b[2J"
    spelt = r"\u202egnp.exe\u2066\u200b\x07\x9b\x1b[2J"
    provenance = PROVENANCE.model_copy(update={"command": hidden, "commit": hidden})
    store = filled(
        tmp_path / "store",
        result({"seed": 1}, provenance=provenance, device=hidden),
        failure({"seed": 2}, message=f"first\n{hidden}"),
        text=f"# {hidden}\r\ntrial: {{}}\r\n",
    )
    annotate(store.files, Subject("ours"), note=hidden)
    text = rendered(store, Table(hidden, (Column(hidden),), ((hidden,),), hidden))
    assert [character for character in text if not character.isprintable() and character != "\n"] == []
    assert text.count(spelt) >= 8
    assert f"# {spelt}\ntrial: {{}}" in text, "lines stay lines"


@pytest.mark.slow  # draws a figure
def test_a_report_writes_the_page_of_the_sweeps_asked_for(tmp_path):
    average = "panels: [{kind: curve, name: average, x: q, metric: success, split: baseline}]\n"
    store = filled(tmp_path / "store", result({"seed": 7}), text=average)
    filled(tmp_path / "store", result({"seed": 8}), name="theirs", text=average.replace("success", "majority_30"))
    ids = [record.trial_ids[0] for record in store.sweeps()]
    for sweeps, known in ((["ours"], [True, False]), ([], [True, True])):
        path = tmp_path / "new folder" / f"{len(sweeps)}.html"
        write_report(ReportOptions(str(tmp_path / "store"), sweeps=sweeps, html=path))
        text = path.read_text()
        assert text.count("<figure") == 1
        assert [trial_id in text for trial_id in ids] == known


def test_keys_in_addresses_are_not_shown(tmp_path):
    provenance = PROVENANCE.model_copy(update={"command": "run --results s3://key:secret@bucket/results"})
    text = rendered(filled(tmp_path / "store", result(provenance=provenance)))
    assert "bucket/results" in text
    assert "secret" not in text


def row(number: int, status: str = "finished") -> dict:
    """A row of the store's trials with an id and an end of its own."""
    return {
        "trial_id": f"{number:020x}", "sweeps": [], "status": status, "task": "coloring", "baseline": "Aq_R",
        "model": "transformer",
        "q": 3.0, "m": 2, "seed": number, "steps": 250,
        "spec": json.dumps({"task": {"name": "coloring"}, "seed": number, "width": number % 3}),
        **dict.fromkeys(listings.METRICS, 0.5), "extra_metrics": "{}", "wall_seconds": 1.0, "steps_per_second": 10.0,
        "device": "cpu", "commit": None, "dirty": None, "started": STARTED, "error_step": 7,
        "error_kind": "divergence", "error_message": "diverged", "lock_hash": None, "versions": "{}", "command": "run",
        "finished": STARTED.replace(year=1900 + number % 100),
    }  # fmt: skip


def test_of_many_trials_the_failed_and_the_newest_are_listed():
    rows = [row(number, "failed" if number % 10 == 0 else "finished") for number in range(60)]
    table, kinds = listings.trials(rows, {}, most=40)
    listed = {values[0] for values in table.rows}
    assert listed == {one["trial_id"] for one in rows if one["status"] == "failed" or one["seed"] > 22}
    assert len(kinds) == len(table.rows)
    assert table.note.startswith("40 of 60 ")
    failures, _ = listings.failed_trials(rows, most=3)
    assert [values[6] for values in failures.rows] == [50, 40, 30]
    assert "3 of 6" in failures.note


def test_what_differs_within_a_task_gets_a_column():
    rows = [
        row(0),
        row(1),
        row(3) | {"spec": json.dumps({"seed": 3, "width": 0, "task": {"name": "other", "n": 7}}), "task": "other"},
    ]
    titles = [column.title for column in listings.trials(rows, {})[0].columns]
    assert (titles.count("width"), titles.count("task_n"), titles.count("seed")) == (1, 0, 1)


def test_metrics_that_a_space_asks_for_have_columns_and_order_the_trials():
    rows = [row(seed) | {"extra_metrics": json.dumps({"ratio": ratio})} for seed, ratio in enumerate((2.0, 3.0, 1.0))]
    rows.append(row(3, "failed"))
    table, _ = listings.trials(rows, {}, ["success_p5", "ratio", "unknown"], Goal("ratio", "max"))
    titles = [column.title for column in table.columns]
    assert (titles.count("ratio"), titles.count("success_p5"), titles.count("unknown")) == (1, 1, 0)
    assert [values[titles.index("ratio")] for values in table.rows] == [3.0, 2.0, 1.0, None]


def test_long_messages_are_clipped_in_the_middle():
    table, _ = listings.failed_trials([row(0, "failed") | {"error_message": "begin" + "x" * 10_000 + "end"}])
    message = table.rows[0][-1]
    assert len(message) < 2 * listings.MAX_MESSAGE
    assert (message[:5], message[-3:]) == ("begin", "end")


def test_tables_of_others_obey_the_filter_where_they_name_kinds():
    known = [TrialKind("coloring", "Aq_R", "transformer")]
    columns = (Column("Baseline"), Column("votes", COUNT))
    table = Table("Votes", columns, (("Aq_R", 1234), ("other", -5)))
    assert kinds_named(table, known) == [frozenset({TrialKind(baseline="Aq_R")}), EVERYTHING]
    cells = [line[0][1] for line in page_table(table).lines]
    assert [(cell.text, cell.sort) for cell in cells] == [("1,234", None), (f"{MINUS}5", -5.0)]


def test_infinity_is_the_largest_number_of_a_column_and_nan_is_none():
    numbers = Table("", (Column("q", NUMBER),), ((math.inf,), (-math.inf,), (math.nan,), (2.5,)))
    cells = [cells[0] for cells, _ in page_table(numbers).lines]
    assert [cell.text for cell in cells] == ["∞", f"{MINUS}∞", "nan", "2.5"]
    assert [cell.sort for cell in cells] == [1e308, -1e308, None, None]


def test_a_table_that_fails_is_a_note_on_the_page(tmp_path):
    broken = Table("Votes", (Column("n", Form(float)),), (("<nonsense>",),))
    text = rendered(filled(tmp_path / "store", failure()), broken)
    assert re.search(r"ValueError: [^<]*&lt;nonsense&gt;", text)
    assert 'id="origins"' in text


def test_conditions_name_kinds_where_there_are_no_trials():
    kinds = kinds_where("", {"task": "recall", "q": 3}, {"baseline": ["AE_R", "Aq_R"]})
    assert kinds == {TrialKind("recall", "AE_R"), TrialKind("recall", "Aq_R")}
