"""The table at the end of a sweep: means over training seeds, stopped trials apart from finished ones."""

import io

import pandas as pd
from rich.console import Console

from sweeper.analysis import means as module
from sweeper.analysis.means import means
from sweeper.analysis.table import terminal, texts
from sweeper.store.store import Store
from tests.results import failure, result


def rows(tmp_path, *results) -> pd.DataFrame:
    store = Store.open(tmp_path / "store")
    for trial in results:
        store.commit(trial)
    return store.trials().to_pandas()


def shown(table) -> list[dict[str, str]]:
    titles = [column.title for column in table.columns]
    return [dict(zip(titles, row, strict=True)) for row in texts(table)]


def test_seeds_of_one_combination_are_averaged(tmp_path):
    table = means(
        rows(
            tmp_path,
            result(metrics={"success": 0.5}),
            result({"seed": 1}, metrics={"success": 0.75}),
            result({"objective": {"q": "inf", "m": 2}}, metrics={}),
            failure({"seed": 2}),
        )
    )
    assert shown(table) == [
        {"task": "coloring", "baseline": "Aq_R", "q": "3", "m": "2", "success": "0.625", "trials": "2"},
        {"task": "coloring", "baseline": "Aq_R", "q": "inf", "m": "2", "success": "", "trials": "1"},
    ]
    assert table.note == ""
    assert [row[4] for row in table.rows] == [0.625, None], "cells keep their values"


def test_stopped_trials_are_never_averaged_with_finished_ones(tmp_path):
    table = means(
        rows(
            tmp_path,
            result(metrics={"success": 1.0}),
            result({"seed": 1}, metrics={"success": 0.0}, status="stopped"),
            result({"seed": 2}, metrics={"success": 0.5}, status="stopped"),
        )
    )
    assert [(row["success"], row["trials"]) for row in shown(table)] == [("1", "1"), ("0.25", "2 stopped")]
    assert table.note == "stopped early: 2 trials of 3, in rows of their own"


def test_a_long_table_is_cut_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_ROWS", 2)
    table = means(rows(tmp_path, *(result({"objective": {"q": float(q), "m": 2}}) for q in range(1, 5))))
    assert len(table.rows) == 2
    assert table.note == "and 2 rows more; python -m sweeper.query shows them all"


def test_nine_columns_fit_a_terminal(tmp_path):
    metrics = dict.fromkeys(module.METRICS, 0.12345)
    table = means(rows(tmp_path, result(metrics=metrics), result({"seed": 1}, metrics=metrics, status="stopped")))
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(terminal(table))
    lines = console.export_text().splitlines()
    assert len(lines[0].split()) == 9
    assert max(map(len, lines)) <= 80
