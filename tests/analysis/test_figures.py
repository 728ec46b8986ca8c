"""Figures of made-up results: which trials they show, which numbers, and what is painted of them.

Panels are painted on bare axes here; what the layout makes of them is tested in `test_composed_figures`.
"""

import dataclasses
import json
import math
import re
from dataclasses import replace
from types import MappingProxyType

import matplotlib
import numpy as np
import pandas as pd
import pytest

import tasks.gridworld.minmax
from sweeper.analysis import figures
from sweeper.analysis.comparison import Comparison, agreement
from sweeper.analysis.figures import FigureReport, drawing, histogram, layout, selection, style
from sweeper.analysis.figures.drawing import PUBLISHED_ONLY
from sweeper.analysis.results import Results
from sweeper.panels.series import Best
from tasks.gridworld.environment import Grid
from tests.analysis.made_up_figures import (
    BOARD,
    CELLS,
    HISTORY,
    curve,
    labels,
    painted,
    panel,
    points,
    results,
    trial,
    walker,
    walkers,
)

SHADES = style.PALETTES["paper"].shades


# Which trials


def test_a_seed_counts_once_at_a_point_and_only_finished_trials_count():
    stored = results(
        [
            trial("Aq_R", seed=0, success=0.0), trial("AE_R", seed=0, success=1.0), trial(seed=1, success=1.0),
            trial(seed=2, success=0.0, status="failed"), trial(seed=3, success=0.0, status="stopped"),
        ]
    )  # fmt: skip
    content = drawing(curve(series=[{"label": "a", "where": {"baseline": ["AE_R", "Aq_R"]}}]), stored)
    assert points(content).loc[1.0, "mean"] == 0.75
    assert points(content).loc[1.0, "count"] == 2
    assert content.notes == []


@pytest.mark.parametrize(
    "where",
    [
        {"task_vertices": 10, "q": float("inf")},
        {"task.vertices": [9, 10], "objective.q": [float("inf")]},
        {"optimizer_weight_decay": 0.1, "task": "coloring", "seed": 1, "q": float("inf")},
    ],
)
def test_conditions_reach_columns_and_entries_of_the_trial(where):
    stored = results([trial(q=1.0, seed=0), trial(q=float("inf"), seed=1)])
    assert selection.chosen(stored, where)["seed"].tolist() == [1]


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ({"vertexes": 10}, "'task_vertices'"),  # was meant
        ({"q": 2}, "q = 2$"),
        # Conditions that all trials meet are no reason.
        ({"task_vertices": 10, "q": [2, 3, 4, 5], "baseline": "Aq_R"}, r"trial with q = 2, …, 5 \(4 "),
    ],
)
def test_conditions_that_meet_nothing_are_named(where, named):
    with pytest.raises(selection.NoData, match=named):
        selection.chosen(results([trial()]), where)


def test_merged_trials_are_named_unless_axis_or_condition_mentions_them():
    stored = results([trial(seed=0, steps=100, success=0.5), trial(seed=1, steps=200, success=0.6)])
    content = drawing(curve(split="baseline"), stored)
    assert content.differences == ["steps (100, 200)"]
    (note,) = content.notes
    assert (note.series, note.text.endswith(content.differences[0])) == ("Aq_R", True)
    assert any(remark.endswith(content.differences[0]) for remark in content.remarks()), "in the footer"
    assert content.title().endswith(content.differences[0])
    mentioned = results([trial("AE_R", q=1.0, success=0.5), trial("Aq_R", q=2.0, success=0.6)])
    one = curve(series=[{"label": "a", "where": {"baseline": ["AE_R", "Aq_R"]}}])
    assert drawing(one, mentioned).notes == []


def test_a_cost_is_of_trials_of_one_length():
    lengths = {1.0: 100, 2.0: 100, 3.0: 200}
    trials = [trial(q=q, steps=steps, wall_seconds=float(steps), device="cpu", lanes=1) for q, steps in lengths.items()]
    drawn = drawing(curve(metric="wall_seconds", split="baseline"), results(trials))
    assert drawn.frame[["x", "value"]].to_numpy().tolist() == [[1.0, 100.0], [2.0, 100.0]]
    assert drawn.differences == []
    (note,) = drawn.notes
    assert re.findall(r"\d+", note.text) == ["100", "1"]
    assert any(note.text in remark for remark in drawn.remarks()), "in the footer"
    against = drawing(curve(metric="wall_seconds", split="baseline", x={"column": "steps"}), results(trials))
    assert against.frame["x"].tolist() == [100.0, 100.0, 200.0], "lengths that an axis shows"


def test_costs_of_unlike_machines_are_named():
    trials = [trial(seed=seed, success=0.5, wall_seconds=60.0, device=f"gpu {seed}", lanes=1) for seed in range(2)]
    stored = results(trials)
    assert drawing(curve(metric="wall_seconds", split="baseline"), stored).differences == ["device (gpu 0, gpu 1)"]
    assert drawing(curve(split="baseline"), stored).differences == []


# Which numbers


def test_every_fraction_of_100_seeds_falls_into_its_bin():
    votes, edges = np.arange(101), histogram.bin_edges(np.empty(0), 25)
    np.testing.assert_array_equal(histogram.bin_index(np.float32(votes / 100), edges), np.minimum(votes // 4, 24))


@pytest.mark.parametrize(
    ("steps", "count"), [(1, 25), (3, 25), (20, 21), (25, 25), (30, 31), (50, 25), (64, 25), (100, 25), (1000, 25)]
)
def test_bins_can_be_filled_by_the_values_of_their_column(steps, count):
    values = np.float32(np.arange(steps + 1) / steps)
    edges = histogram.bin_edges(values, None)
    assert len(edges) == count + 1
    if steps >= 10:
        assert np.bincount(histogram.bin_index(values, edges), minlength=count).min() > 0
    assert len(histogram.bin_edges(values, 7)) == 8


def test_each_histogram_has_bins_of_its_own():
    rng = np.random.default_rng(0)
    outcomes = {"success": rng.integers(0, 101, 400) / 100, "majority_5": rng.integers(0, 21, 400) / 20}
    stored = Results.of_frame(results([trial()]).trials, lambda trial_id, name: outcomes[name])
    one = panel(
        kind="histogram",
        series=[{"label": name, "metric": name} for name in outcomes],
        published=[{"series": "majority_5", "source": "f", "fractions": {1: 0.5}}],
    )
    content = drawing(one, stored)
    assert content.frame.groupby("series", sort=False).size().tolist() == [25, 21]
    assert content.compare()[0].measured == np.mean(outcomes["majority_5"] == 1)
    assert {"Success: ", "majority_5: "} <= set(re.findall(r"\w+: ", content.remarks()[0]))


def test_a_metric_that_was_not_measured_leaves_out_its_curve_alone_and_keeps_its_published_values():
    one = curve(series=[{"label": "seen"}, {"label": "unseen", "metric": "majority_30"}])
    content = drawing(one, results([trial(success=0.5)]))
    assert content.labels() == ["seen"]
    assert [(note.series, "'majority_30'" in note.text) for note in content.notes] == [("unseen", True)]
    at = [{"series": "a", "metric": "success_p5", "source": "f", "values": {1: 0.3}}]
    tail = curve(series=[{"label": "a", "metric": "success", "tail": "success_p5"}], published=at)
    assert len(crosses(painted(drawing(tail, results([trial(success=0.5)]))))) == 1


def test_shares_that_are_zero_in_both_are_counted_apart():
    def compared(published, measured, percent=True):
        return Comparison("P", "c", "success", 1.0, published, measured, None, None, 1, (9,), percent, "f")

    agreed = agreement(
        [
            compared(0.5, 0.54), compared(0.5, 0.56), compared(0.0, 0.01), compared(0.0, 0.0), compared(1.0, 1.0),
            compared(0.5, None), compared(0.0, 0.0, percent=False),
        ]
    )  # fmt: skip
    assert [count for count, _ in agreed] == ["3 of 4", "1"]


@pytest.mark.parametrize(
    ("published", "largest", "measured", "missed"),
    [
        (0.0015, 0.0333, 0.0045, True),  # three times the loss
        (0.0055, 0.0333, 0.0058, False),  # within 10 %
        (0.0055, 0.0333, 0.0064, True),
        (0.0015, 0.0333, 0.0018, False),  # 20 % off, and still as near as the figure can be read
        (18.9, 39.0, 20.5, False),
        (27.3, 39.0, 21.8, True),  # better is no hit either
        (0.0, 0.1, 0.0005, False),
        (0.0, 0.1, 0.02, True),
        (0.0, 0.0, 0.02, False),  # no scale to judge by
    ],
)
def test_numbers_that_are_no_shares_can_be_misses(published, largest, measured, missed):
    compared = Comparison("P", "c", "loss", 1.0, published, measured, None, None, 1, (9,), False, "f", largest)
    assert compared.missed == missed
    assert [count for count, _ in agreement([compared])] == [f"{not missed:d} of 1"] * bool(largest)


def test_the_scale_of_a_panel_is_its_largest_published_number():
    references = [{"series": "A", "metric": "loss", "source": "f", "values": {1: 0.0015, 2: -0.0333}}]
    one = curve(metric="loss", series=[{"label": "A"}], published=references)
    assert {compared.largest for compared in drawing(one, results([trial(loss=0.0045)])).compare()} == {0.0333}


def test_curve_and_table_show_the_same_number():
    tails = [trial(q=q, seed=seed, success=0.9, success_p5=0.4 + 0.1 * seed) for q in (1.0, 2.0) for seed in range(3)]
    published = [{"series": "a", "metric": "success_p5", "source": "f", "values": {2: 0.695}}]
    keys = {"tail": "success_p5", "y": {"percent": True}, "series": [{"label": "a"}], "published": published}
    content = drawing(curve(**keys), results(tails))
    compared, pooled = content.compare()[0], content.compare()[1:]
    assert (compared.at, compared.seeds, compared.steps, pooled) == (2.0, 3, (20_000,), [])
    assert (compared.lowest, compared.measured, compared.highest) == pytest.approx((0.4, 0.5, 0.6))
    assert compared.difference == pytest.approx(0.5 - 0.695)
    drawn = [np.asarray(line.get_ydata()) for line in painted(content)[0].lines]
    assert any(len(y) == 2 and np.isclose(y[-1], 100 * compared.measured) for y in drawn)


def test_histograms_are_compared_by_share_and_by_fullest_bin():
    values = {trial()["trial_id"]: np.array([0.0, 0.98, 0.89, 0.89])}
    one = panel(
        kind="histogram",
        metric="success",
        series=[{"label": "$A_R$"}],
        published=[{"series": "$A_R$", "source": "here", "fractions": {0: 0.5, 1: 0.5}, "peak": 0.5}],
    )
    stored = results([trial()], values)
    compared = drawing(one, stored).compare()
    assert [(row.metric, row.at, row.measured) for row in compared] == [
        ("fraction of inputs", 0, 0.25),
        ("fraction of inputs", 1, 0.25),
        ("fullest bin", None, 0.9),
    ]
    assert {(row.steps, row.seeds) for row in compared} == {((20_000,), 1)}, "those of the trials that were measured"


def test_trials_without_a_value_of_the_axis_have_a_place_where_one_is_given():
    trials = [trial(seed=seed, success=0.5, m=m) for seed in range(2) for m in (10, 20)]
    stored = results(trials)
    stored.trials["m"] = stored.trials["m"].where(stored.trials["m"] < 20)
    keys: dict = {"kind": "curve", "metric": "success", "split": "q"}
    assert drawing(panel(x="m", **keys), stored).counts() == {10: "2"}
    assert drawing(panel(x={"column": "m", "empty": 99}, **keys), stored).counts() == {10: "2", 99: "2"}


def test_an_axis_of_text_is_no_axis_of_a_curve():
    content = drawing(curve(x="baseline", split="q"), results([trial(success=0.5)]))
    assert content.labels() == []
    (note,) = content.notes
    assert re.findall("'[a-z]+'", note.text) == ["'baseline'", "'success'"]


def test_percentiles_of_all_training_seeds_together_stand_beside_their_mean():
    """Of two deterministic trainings one fails on 3 % of the inputs and one on 9 %, together on 6 %."""
    made = [trial(seed=seed, success=1 - failing / 100, success_p5=1.0 - seed) for seed, failing in enumerate((3, 9))]
    failed = zip(made, (3, 9), strict=True)
    inputs = {one["trial_id"]: (np.arange(100) >= failing).astype(float) for one, failing in failed}
    published = [{"series": "s", "metric": "success_p5", "values": {1.0: 0.0}, "source": "made up"}]
    keys = {"y": {"percent": True}, "series": [{"label": "s"}]}
    beside = curve(**keys, tail="success_p5", published=published)

    compared = drawing(beside, results(made, inputs)).compare()
    assert {each.metric: each.measured for each in compared} == {"success_p5": 0.5, "success_p5_pooled": 0.0}
    assert [count for count, _ in agreement(compared)] == ["0 of 1"], "a published number counts once"
    assert [each.metric for each in drawing(beside, results(made)).compare()] == ["success_p5"]
    assert [each.metric for each in drawing(beside, results(made[:1], inputs)).compare()] == ["success_p5"]

    # Outcomes are those of a trial's own protocol, and an evaluation by another one keeps none.
    evaluated = replace(results(made, inputs), evaluations=lambda: results(made).trials)
    by_evaluations = beside.model_copy(update={"rows": "evaluations"})
    assert [each.metric for each in drawing(by_evaluations, evaluated).compare()] == ["success_p5"]

    alone = curve(**keys, metric="success_p5_pooled")
    assert drawing(alone, results(made, inputs)).frame["value"].tolist() == [0.0, 0.0]
    missing = drawing(alone, results(made))
    assert (missing.labels(), "'success_p5_pooled'" in missing.notes[0].text) == ([], True)


# What is painted


def test_a_value_axis_is_painted_in_its_unit_and_from_its_limit():
    stored = results([trial(q=q, success=0.5, wall_seconds=60 * q, device="cpu", lanes=1) for q in (1.0, 3.0)])
    y = {"unit": 60, "limits": [0, None], "label": "min"}
    (axes,) = painted(drawing(curve(metric="wall_seconds", split="baseline", y=y), stored))
    assert any(line.get_ydata().tolist() == [1.0, 3.0] for line in axes.lines)
    low, high = axes.get_ylim()
    assert low == 0
    assert high > 3.05


def crosses(axes):
    """Published values as they are painted: colour and place, in points."""
    return [
        (line.get_color(), line.get_transform().transform(np.column_stack(line.get_data()))[0] * 72 / ax.figure.dpi)
        for ax in axes
        for line in ax.lines
        if line.get_marker() in ("x", "+") and len(line.get_xdata())
    ]


TWO = [
    {"label": "seen", "color": "red", "metric": "success", "where": {"baseline": "Aq_R"}},
    {"label": "unseen", "color": "blue", "metric": "success", "where": {"baseline": "Aq_r0"}},
]


def published(values):
    return [{"series": one, "metric": "success", "source": "f", "values": at} for one, at in values.items()]


def test_published_values_are_painted_also_of_a_series_without_trials():
    one = curve(series=TWO, published=published({"seen": {1: 0.5}, "unseen": {1: 0.9, 4: 0.8}}))
    content = drawing(one, results([trial(success=0.5)]))
    (axes,) = painted(content)
    assert [color for color, _ in crosses([axes])] == [SHADES["red"], SHADES["blue"], SHADES["blue"]]
    assert labels(content) == ["seen", f"unseen{PUBLISHED_ONLY}", "published"]
    assert "4" in [label.get_text() for label in axes.get_xticklabels()]
    exact = [{**each, "label": "exact"} for each in published({"seen": {1: 0.5}, "unseen": {1: 0.9}})]
    content = drawing(curve(series=TWO, published=exact), results([trial(success=0.5)]))
    assert labels(content) == ["seen", f"unseen{PUBLISHED_ONLY}", "exact"]


def test_published_tails_beside_averages_have_crosses_of_their_own():
    at = [*published({"a": {1: 0.9}}), {"series": "a", "metric": "success_p5", "source": "f", "values": {1: 0.3}}]
    both = curve(series=[{"label": "a", "metric": "success", "tail": "success_p5"}], published=at)
    content = drawing(both, results([trial(success=0.5, success_p5=0.2)]))
    (axes,) = painted(content)
    assert [line.get_marker() for line in axes.lines if line.get_gid() == style.PUBLISHED] == ["x", "+"]
    assert labels(content)[-2:] == ["published", "published, 5th percentile"]
    alone = curve(series=[{"label": "a", "tail": "success_p5"}], published=at[1:])
    content = drawing(alone, results([trial(success=0.5, success_p5=0.2)]))
    assert labels(content)[-1] == "published"


def test_single_seeds_of_tails_beside_averages_are_hollow():
    stored = results([trial(seed=seed, success=0.9, success_p5=0.25 + 0.25 * seed) for seed in (0, 1)])
    (axes,) = painted(drawing(curve(tail="success_p5", split="baseline"), stored))
    faint = [line for line in axes.lines if line.get_alpha() is not None and len(line.get_xdata())]
    hollow = {tuple(line.get_ydata()): line.get_markerfacecolor() == "none" for line in faint}
    assert hollow == {(0.9, 0.9): False, (0.25, 0.5): True}


def test_published_shares_and_peaks_are_painted_also_of_a_histogram_without_trials():
    one = panel(
        kind="histogram",
        metric="success",
        series=[{"label": "seen", "where": {"q": 1}}, {"label": "unseen", "color": "blue", "where": {"q": 2}}],
        published=[{"series": "unseen", "source": "f", "fractions": {0: 0.2}, "peak": 0.4}],
    )
    content = drawing(one, results([trial()], {trial()["trial_id"]: np.float32([0.5, 1.0])}))
    axes = painted(content)
    assert [color for color, _ in crosses(axes)] == [SHADES["blue"]]
    assert [line.get_color() for line in axes[0].lines if line.get_marker() == "v"] == [SHADES["blue"]]
    assert labels(content) == ["seen (1 seed)", f"unseen{PUBLISHED_ONLY}", "published", "published peak"]


@pytest.mark.parametrize(
    ("measured", "value", "scale", "lost"), [(0.5, 0.0, "log", 1), (0.0, 0.5, "log", 1), (0.0, 0.0, "linear", 0)]
)
def test_a_logarithmic_axis_counts_with_published_values_too(measured, value, scale, lost):
    """What is not shown is told; what is above 0 is enough for the axis."""
    one = curve(series=TWO[:1], y={"scale": "log"}, published=published({"seen": {1: value}}))
    content = drawing(one, results([trial(success=measured)]))
    (axes,) = painted(content)
    assert axes.get_yscale() == scale
    assert [re.findall(r"\d+ value", note.text) for note in content.notes] == [["1 value"] if lost else []]


@pytest.mark.slow
def test_crosses_that_coincide_stand_side_by_side():
    one = curve(series=TWO, published=published({"seen": {1: 0, 9: 0.2}, "unseen": {1: 0, 9: 0.9}}))
    axes = painted(drawing(one, results([trial(success=0.5)])))
    layout._spread(axes[0])
    (_, left), (_, alone), (_, right), (_, other) = crosses(axes)
    np.testing.assert_allclose(right - left, [layout.CLOSE, 0], atol=1e-6)
    np.testing.assert_allclose(alone[0], other[0])


def test_a_percentile_that_jumps_has_points_and_no_line():
    """At q = 2 one training is right on nearly all inputs and one is not; at q = 1 and 3 none is."""
    tails = [(q, seed, float(q == 2 and seed == 0)) for q in (1, 2, 3) for seed in (0, 1)]
    stored = results([trial(q=float(q), seed=seed, success=0.9, success_p5=tail) for q, seed, tail in tails])
    content = drawing(curve(tail="success_p5", split="baseline"), stored)
    (axes,) = painted(content)
    (dashed,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    np.testing.assert_equal(np.asarray(dashed.get_ydata()), [0, np.nan, 0])
    empty = [line for line in axes.lines if line.get_linestyle() == "None" and line.get_alpha() is None]
    assert [sorted(np.asarray(line.get_ydata())) for line in empty if len(line.get_xdata())] == [[0, 1]]
    assert "bold empty markers" in "; ".join(content.remarks())


def test_rounding_is_not_magnified():
    stored = results([trial(seed=seed, success=0.5 + 3e-8 * seed) for seed in range(3)])
    (axes,) = painted(drawing(curve(split="baseline"), stored))
    style.show_no_rounding(axes)
    low, high = axes.get_ylim()
    assert high - low > 0.1


def test_bands_of_averages_are_not_covered_by_those_of_tails():
    stored = results([trial(seed=seed, success=0.5 + seed / 9, success_p5=seed / 9) for seed in range(2)])
    keys = {"kind": "curve", "x": "q", "tail": "success_p5", "split": "baseline", "y": {"percent": True}}
    for one, low in ((panel(metric="success", **keys), 50.0), (panel(**keys), 0.0)):
        (band,) = painted(drawing(one, stored))[0].collections
        assert band.get_paths()[0].vertices[:, 1].min() == pytest.approx(low)


@pytest.mark.parametrize(
    ("tail", "unit", "name"),
    [
        ("success_p5", 1, "5th percentile"),
        ("loss_p95", 1, "95th percentile"),
        ("loss_p95", -1, "5th percentile"),
        ("success", 1, "success"),
    ],
)
def test_the_legend_says_what_a_dashed_line_is(tail, unit, name):
    stored = results([trial(success=0.5, success_p5=0.1, loss_p95=0.2)])
    one = panel(kind="curve", x="q", tail=tail, split="baseline", y={"unit": unit})
    assert labels(drawing(one, stored)) == ["Aq_R", name]


def test_series_keep_the_order_of_the_panel_wherever_they_begin():
    trials = [trial("Aq_R", q=2.0, success=0.5), trial("AE_R", q=3.0, success=0.5), trial("AE_R", q=1.0, success=0.4)]
    series = [{"label": name, "where": {"baseline": name}} for name in ("Aq_R", "AE_R")]
    content = drawing(curve(series=series), results(trials))
    assert labels(content) == ["Aq_R", "AE_R"]
    (axes,) = painted(content)
    assert [line.get_xdata().tolist() for line in axes.lines if line.get_linestyle() == "-"] == [[2.0], [1.0, 3.0]]


def test_series_apart_have_axes_of_their_own_that_share_the_vertical_axis():
    trials = [trial(name, success=0.5, success_p5=low) for name, low in (("Aq_R", 0.4), ("AE_R", 0.1))]
    content = drawing(curve(tail="success_p5", split="baseline", apart=True), results(trials))
    axes = painted(content)
    assert [[line.get_ydata().tolist() for line in ax.lines] for ax in axes] == [[[0.5], [0.1]], [[0.5], [0.4]]]
    assert axes[0].get_ylim() == axes[1].get_ylim()
    assert [ax.texts[-1].get_text() for ax in axes] == ["AE_R", "Aq_R"]
    assert labels(content) == ["average", "5th percentile"]


QS = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, math.inf]


def seeds_above(axes):
    """The numbers of training seeds that stand above the axes."""
    return [text.get_text() for text in axes.texts if text.get_gid() == style.COUNT]


def test_uneven_seeds_missing_points_and_infinity_are_shown():
    trials = [
        trial(baseline, q, seed, success=0.01)
        for q in QS
        for baseline in ("Aq_R", "Aq_r0")
        for seed in range(5 if q < 20 else 2)
        if not (baseline == "Aq_r0" and q == 16.0)
    ]
    stored = results(trials, {one["trial_id"]: np.float32([0, 1]) for one in trials})
    (axes,) = painted(drawing(curve(x={"column": "q", "scale": "log"}, split="baseline"), stored))
    assert seeds_above(axes) == [*"55555222222"], "each x has one number, for both series"
    assert [label.get_text() for label in axes.get_xticklabels()] == [*(f"{q:g}" for q in QS[:-1]), "∞"]
    heat = painted(drawing(panel(kind="heatmap", x="q", metric="success", split="baseline"), stored))
    (hatched,) = [patch for axes in heat for patch in axes.patches if patch.get_hatch()]
    assert hatched.get_x() == 4, "q = 16, without trials, is the fifth column"


@pytest.mark.slow
def test_seed_counts_stand_above_points_that_differ_in_them_once_for_series_that_share_them():
    def shown(*counts, split="baseline"):
        trials = [
            trial(baseline, q, seed, m=m, success=0.5)
            for baseline, q, m, seeds in counts
            for seed in range(seeds)
        ]  # fmt: skip
        content = drawing(curve(split=split), results(trials))
        return seeds_above(painted(content)[0]), content.remarks()[0]

    shared = [(baseline, q, 1, seeds) for baseline in ("Aq_R", "Aq_r0") for q, seeds in ((1.0, 2), (3.0, 1))]
    assert shown(*shared)[0] == ["2", "1"]
    above, remark = shown(("Aq_R", 1.0, 1, 3), ("Aq_R", 2.0, 1, 3))
    assert (above, re.findall(r"\d+", remark)) == ([], ["3"])
    above, remark = shown(
        *(("Aq_R", q, m, m) for m in range(1, 15) for q in (1.0, 2.0) if (m, q) != (14, 2.0)), split="m"
    )
    assert above == ["1-14", "1-13"], "series that differ have a range"


LOGARITHMIC = {"kind": "curve", "x": {"column": "q", "scale": "log"}, "y": {"scale": "log"}, "metric": "success"}


@pytest.mark.parametrize(
    ("kind", "qs", "values", "scales", "lost"),
    [
        ("curve", (0, 0.01, 0.1, math.inf), (0.1, 0.2, 0.3, 0.4), ("log", "log"), []),
        ("curve", (0,), (0.5,), ("linear", "log"), ["horizontal"]),
        ("curve", (-1, 0, 2), (0.5, 0.5, 0.5), ("linear", "log"), ["horizontal"]),
        ("curve", (1, 2), (0, 0), ("log", "linear"), ["vertical"]),
        ("curve", (1, 2, 3), (0, 0.1, -1), ("log", "log"), ["2 values"]),
        ("scatter", (0, 1), (0.5, 0.5), ("log", "log"), ["1 value"]),
        ("scatter", (0, 0), (0, 0), ("linear", "linear"), ["horizontal", "vertical"]),
    ],
)
def test_zero_on_a_logarithmic_axis_is_shown_or_told(kind, qs, values, scales, lost):
    found = results([trial(q=float(qs[seed]), seed=seed, success=value) for seed, value in enumerate(values)])
    content = drawing(panel(**LOGARITHMIC | {"kind": kind, "series": [{"label": "all"}]}), found)
    (axes,) = painted(content)
    assert (axes.get_xscale(), axes.get_yscale()) == scales
    notes = [note.text for note in content.notes]
    assert sorted(word for word in lost for note in notes if word in note.split(" is ")[0]) == sorted(lost)
    assert (len(notes), set(notes) <= set(content.remarks())) == (len(lost), True), "in the footer as well"
    if kind == "curve":
        assert [text.get_text() for text in axes.get_xticklabels()] == list(map(style.number, sorted(map(float, qs))))
        places = axes.lines[-1].get_xdata()
        assert list(places) == sorted(set(places)), "0 stands before all others"
        if math.inf in qs:
            np.testing.assert_allclose(places, [0.001, 0.01, 0.1, 1.0], err_msg="0 and infinity stand one step away")


@pytest.mark.parametrize("kind", ["curve", "scatter"])
def test_limits_of_a_logarithmic_axis_hide_no_zeros(kind):
    axis = {"y": {"scale": "log", "limits": [0.001, 1]}, "series": [{"label": "all"}]}
    found = results([trial(q=float(q), success=0) for q in (1, 2)])
    (axes,) = painted(drawing(panel(**LOGARITHMIC | axis | {"kind": kind}), found))
    low, high = axes.get_ylim()
    assert low < 0 < high


def test_a_heat_map_of_very_many_values_shows_some_and_says_so():
    made = [trial(q=float(q), success=0.5) for q in range(100)]
    found = results(made, {one["trial_id"]: np.array([0.0, 0.5, 1.0]) for one in made})
    content = drawing(panel(kind="heatmap", x="q", metric="success", label="success", split="baseline"), found)
    columns = content.columns()
    assert (columns[0], columns[-1], len(columns)) == (0, 99, histogram.MOST_COLUMNS)
    assert ["60", "100"] in [re.findall(r"\d+", remark) for remark in content.remarks()]


def test_colors_of_the_colorblind_palette_differ_for_every_reader():
    # Machado, Oliveira and Fernandes 2009, severity 1: what protanopes, deuteranopes and tritanopes see.
    readers = [
        np.eye(3),
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ]
    shades = [*style.PALETTES["colorblind"].shades.values(), "#ffffff"]
    rgb = np.array([[int(shade[i : i + 2], 16) for i in (1, 3, 5)] for shade in shades]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.41246, 0.35758, 0.18044], [0.21267, 0.71515, 0.07218], [0.01933, 0.11919, 0.95030]])
    for reader in readers:
        xyz = np.clip(linear @ np.transpose(reader), 0, 1) @ to_xyz.T / [0.95047, 1, 1.08883]
        f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
        lab = np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)
        distances = np.linalg.norm(lab[:, None] - lab[None], axis=-1)[np.triu_indices(len(lab), 1)]
        assert distances.min() > 20


# A grid world


def settings(rewards=MappingProxyType({0.01: [-9.0, -7.0], 0.03: [-6.0, -12.0], 0.1: [-5.0]})):
    """Two settings of two seeds each, and one that has the best seed of all, but no other."""
    return walkers(
        [walker(seed=seed, rate=rate, reward=r) for rate, reached in rewards.items() for seed, r in enumerate(reached)]
    )


def test_a_training_curve_is_drawn_for_the_best_setting_in_the_unit_of_its_axis():
    content = drawing(HISTORY, settings())
    assert points(content)["mean"].to_dict() == {50.0: 16.0, 100.0: 8.0}
    assert points(content)["count"].tolist() == [2, 2]
    assert points(content, metric="tail_loss")["tail"].all()
    exact = tasks.gridworld.minmax.deterministic(Grid(2, 3, 4))
    ((_, _, value),) = content.exact
    assert value == -exact
    drawn = [list(line.get_ydata()) for line in painted(content)[0].lines]
    assert all(y in drawn for y in ([-16, -8], [-32, -16], [-exact, -exact]))
    assert f"no walk is better (-{exact})" in labels(content)
    assert any(note.series == "none" and "'nothing'" in note.text for note in content.notes)


def test_a_line_of_many_points_has_no_markers_that_tell_nothing():
    made = settings()

    def curves(trial_ids):
        few = made.curves(trial_ids)
        return pd.concat([few.assign(step=few["step"] + 100 * n) for n in range(30)])

    for shown, dense, markers in ((made, False, {"o"}), (dataclasses.replace(made, curves=curves), True, set())):
        content = drawing(HISTORY, shown)
        assert content.dense == dense
        lines = [line for line in painted(content)[0].lines if len(line.get_xdata()) > 1 and line.get_alpha() is None]
        assert {line.get_marker() for line in lines if line.get_linestyle() == "-"} - {"", "None"} == markers


def test_the_best_setting_has_the_best_mean_and_is_named():
    def note(best, stored):
        notes = drawing(HISTORY.model_copy(update={"best": best}), stored).notes
        return next(note.text for note in notes if note.series == "Aq_R")

    best = note(HISTORY.best, settings())
    assert re.findall(r"-?\d[\d.]*", best) == ["2", "-8", "0.01", "1"], "of 2 settings, and 1 more with fewer seeds"
    assert "reward (-8): optimizer_center_learning_rate 0.01" in best
    assert any(best in remark for remark in drawing(HISTORY, settings()).remarks())
    assert "optimizer_center_learning_rate 0.03" in note(Best(metric="reward", mode="min"), settings())
    assert "'regret'" in note(Best(metric="regret"), settings())
    diverged = note(HISTORY.best, settings({0.01: [-9.0, -7.0], 0.03: [math.inf, -12.0]}))
    assert "of 1 settings by reward (-8)" in diverged


def test_entries_of_a_series_that_differ_are_named():
    trials = [walker(reward=-8.0), walker(rate=0.03, reward=-9.0), walker(rate=0.1, reward=-5.0)]
    for each, name, seeds in zip(trials, ("pgpe", "snes", "pgpe"), (10, 10, 20), strict=True):
        spec = json.loads(each["spec"])
        spec |= {"optimizer": {"name": name}, "evaluation": {"seeds": seeds}, "objective": {"name": f"by_{name}"}}
        each["spec"] = json.dumps(spec)
    (best,) = drawing(HISTORY, walkers(trials)).best
    assert best.endswith("reward (-5): objective by_pgpe, optimizer pgpe, evaluation_seeds 20")
    unlike = drawing(HISTORY.model_copy(update={"best": None}), walkers(trials)).differences
    assert unlike == ["evaluation_seeds (10, 20); objective (by_pgpe, by_snes); optimizer (pgpe, snes)"]


@pytest.mark.parametrize(
    ("x", "means"),
    [
        # A setting competes with others at its own place on the axis alone.
        ("optimizer_center_learning_rate", [[-8.0, -9.0, -5.0]] * 2),
        ("steps", [[-8.0], [-9.0]]),
    ],
)
def test_a_series_may_be_chosen_otherwise_than_its_panel(x, means):
    series = [{"label": "a"}, {"label": "b", "best": {"metric": "reward", "mode": "min"}}]
    content = drawing(curve(x=x, metric="reward", best={"metric": "reward"}, series=series), settings())
    assert [points(content, series)["mean"].tolist() for series in range(2)] == means
    assert bool(content.notes) == (x == "steps")


def test_published_values_of_a_training_curve_stand_at_their_step_and_unstored_curves_are_named():
    at_end, beyond = drawing(HISTORY, settings()).compare()
    assert (at_end.measured, at_end.published, at_end.seeds, at_end.steps) == (16.0, 17.0, 2, (20_000,))
    assert beyond.measured is None
    notes = drawing(HISTORY.model_copy(update={"metric": "regret", "tail": None, "published": ()}), settings()).notes
    assert any("'regret'" in note.text and "mean_loss, tail_loss" in note.text for note in notes)


def test_inputs_lie_row_by_row_from_the_first_cell():
    content = drawing(CELLS, walkers([walker(seed=1, reward=-1.0), walker(seed=0, reward=-1.0)]))
    assert set(content.frame["seed"]) == {0}
    cells = content.frame.set_index(["row", "column"])["value"].to_dict()
    assert cells == {(1, 2): 1, (1, 3): 2, (2, 1): 3, (2, 2): 4, (2, 3): 5}
    other = drawing(CELLS.model_copy(update={"seed": 1}), walkers([walker(seed=1, reward=-1.0)]))
    assert other.frame["value"].iloc[-1] == 5.5
    assert len([patch for patch in painted(content)[0].patches if patch.get_hatch()]) == 1


@pytest.mark.parametrize(
    ("one", "changes", "named"),
    [
        (CELLS, {"first": 2}, ["5", "2", "2 x 3"]),
        (CELLS, {"rows": "depth"}, ["'depth'"]),
        (CELLS, {"rows": "optimizer_center_learning_rate"}, ["'optimizer_center_learning_rate'", "0.01"]),
        (CELLS, {"seed": 7}, ["seed = 7"]),
        (CELLS, {"limits": (0.0, "end")}, ["'end'"]),
        (BOARD, {"target": (1, 1)}, ["row 1", "column 1", "2 x 3"]),
    ],
)
def test_grids_that_cannot_be_laid_out_say_why(one, changes, named):
    content = drawing(one.model_copy(update=changes), walkers([walker(reward=-1.0)]))
    (note,) = content.notes
    assert [part for part in named if part in note.text] == named
    assert content.labels() == []


def test_limits_of_a_map_may_be_a_column_of_its_trials():
    one = CELLS.model_copy(update={"limits": (0.0, "task.horizon")})
    (axes,) = painted(drawing(one, walkers([walker(reward=-1.0)])))
    assert axes.collections[0].get_clim() == (0, 4)


def test_one_map_shows_one_training():
    content = drawing(CELLS, settings())
    assert content.labels() == []
    assert "optimizer_center_learning_rate (" in content.notes[0].text


def test_a_path_is_cut_where_a_walk_finds_the_target_or_is_at_its_longest():
    content = drawing(BOARD, walkers([walker(reward=-1.0)]))
    walks = content.frame.groupby(["r", "walk"])["value"].apply(list).to_dict()
    assert walks == {
        (0, 0): [0, 1, 2, 5], (0, 1): [0, 3, 4, 5], (1, 0): [0, 0, 3, 0, 3], (1, 1): [0, 1, 1, 1, 1],
    }  # fmt: skip
    assert [[text.get_text() for text in axes.texts] for axes in painted(content)] == [["-6"], ["-8"]]
    assert "minus" in content.remarks()[0], "of both episodes, and steps are no negative numbers"


# Files


@pytest.mark.slow
def test_files_are_the_same_for_the_same_panels_in_any_order_and_no_half_of_them_stays(tmp_path):
    stored = results([trial(success=0.5)])
    one, other = (curve(name=name, figure="5", split="baseline") for name in ("5A", "5B"))
    (tmp_path / "5A.pdf").mkdir()  # in the way of the second file
    failed = figures.draw(stored, [one], tmp_path)
    assert (failed.paths, failed.drawn, failed.notes[-1].panel) == ((), (), "5A")
    assert failed.notes[-1].text.startswith(figures.FAILED)
    assert not (tmp_path / "5A.png").exists()

    first, second = (FigureReport("", stored, (), (), (), (drawing(each, stored),)) for each in (one, other))
    paths, _ = figures.draw_together([first, second], tmp_path / "a")
    assert [path.name for path in paths] == ["figure-5.png", "figure-5.pdf"]
    reversed_paths, _ = figures.draw_together([second, first], tmp_path / "b")
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in reversed_paths]
    assert figures.draw_together([first, first], tmp_path) == ([], [])  # one figure of different trials
    alone = FigureReport("", stored, (), (), (), (drawing(one.model_copy(update={"figure": "6"}), stored),))
    assert figures.draw_together([alone, second], tmp_path) == ([], [])


@pytest.mark.slow
def test_figures_have_our_settings_whatever_those_of_the_user_are(tmp_path):
    stored, one = results([trial(success=0.5)]), curve(split="baseline")
    figures.draw(stored, [one], tmp_path / "plain")
    with matplotlib.rc_context({"text.usetex": True, "axes.facecolor": "red", "lines.linewidth": 9}):
        report = figures.draw(stored, [one], tmp_path / "odd")
        with style.settings():
            picture = layout.compose([drawing(one, stored)], "paper")
        assert picture._repr_png_().startswith(b"\x89PNG"), "what a notebook shows"
    assert report.notes == ()
    assert (tmp_path / "plain" / "P.pdf").read_bytes() == (tmp_path / "odd" / "P.pdf").read_bytes()


def test_a_figure_is_that_of_its_panels_and_numbers():
    def content(value, **keys):
        return figures._content([drawing(curve(split="baseline", **keys), results([trial(**value)]))], "paper")

    assert content({"success": 0.5}) == content({"success": 0.5, "wall_seconds": 7.0}), "which is not drawn"
    others = [content({"success": 0.6}), content({"success": 0.5}, title="other"), content({"success": 0.5, "q": 2.0})]
    assert len({content({"success": 0.5}), *others}) == 4
