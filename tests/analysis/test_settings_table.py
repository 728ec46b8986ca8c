"""The table of settings at the end of a sweep: a column for what varies, deviations over seeds, no mean of percentiles
that jump."""

import dataclasses
import math

import pandas as pd
import pytest

from sweeper.analysis import training_curves
from sweeper.analysis.recorded_spaces import Asked, asked_by
from sweeper.analysis.results import named_frame
from sweeper.analysis.settings_table import (
    MAX_ENTRIES,
    MAX_METRICS,
    Mean,
    mean_of,
    settings,
    settings_table,
    with_deviation,
)
from sweeper.analysis.table import texts
from sweeper.space import search_space
from sweeper.store.store import Store
from sweeper.trial.metrics import Metric
from tests.results import failure, result
from tests.tiny_sweeps import SPACE


@pytest.fixture
def rows(tmp_path):
    """Makes the rows of a store that holds these results."""

    def committed(*results) -> pd.DataFrame:
        store = Store.open(tmp_path / "store")
        for trial in results:
            store.commit(trial)
        return store.trials().to_pandas()

    return committed


def means(rows: pd.DataFrame) -> pd.DataFrame:
    return settings_table(settings(named_frame(rows)))


def shown(table) -> list[dict[str, str]]:
    return [dict(zip(table.columns, row, strict=True)) for row in texts(table)]


def test_what_varies_is_a_column_and_what_is_shared_the_title(rows):
    infinite = {"objective": {"q": "inf", "m": 2}}
    finite = result(metrics={"success": 0.5}), result({"seed": 1}, metrics={"success": 0.75})
    table = means(rows(*finite, result(infinite, metrics={"success": 1.0}), result(infinite | {"seed": 1}, metrics={})))
    assert table.attrs["title"] == "coloring · transformer · Aq_R · 300 steps · finished"
    assert shown(table) == [
        {"q": "3", "seeds": "2", "success": "0.62 ± 0.18"},
        {"q": "inf", "seeds": "2", "success": "1"},
    ]
    assert table["success"][0] == Mean(0.625, math.sqrt(2 * 0.125**2)), "cells keep their values"


@pytest.mark.parametrize(
    ("other", "heads"),
    [
        ({"task": {"name": "recall", "keys": 4}}, ["task", "seeds"]),  # what goes with a name says nothing more
        (
            {"objective": {"q": 3.0, "final_q": 9.0, "m": 2}},
            ["objective_final_q", "seeds"],
        ),  # which only one setting has
        ({"evaluation": {"seeds": 20, "votes": [3]}}, ["evaluation_seeds", "seeds"]),
    ],
)
def test_settings_are_told_apart_by_what_differs(rows, other, heads):
    assert [*means(rows(result(), result(other))).columns][:2] == heads


def test_trials_of_unlike_status_are_never_averaged(rows):
    stopped = [result({"seed": 1 + i}, metrics={"success": 0.5 * i}, status="stopped") for i in (0, 1)]
    table = means(rows(result(metrics={"success": 1.0}), *stopped, failure({"seed": 3})))
    assert [(row["status"], row["seeds"], row["success"]) for row in shown(table)] == [
        ("finished", "1", "1"), ("stopped", "2", "0.2 ± 0.4"), ("failed", "1", ""),
    ]  # fmt: skip


def test_a_percentile_that_jumps_is_not_averaged(rows):
    def trained(seed, baseline, percentile, worst, failed):
        metrics = {"success": 0.9, "success_p5": percentile, "success_worst5": worst, "failed_inputs": failed}
        return result({"seed": seed, "baseline": baseline}, metrics=metrics)

    average = trained(0, "AE_R", 0.0, 0.0, 0.06), trained(1, "AE_R", 1.0, 0.2, 0.04)
    tail = trained(0, "Aq_R", 0.6, 0.5, 0.0), trained(1, "Aq_R", 0.7, 0.5, 0.0)
    jumping, steady = shown(means(rows(*average, *tail)))
    metrics = ("success_p5", "success_worst5", "failed_inputs")
    assert [jumping[name] for name in metrics] == ["0 to 1", "0.10 ± 0.14", "0.050 ± 0.014"]
    assert steady["success_p5"] == "0.65 ± 0.07"


def test_a_spread_of_rounding_is_none(rows):
    half, tenth = 0.5, 0.1
    nearly = half + 4e-8, tenth + 1e-8
    trials = [
        result({"seed": seed}, metrics={"success": success, "loss": loss})
        for seed, (success, loss) in enumerate(((half, tenth), nearly, (half, tenth)))
    ]
    (row,) = shown(means(rows(*trials)))
    assert (row["success"], row["loss"]) == ("0.5 ± 0", "0.1 ± 0")
    assert str(mean_of(Metric("loss"), (tenth, 1.00001 * tenth))) == "0.1000 ± 7e-07"


def test_votes_are_those_estimated_from_all_seeds_where_every_voter_has_them(rows):
    votes = {"success": 0.9, "majority_30": 1.0, "majority_3": 0.9}
    single = result({"baseline": "AE_r0"}, metrics={"success": 0.9})
    estimated = result(metrics=votes | {"votes_30": 0.97, "votes_100": 1.0})
    heads = [*means(rows(single, estimated)).columns]
    assert "votes_30" in heads
    assert not {"majority_30", "votes_100"} & {*heads}
    older = [*means(rows(result({"seed": 1}, metrics=votes))).columns]
    assert "majority_30" in older
    assert "votes_30" not in older


def test_a_task_is_judged_by_its_own_quantity(rows):
    grid = {"task": {"name": "gridworld", "height": 3, "width": 3, "horizon": 9}, "optimizer": {"name": "pgpe"}}
    metrics = {"reward": -20.5, "reward_p5": -25.0, "loss": 20.5, "success": 0.0}
    table = means(rows(result(grid | {"model": {"name": "transformer"}}, metrics=metrics)))
    assert shown(table) == [{"seeds": "1", "reward": "-20.5", "reward_p5": "-25", "success": "0", "loss": "20.5"}]


@pytest.mark.parametrize(
    ("mean", "deviation", "text"),
    [
        (0.78412, 0.0123, "0.784 ± 0.012"),
        (0.5, None, "0.5"),
        (0.00902, 0.0041, "0.009 ± 0.004"),
        (4.2e-7, 3e-8, "(4.2 ± 0.3)e-7"),
        (0.891234, 2e-9, "0.8912 ± 2e-09"),
        (0.0, 0.25, "0.0 ± 0.2"),
        (math.inf, None, "inf"),
    ],
)
def test_a_deviation_says_which_digits_of_the_mean_count(mean, deviation, text):
    assert with_deviation(mean, deviation) == text


def test_people_get_the_first_rows_entries_and_metrics_and_programs_all(rows):
    rates = {"learning_rate": 0.1, "final_learning_rate": 0.01, "beta1": 0.5, "beta2": 0.5, "weight_decay": 0.1}
    other = {"objective": {"q": 4.0, "m": 3}, "batch_size": 4, "optimizer": rates, "steps": 100}
    names = ("success", "success_worst5", "failed_inputs", "majority_30", "loss", "success_p5", "variance")
    metrics = dict.fromkeys(names, 0.1)
    listed = settings(named_frame(rows(*(result(each, metrics=metrics) for each in ({"optimizer": {}}, other)))))
    table, every = (settings_table(listed, "loss", Asked(metrics=names), most=most) for most in (1, None))
    assert (len(table), [*table.columns].index("seeds")) == (1, MAX_ENTRIES)
    assert len(table.columns) == MAX_ENTRIES + 1 + MAX_METRICS
    assert "python -m sweeper query best" in table.attrs["note"]
    assert (len(every), [*every.columns].index("seeds"), every.attrs["note"]) == (2, 9, "")
    assert {*names} <= {*every.columns}


def test_entries_that_a_space_leaves_open_or_writes_are_shown_and_the_defaults_of_what_is_chosen_are_not(tmp_path):
    """The same in the table of people, in that of programs, and in the legend of the page."""
    space = tmp_path / "space.yaml"
    space.write_text(
        SPACE.replace(
            "{warmup_steps: 10}", "{choice: [{name: adam}, {name: lion}, {name: sgd, momentum: {choice: [0.5, 0.9]}}]}"
        )
        .replace("batch_size: 8", "batch_size: {formula: '2 * trial.objective.q + 2'}")
        .replace("q: 3", "q: {choice: [3, 4]}")
    )
    read = search_space.read(space)
    store = Store.open(tmp_path / "store")
    for trial in read.expand().trials:
        store.commit(dataclasses.replace(result(), trial=trial))
    listed = settings(named_frame(store.trials().to_pandas()))
    table, every = (settings_table(listed, asked=asked_by(read), most=most) for most in (20, None))
    heads = ["q", "optimizer", "optimizer_momentum", "batch_size", "seeds"]
    assert [name for name in table.columns if name in {*every.columns} - {"success", "success_p5"}] == heads
    assert "optimizer_beta2" in every.columns
    assert table.attrs["note"] == "", "nothing is left out that anybody wrote"
    labels = training_curves._labels([setting.entries for setting in listed], asked_by(read).entries)
    assert labels[0] == "q=3 adam batch_size=8"
    assert "q=4 sgd momentum=0.9 batch_size=10" in labels
    unknown = settings_table(listed, most=20)
    assert "optimizer_beta2" in unknown.columns, "of a space that cannot be read all that differs"
