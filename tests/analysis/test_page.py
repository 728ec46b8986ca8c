"""The text of a store's page, and the tables in it.

Results are made up and committed to a real store; nothing is trained. `test_page_in_a_browser` opens pages.
"""

import base64
import gzip
import html
import json
import math
import re
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from sweeper.analysis import page
from sweeper.analysis.page import MAX_MESSAGE, failed_trials, trial_table, trials_of
from sweeper.analysis.recorded_spaces import Asked
from sweeper.analysis.report import ReportOptions, write_report
from sweeper.store.store import TRIALS, Store
from sweeper.trial.kinds import Goal
from tests.experiments.toy import TOY, project, toy_trial
from tests.filled_stores import commit, swept
from tests.results import PROVENANCE, STARTED, failure, result

pytestmark = pytest.mark.usefixtures("vega")

HOSTILE = (
    "</script></style></textarea>\"'`><script>window.hit = 1</script><img src=x onerror='window.hit = 2'>${7*7}{{7*7}}"
)


def filled(folder: Path, *results, **planned) -> Store:
    """A store with these results, planned by one sweep."""
    store = Store.open(folder)
    swept(store, *results, **planned)
    return store


def rendered(store: Store, *tables: pd.DataFrame) -> str:
    """The text of the page of a store without figures."""
    return page.render(store, store.trials(), [], [("", table) for table in tables])


def charted(text: str) -> dict:
    """The data of the charts of a page."""
    found = re.search(r'<template id="data">([^<]*)<', text)
    assert found is not None
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


def trial_heads(text: str) -> list[str]:
    """The heads of the table of trials of a page."""
    table = text[text.index('<table id="trial-rows"') :].replace("<wbr>", "")
    return re.findall(r"<th [^>]*>([^<]*)", table[: table.index("</thead>")])


def test_nothing_is_executed_that_a_store_wrote(tmp_path):
    """The same without a browser: one script, and nothing that is loaded from elsewhere."""
    text = rendered(filled(tmp_path / "store", failure(message=HOSTILE)))
    assert text.count("<script") == 1
    assert html.escape("<script>window.hit") in text
    assert re.findall(r'<[a-z][^>]* (?:src|href)=(?!"(?:data:|#))[^>]*', text) == []


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
    store = filled(tmp_path / "store", result())
    store.record_sweep(store.sweeps()[0].model_copy(update={"provenance": provenance}))
    text = rendered(store)
    assert "bucket/results" in text
    assert "secret" not in text


def test_a_page_of_experiments_has_their_columns_and_curves(tmp_path):
    store = Store.open(tmp_path / "store")
    text = TOY.replace("    points: Count = 50", "    points: Count = 50\n    sizes: ListOf[int] = ()")
    with project(tmp_path, toy=text.replace("import Count", "import Count, ListOf")):
        for seed, rate in enumerate((0.1, 0.2)):
            made = result(metrics={"distance": 0.5, "reach": 1.0}, curves=[(6, "pace", 0.3), (12, "pace", 0.2)])
            commit(store, toy_trial(seed=seed, rate=rate, sizes=[seed]), made)
        swept(store, name="walks", missing=store.trials()["trial_id"].to_pylist())
        text = rendered(store)
        swept(store, result())
        both = rendered(store)
    assert trial_heads(text)[:9] == [
        "trial", "status", "sweep", "task", "experiment_rate", "experiment_sizes", "seed", "steps", "distance",
    ]  # fmt: skip
    assert {"baseline", "q", "success", "distance", "experiment_rate"} <= {*trial_heads(both)}, (
        "of a store with both kinds"
    )
    (chart,) = charted(text)["charts"]
    assert (chart["title"], chart["metrics"], [series["label"] for series in chart["series"]]) == (
        "walks", ["pace"], ["rate=0.1 sizes=[0]", "rate=0.2 sizes=[1]"],
    )  # fmt: skip


def trials(*changes: dict) -> pd.DataFrame:
    """Rows of trials as the page has them; the trials differ in their seed and in what is given."""
    rows = []
    for number, own in enumerate(changes):
        row = {
            "trial_id": f"{number:020x}", "status": "finished", "task": "coloring", "baseline": "Aq_R",
            "model": "transformer", "q": 3.0, "m": 2, "seed": number, "steps": 250,
            "spec": json.dumps({"task": {"name": "coloring"}, "seed": number, "width": number % 3}),
            "success": 0.5, "success_p5": 0.5, "loss": 0.5, "extra_metrics": "{}", "device": "cpu", "started": STARTED,
            "finished": STARTED.replace(year=1900 + number % 100),
        }  # fmt: skip
        rows.append(row | own)
    return trials_of(pa.Table.from_pylist(rows, TRIALS), {})


def test_of_many_trials_the_failed_and_the_newest_are_listed():
    every = trials(*({"status": "failed" if number % 10 == 0 else "finished"} for number in range(60)))
    listing = trial_table(every, {}, most=40)
    expected = every[(every["status"] == "failed") | (every["seed"] > 22)]
    assert {*listing["trial"]} == {*expected["trial_id"]}
    assert listing.attrs["note"].startswith("40 of 60 ")
    failures = failed_trials(every[every["status"] == "failed"], most=3)
    assert [*failures["seed"]] == [50, 40, 30]
    assert "3 of 6" in failures.attrs["note"]


def test_what_differs_within_a_task_gets_a_column():
    other = {"spec": json.dumps({"seed": 2, "width": 0, "task": {"name": "other", "n": 7}}), "task": "other"}
    titles = [*trial_table(trials({}, {}, other), {}).columns]
    assert (titles.count("width"), titles.count("task_n"), titles.count("seed")) == (1, 0, 1)


def test_metrics_that_a_space_asks_for_have_columns_and_order_the_trials():
    every = trials(
        *({"extra_metrics": json.dumps({"ratio": ratio})} for ratio in (2.0, math.nan, 3.0, 1.0)), {"status": "failed"}
    )
    listing = trial_table(every, {}, Asked(Goal("ratio", "max"), ("success_p5", "ratio", "unknown")))
    titles = [*listing.columns]
    assert (titles.count("ratio"), titles.count("success_p5"), titles.count("unknown")) == (1, 1, 0)
    assert [*listing["ratio"]] == [3.0, 2.0, 1.0, None, None]
    assert listing["trial"][0] == every["trial_id"][2], "a row keeps its values"


def test_long_messages_are_clipped_in_the_middle():
    long = trials({"status": "failed", "error_message": "begin" + "x" * 10_000 + "end"})
    message = failed_trials(long)["message"][0]
    assert len(message) < 2 * MAX_MESSAGE
    assert (message[:5], message[-3:]) == ("begin", "end")
