"""Figures of synthetic results: which trials they show, what they say, and that nothing of them is cut.

The results are made up here and are no measurements; every figure is written to a temporary folder.
"""

import dataclasses
import itertools
import json
import math
from types import MappingProxyType

import matplotlib.image
import numpy as np
import pandas as pd
import pytest

import tasks.gridworld.minmax
from sweeper.analysis import figures
from sweeper.analysis.comparison import Comparison, agreement
from sweeper.analysis.figures import drawing, histogram, layout, references, selection, style
from sweeper.analysis.results import Results
from sweeper.panels.series import Best
from sweeper.space import search_space
from tasks.gridworld.environment import Grid
from tests.analysis.made_up_figures import composed, legends, panel, results, said, texts, trial

pytestmark = pytest.mark.slow

INPUTS = 400


def curve(**keys):
    return panel(**{"kind": "curve", "x": "q", "metric": "success"} | keys)


def paper_like(seeds=3, qs=range(1, 11), missing=()):
    """Trials shaped like the published sweep, without those of the baselines, q and seeds in `missing`."""
    rng = np.random.default_rng(0)
    trials, outcomes = [], {}
    for q in qs:
        for seed in range(seeds):
            for baseline in ("Aq_r0", "Aq_R"):
                mean = 0.9 + 0.05 * np.sin(q / 2) + rng.normal(0, 0.01)
                spread = 0.06 if baseline == "Aq_R" and q > 2 else 0.0
                if spread:
                    success = np.round(np.clip(rng.normal(mean, spread, INPUTS), 0, 1), 2)
                else:
                    success = (rng.random(INPUTS) < mean).astype(float)
                average, tail = success.mean(), np.percentile(success, 5)
                metrics = {"success": average, "success_p5": tail, "sampled": average - 0.03, "sampled_p5": tail / 2}
                metrics |= {"loss": 0.05 * (1 - average), "loss_p95": 0.03 * (1 - tail)}
                if baseline == "Aq_R":
                    tail = 1.0 if spread else 0.0
                    metrics |= {"majority_5": min(1, mean + 0.06), "majority_5_p5": tail * 0.97}
                    metrics |= {"majority_30": min(1, mean + 0.1), "majority_30_p5": tail}
                one = trial(baseline, float(q), seed, m=1 if baseline == "Aq_r0" else 10, **metrics)
                if (baseline, q, seed) in missing:
                    continue
                trials.append(one)
                outcomes[one["trial_id"]] = success
    return results(trials, outcomes)


SHIPPED = {one.name: one for one in search_space.read("search_spaces/coloring.yaml").panels}
PAPER = [SHIPPED[name] for name in ("5A", "5B", "5C", "9")]


# Which trials


def test_a_seed_counts_once_at_a_point():
    stored = results(
        [trial("Aq_R", seed=0, success=0.0), trial("AE_R", seed=0, success=1.0), trial(seed=1, success=1.0)]
    )
    one = curve(series=[{"label": "a", "where": {"baseline": ["AE_R", "Aq_R"]}}])
    content = drawing(one, stored)
    points = content.series[0].lines[0].points
    assert points.loc[1.0, "mean"] == 0.75
    assert points.loc[1.0, "count"] == 2
    assert content.notes == []


@pytest.mark.parametrize("status", ["failed", "stopped"])
def test_only_finished_trials_are_drawn(status):
    stored = results([trial(seed=0, success=1.0), trial(seed=1, success=0.0, status=status)])
    one = curve(split="baseline")
    assert drawing(one, stored).series[0].counts() == {1.0: 1}


@pytest.mark.parametrize(
    "where",
    [
        {"vertices": 10, "q": float("inf")},
        {"task.vertices": [9, 10], "objective.q": [float("inf")]},
        {"weight_decay": 0.1, "task": "coloring", "seed": 1, "q": float("inf")},
    ],
)
def test_conditions_reach_columns_and_entries_of_the_trial(where):
    stored = results([trial(q=1.0, seed=0), trial(q=float("inf"), seed=1)])
    assert selection.chosen(stored, where)["seed"].tolist() == [1]


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ({"vertexes": 10}, "did you mean 'vertices'"),
        ({"name": "coloring"}, "could be objective.name or optimizer.name or task.name"),
        ({"q": 2}, "no finished trial with q = 2"),
        # Conditions that all trials meet are no reason.
        ({"vertices": 10, "q": [2, 3, 4, 5], "baseline": "Aq_R"}, r"with q = 2 \.\.\. 5 \(4 values\)$"),
    ],
)
def test_conditions_that_meet_nothing_say_why(where, reason):
    with pytest.raises(selection.NoData, match=reason):
        selection.chosen(results([trial()]), where)


def test_merged_trials_are_named_in_the_notes_and_on_the_figure_unless_axis_or_condition_mentions_them():
    stored = results([trial(seed=0, steps=100, success=0.5), trial(seed=1, steps=200, success=0.6)])
    one = curve(split="baseline")
    assert [note.text for note in drawing(one, stored).notes] == ["merges trials that differ in steps (100, 200)"]
    assert "steps (100, 200)" in said(composed(stored, one)).replace("\n", " ")
    mentioned = results([trial("AE_R", q=1.0, success=0.5), trial("Aq_R", q=2.0, success=0.6)])
    one = curve(series=[{"label": "a", "where": {"baseline": ["AE_R", "Aq_R"]}}])
    assert drawing(one, mentioned).notes == []


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
    outcomes = {"success": rng.integers(0, 101, INPUTS) / 100, "majority_5": rng.integers(0, 21, INPUTS) / 20}
    stored = Results.of_frame(results([trial()]).trials, lambda trial_id, name: outcomes[name])
    one = panel(
        kind="histogram",
        series=[{"label": name, "metric": name} for name in outcomes],
        published=[{"series": "majority_5", "source": "f", "fractions": {1: 0.5}}],
    )
    shares = [len(series.mean()) for series in drawing(one, stored).series]
    assert shares == [25, 21]
    assert drawing(one, stored).compare()[0].measured == np.mean(outcomes["majority_5"] == 1)
    text = said(composed(stored, one)).replace("\n", " ").lower()
    assert "success: bins of 4 %; majority_5: a bin for each of 21 values" in text


def test_a_metric_that_was_not_measured_leaves_out_its_curve_alone_and_keeps_its_published_values():
    one = curve(series=[{"label": "seen"}, {"label": "unseen", "metric": "majority_30"}], metric="success")
    content = drawing(one, results([trial(success=0.5)]))
    assert [drawn.label for drawn in content.series] == ["seen"]
    assert [(note.series, note.text) for note in content.notes] == [("unseen", "'majority_30' was not measured")]
    at = [{"series": "a", "metric": "success_p5", "source": "f", "values": {1: 0.3}}]
    tail = curve(series=[{"label": "a", "metric": "success", "tail": "success_p5"}], published=at)
    assert len(crosses(composed(results([trial(success=0.5)]), tail))) == 1


def test_shares_that_are_zero_in_both_are_counted_apart():
    def compared(published, measured, percent=True):
        return Comparison("P", "c", "success", 1.0, published, measured, None, None, 1, (9,), percent, "f")

    agreed = agreement(
        [
            compared(0.5, 0.54), compared(0.5, 0.56), compared(0.0, 0.01), compared(0.0, 0.0), compared(1.0, 1.0),
            compared(0.5, None), compared(0.0, 0.0, percent=False),
        ]
    )  # fmt: skip
    assert agreed == (3, 4, 1, 0, 0)
    assert agreed.sentence() == "3 of 4 percentages lie within 5 points; 1 more are 0 in both"


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
    assert agreement([compared])[3:] == ((not missed, 1) if largest else (0, 0))
    if largest:
        assert agreement([compared]).sentence().endswith(f"{1 - missed} of 1 other numbers are near")


def test_the_scale_of_a_panel_is_its_largest_published_number():
    references = [{"series": "A", "metric": "loss", "source": "f", "values": {1: 0.0015, 2: -0.0333}}]
    one = curve(metric="loss", series=[{"label": "A"}], published=references)
    assert {compared.largest for compared in drawing(one, results([trial(loss=0.0045)])).compare()} == {0.0333}


def test_curve_and_table_show_the_same_number():
    stored = paper_like()
    report_of = {(one.series, one.metric, one.at): one for one in drawing(PAPER[0], stored).compare()}
    compared = report_of["A_R", "success_p5", 10.0]
    figure = composed(stored, PAPER[0])
    drawn = [line.get_ydata() for axes in figure.axes for line in axes.lines]
    assert any(len(y) == 10 and np.isclose(y[-1], 100 * compared.measured) for y in drawn)
    assert compared.seeds == 3
    assert compared.steps == (20_000,)
    assert compared.lowest <= compared.measured <= compared.highest
    assert np.isclose(compared.difference, compared.measured - 0.695)


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


def test_trials_without_a_value_of_the_axis_have_a_place_where_one_is_given():
    trials = [trial(seed=seed, success=0.5, m=m) for seed in range(2) for m in (10, 20)]
    stored = results(trials)
    stored.trials["m"] = stored.trials["m"].where(stored.trials["m"] < 20)
    keys: dict = {"kind": "curve", "metric": "success", "split": "q"}
    assert drawing(panel(x="m", **keys), stored).series[0].counts() == {10: 2}
    assert drawing(panel(x={"column": "m", "empty": 99}, **keys), stored).series[0].counts() == {10: 2, 99: 2}


def test_an_axis_of_text_is_no_axis_of_a_curve():
    content = drawing(curve(x="baseline", split="q"), results([trial(success=0.5)]))
    assert content.series == []
    assert [note.text for note in content.notes] == ["'baseline' and 'success' are not both numbers"]


def test_costs_of_unlike_machines_are_named():
    trials = [trial(seed=seed, success=0.5, wall_seconds=60.0, device=f"gpu {seed}", lanes=1) for seed in range(2)]
    keys = {"kind": "curve", "x": "q", "split": "baseline"}
    cost = drawing(panel(metric="wall_seconds", **keys), results(trials))
    assert cost.merged == ["device (gpu 0, gpu 1)"]
    assert drawing(panel(metric="success", **keys), results(trials)).merged == []


def test_a_value_axis_is_drawn_in_its_unit_and_from_its_limit():
    stored = results([trial(q=q, success=0.5, wall_seconds=60 * q, device="cpu", lanes=1) for q in (1.0, 3.0)])
    y = {"unit": 60, "limits": [0, None], "label": "min"}
    axes = composed(stored, curve(metric="wall_seconds", split="baseline", y=y)).axes[0]
    assert any(line.get_ydata().tolist() == [1.0, 3.0] for line in axes.lines)
    low, high = axes.get_ylim()
    assert low == 0
    assert high > 3.05


# What is seen


def log_axis():
    """Uneven seeds, a missing point, an infinite value: all that makes room scarce."""
    trials = [
        trial(baseline, q, seed, success=0.01 * q_index)
        for q_index, q in enumerate([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, float("inf")])
        for baseline in ("Aq_R", "Aq_r0")
        for seed in range(5 if q < 20 else 2)
        if not (baseline == "Aq_r0" and q == 16.0)
    ]
    rng = np.random.default_rng(0)
    outcomes = {one["trial_id"]: rng.random(INPUTS) for one in trials}
    panels = [
        panel(kind="curve", x={"column": "q", "scale": "log"}, metric="success", split="baseline", title="a long " * 9),
        panel(kind="curve", x="q", tail="success", split="baseline", band="std"),
        panel(kind="histogram", metric="success", split="q"),
        panel(kind="heatmap", x="q", metric="success", split="baseline", title="maps"),
    ]
    return results(trials, outcomes), panels


def voters(q):
    ladder = {f"votes_{k}": min(1.0, 0.1 * q * k**0.1) for k in (1, 3, 5, 10, 20, 30, 50)}
    return ladder | {f"{name}_p5": value / 2 for name, value in ladder.items()} | {"margin_p5": 0.1 * q}


@pytest.mark.parametrize(
    ("case", "palette"),
    [
        ("paper", "paper"),
        pytest.param("paper", "colorblind", marks=pytest.mark.long),
        pytest.param("log axis", "colorblind", marks=pytest.mark.long),
        pytest.param("single point", "paper", marks=pytest.mark.long),
        ("uneven", "paper"),
        ("grid world", "colorblind"),
        ("votes", "paper"),
    ],
)
def test_nothing_is_cut_and_no_text_runs_into_another(case, palette):
    stored, panels = {
        "paper": lambda: (paper_like(), PAPER),
        "log axis": log_axis,
        "uneven": lambda: (paper_like(2, [1, 3], [("Aq_r0", 3, 1), ("Aq_R", 3, 1), ("Aq_R", 3, 0)]), PAPER[:1]),
        "votes": lambda: (
            results([trial(q=q, seed=seed, extra=voters(q)) for q in (1.0, 3.0, 10.0) for seed in range(3)]),
            [panel(kind="votes", title="Success of votes of $A_R$", split="q")],
        ),
        "single point": lambda: (paper_like(seeds=1, qs=[10]), PAPER),
        "grid world": lambda: (
            walkers([walker(name, seed, reward=-8.0 - seed) for name in ("AE_R", "Aq_R") for seed in range(2)]),
            [HISTORY, CELLS, BOARD],
        ),
    }[case]()
    for row in [*([one] for one in panels), panels]:
        figure = composed(stored, *row, palette=palette)
        boxes = [(text, text.get_window_extent()) for text in texts(figure)]
        for text, box in boxes:
            inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
            assert inside, f"'{text.get_text()}' is cut"
        for (text, box), (other, other_box) in itertools.combinations(boxes, 2):
            # Boxes are a little larger than the ink in them.
            overlap = box.padded(-1.5).overlaps(other_box.padded(-1.5))
            assert not overlap, f"'{text.get_text()}' and '{other.get_text()}' overlap"


def crosses(figure):
    """Published values as they are drawn: colour and place, in points."""
    return [
        (line.get_color(), line.get_transform().transform(np.column_stack(line.get_data()))[0] * 72 / figure.dpi)
        for axes in figure.axes
        for line in axes.lines
        if line.get_marker() == "x" and len(line.get_xdata())
    ]


TWO = [
    {"label": "seen", "color": "red", "metric": "success", "where": {"baseline": "Aq_R"}},
    {"label": "unseen", "color": "blue", "metric": "success", "where": {"baseline": "Aq_r0"}},
]


def published(values):
    return [{"series": one, "metric": "success", "source": "f", "values": at} for one, at in values.items()]


def test_published_values_are_drawn_also_of_a_series_without_trials():
    one = curve(series=TWO, published=published({"seen": {1: 0.5}, "unseen": {1: 0.9, 4: 0.8}}))
    figure = composed(results([trial(success=0.5)]), one)
    shades = style.PALETTES["paper"].shades
    assert [color for color, _ in crosses(figure)] == [shades["red"], shades["blue"], shades["blue"]]
    assert legends(figure) == [["seen", "unseen (published only)", "published"]]
    assert "4" in [label.get_text() for label in figure.axes[0].get_xticklabels()]


def test_published_shares_and_peaks_are_drawn_also_of_a_histogram_without_trials():
    one = panel(
        kind="histogram",
        metric="success",
        series=[{"label": "seen", "where": {"q": 1}}, {"label": "unseen", "color": "blue", "where": {"q": 2}}],
        published=[{"series": "unseen", "source": "f", "fractions": {0: 0.2}, "peak": 0.4}],
    )
    figure = composed(results([trial()], {trial()["trial_id"]: np.float32([0.5, 1.0])}), one)
    blue = style.PALETTES["paper"].shades["blue"]
    assert [color for color, _ in crosses(figure)] == [blue]
    assert [line.get_color() for axes in figure.axes for line in axes.lines if line.get_marker() == "v"] == [blue]
    assert legends(figure) == [["seen (1 seed)", "unseen (published only)", "published", "published peak"]]


def test_crosses_that_coincide_stand_side_by_side():
    one = curve(series=TWO, published=published({"seen": {1: 0, 9: 0.2}, "unseen": {1: 0, 9: 0.9}}))
    (_, left), (_, alone), (_, right), (_, other) = crosses(composed(results([trial(success=0.5)]), one))
    np.testing.assert_allclose(right - left, [references.CLOSE, 0], atol=1e-6)
    np.testing.assert_allclose(alone[0], other[0])


def test_a_percentile_that_jumps_has_points_and_no_line():
    """At q = 2 one training is right on nearly all inputs and one is not; at q = 1 and 3 none is."""
    tails = [(q, seed, float(q == 2 and seed == 0)) for q in (1, 2, 3) for seed in (0, 1)]
    stored = results([trial(q=float(q), seed=seed, success=0.9, success_p5=tail) for q, seed, tail in tails])
    figure = composed(stored, curve(tail="success_p5", split="baseline"))
    (dashed,) = [line for line in figure.axes[0].lines if line.get_linestyle() == "--"]
    np.testing.assert_equal(np.asarray(dashed.get_ydata()), [0, np.nan, 0])
    empty = [line for line in figure.axes[0].lines if line.get_linestyle() == "None" and line.get_alpha() is None]
    assert [sorted(np.asarray(line.get_ydata())) for line in empty if len(line.get_xdata())] == [[0, 1]]
    assert "no mean where a percentile is 0 for one seed and 1 for another" in said(figure).replace("\n", " ")


def test_rounding_is_not_magnified():
    stored = results([trial(seed=seed, success=0.5 + 3e-8 * seed) for seed in range(3)])
    low, high = composed(stored, curve(split="baseline")).axes[0].get_ylim()
    assert high - low > 0.1


def test_bands_of_averages_are_not_covered_by_those_of_tails():
    stored = results([trial(seed=seed, success=0.5 + seed / 9, success_p5=seed / 9) for seed in range(2)])
    both = curve(tail="success_p5", split="baseline")
    tail = panel(kind="curve", x="q", tail="success_p5", split="baseline")
    for one, low in ((both, 50.0), (tail, 0.0)):
        one = one.model_copy(update={"y": one.y.model_copy(update={"percent": True})})
        (band,) = composed(stored, one).axes[0].collections
        assert band.get_paths()[0].vertices[:, 1].min() == pytest.approx(low)


def test_neighbours_of_the_same_series_share_a_legend():
    stored = results([trial(success=0.5, success_p5=0.1), trial("Aq_r0", success=0.5)])
    left = curve(series=TWO, published=published({"seen": {1: 0.5}}))
    right = left.model_copy(update={"name": "R", "published": ()})
    other = curve(series=TWO[:1])
    assert legends(composed(stored, left, right)) == [["seen", "unseen", "published"]]
    assert legends(composed(stored, left, right, other)) == [["seen", "unseen", "published"], ["seen"]]
    unseen = right.model_copy(update={"where": {"baseline": "Aq_R"}})  # of which the left panel has data
    unseen = unseen.model_copy(update={"published": left.published})
    assert legends(composed(stored, left, unseen)) == [["seen", "unseen", "published"]]


def test_axes_have_the_size_that_their_kind_gives():
    grid = walkers([walker(name, reward=-8.0) for name in ("AE_R", "Aq_R")])
    for stored, row in ((paper_like(1), PAPER), (paper_like(1), PAPER[:1]), (grid, [HISTORY, CELLS, BOARD])):
        figure = composed(stored, *row)
        boxes = [axes.bbox for axes in figure.axes if axes.axison and axes.get_label() != "<colorbar>"]
        widths = [width for one in row for width in drawing(one, stored).widths()]
        np.testing.assert_allclose([box.width / figure.dpi for box in boxes], widths, atol=0.02)
        np.testing.assert_allclose([box.height / figure.dpi for box in boxes], layout.HEIGHT, atol=0.02)
        assert len({(round(box.y0, 3), round(box.y1, 3)) for box in boxes}) == 1


def test_a_title_is_no_wider_than_its_panel_and_its_formulas_stay_whole():
    stored = results([trial(success=0.5)])
    one = curve(split="baseline", title="$q = 1$")
    assert "$q = 1$" in said(composed(stored, one)).split("\n")
    long = one.model_copy(update={"title": "a long title with $q = 1$ " * 6})
    lines = next(text.get_text() for text in texts(composed(stored, long)) if "long" in text.get_text()).split("\n")
    assert len(lines) > 2
    assert {line.count("$") % 2 for line in lines} == {0}


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
    assert legends(composed(stored, one)) == [["Aq_R", name]]


def test_titles_of_a_row_begin_at_the_same_height():
    stored = results([trial(success=0.5)])
    one = curve(split="baseline", title="short")
    figure = composed(stored, one, one.model_copy(update={"title": "a title of several lines " * 4}))
    tops = [text.get_window_extent().y1 for text in texts(figure) if text.get_text()[:5] in ("short", "a tit")]
    assert len(tops) == 2
    assert abs(tops[0] - tops[1]) < 2


def test_uneven_seeds_missing_points_and_infinity_are_shown():
    stored, (one, _, _, heat) = log_axis()
    figure = composed(stored, one)
    counts = [text.get_text() for text in texts(figure) if text.get_fontsize() == style.SMALL]
    assert (counts.count("5"), counts.count("2")) == (5 + 4, 6 + 6), "above points that differ in their seeds"
    ticks = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert ticks == ["1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "∞"]
    (hatched,) = [patch for axes in composed(stored, heat).axes for patch in axes.patches if patch.get_hatch()]
    assert hatched.get_x() == 4, "q = 16, without trials, is the fifth column"
    assert "3 training seeds at every point" in said(composed(paper_like(), PAPER[0]))


def test_seed_counts_that_all_series_share_are_printed_once_and_those_of_many_series_are_a_range():
    stored = paper_like(2, [1, 3], [("Aq_r0", 3, 1), ("Aq_R", 3, 1)])
    counts = [text.get_text() for text in texts(composed(stored, PAPER[0])) if text.get_fontsize() == style.SMALL]
    assert [count for count in counts if count.isdigit() or count == "seeds"] == ["seeds", "2", "1"]
    many = [trial(m=m, q=1.0, seed=seed, success=0.5) for m in range(1, 15) for seed in range(m)]
    shown = said(composed(results(many), curve(split="m")))
    assert "1-14 training seeds" in shown
    assert "Above" not in shown


def test_colors_of_the_colorblind_palette_differ_for_every_reader():
    # Machado, Oliveira and Fernandes 2009, severity 1: what protanopes, deuteranopes and tritanopes see.
    readers = [
        np.eye(3),
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ]
    shades = [*figures.PALETTES["colorblind"].shades.values(), "#ffffff"]
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


def walker(baseline="Aq_R", seed=0, rate=0.01, **metrics):
    """A trial on a grid of two rows and three columns."""
    one = trial(baseline, 4.0, seed, **metrics)
    spec = json.loads(one["spec"]) | {"task": {"name": "gridworld", "height": 2, "width": 3, "horizon": 4}}
    spec["optimizer"] = {"name": "pgpe", "center_learning_rate": rate}
    return one | {"task": "gridworld", "trial_id": f"{baseline}-{rate}-{seed}", "spec": json.dumps(spec)}


def walkers(trials):
    """Results whose training curves end at the trial's reward, with the walks of `PATHS`."""

    def outcomes(trial_id, name):
        if name == "first_visit":
            return np.arange(1, 6) + 0.5 * (trial_id.split("-")[2] == "1")
        if not name.startswith("path_"):
            return None
        _, seed, step = name.split("_")
        path = PATHS.get(int(seed), [])
        return None if int(seed) not in PATHS or int(step) > 7 else np.full(5, [*path, *[-1] * 8][int(step)], float)

    def curves(trial_ids):
        cost = {one["trial_id"]: -one["reward"] for one in trials}
        rows = [
            (name, step, metric, cost[name] * factor * 100 / step)
            for name in trial_ids
            for metric, factor in (("mean_loss", 1.0), ("tail_loss", 2.0))
            for step in (50, 100)
        ]
        return pd.DataFrame(rows, columns=["trial_id", "step", "metric", "value"])

    return Results.of_frame(pd.DataFrame(trials), outcomes, curves)


PATHS = {0: [1, 2, 5, 3, 4, 5], 1: [0, 3, 0, 3, 1, 1, 1, 1]}
"""Cells reached on the way to cell 5: with seed 0 twice, with seed 1 never."""

SIZES = {"rows": "height", "columns": "width", "first": 1}

HISTORY = panel(
    kind="history", metric="mean_loss", tail="tail_loss", y={"unit": -1, "label": "Reward"}, best={"metric": "reward"},
    split="baseline",
    yardsticks=[{"value": "best_deterministic", "label": "no walk is better"}, {"value": "nothing", "label": "none"}],
    published=[{"series": "Aq_R", "metric": "tail_loss", "source": "here", "values": {100: 17, 200: 1}}],
)  # fmt: skip
CELLS = panel(kind="cells", name="cells", metric="first_visit", limits=[0, 9], split="baseline", **SIZES)
BOARD = panel(kind="board", name="board", target=[2, 3], longest="horizon", unit=-1, split="baseline", **SIZES)


def settings(rewards=MappingProxyType({0.01: [-9.0, -7.0], 0.03: [-6.0, -12.0], 0.1: [-5.0]})):
    """Two settings of two seeds each, and one that has the best seed of all, but no other."""
    return walkers(
        [walker(seed=seed, rate=rate, reward=r) for rate, reached in rewards.items() for seed, r in enumerate(reached)]
    )


def test_a_training_curve_is_drawn_for_the_best_setting_in_the_unit_of_its_axis():
    content = drawing(HISTORY, settings())
    average, tail = content.series[0].lines
    assert average.points["mean"].to_dict() == {50.0: 16.0, 100.0: 8.0}
    assert average.points["count"].tolist() == [2, 2]
    lines = [line.get_ydata() for line in composed(settings(), HISTORY).axes[0].lines]
    assert any(np.array_equal(y, [-16, -8]) for y in lines)
    assert any(np.array_equal(y, [-32, -16]) for y in lines)
    assert tail.tail


def test_the_best_setting_has_the_best_mean_and_is_named():
    def note(best, stored):
        notes = drawing(HISTORY.model_copy(update={"best": best}), stored).notes
        return next(note.text for note in notes if note.series == "Aq_R")

    best = "best of 2 settings by reward (-8): center_learning_rate 0.01, 1 more have fewer seeds"
    assert note(HISTORY.best, settings()) == best
    assert "center_learning_rate 0.01" in said(composed(settings(), HISTORY)).replace("\n", " ")
    assert "center_learning_rate 0.03" in note(Best(metric="reward", mode="min"), settings())
    assert "no column 'regret'" in note(Best(metric="regret"), settings())
    diverged = {0.01: [-9.0, -7.0], 0.03: [math.inf, -12.0]}
    assert note(HISTORY.best, settings(diverged)).startswith("best of 1 settings by reward (-8): center_learning_rate")


def test_entries_with_one_last_part_are_told_apart():
    trials = [walker(reward=-8.0), walker(rate=0.03, reward=-9.0), walker(rate=0.1, reward=-5.0)]
    for each, name, seeds in zip(trials, ("pgpe", "snes", "pgpe"), (10, 10, 20), strict=True):
        spec = json.loads(each["spec"])
        spec |= {"optimizer": {"name": name}, "evaluation": {"seeds": seeds}, "objective": {"name": f"by_{name}"}}
        each["spec"] = json.dumps(spec)
    best = drawing(HISTORY, walkers(trials)).best
    assert best == ["Aq_R: best of 3 settings by reward (-5): objective by_pgpe, optimizer pgpe, evaluation.seeds 20"]
    unlike = drawing(HISTORY.model_copy(update={"best": None}), walkers(trials)).merged
    assert unlike == ["evaluation.seeds (10, 20); objective (by_pgpe, by_snes); optimizer (pgpe, snes)"]


@pytest.mark.parametrize(
    ("x", "means"),
    [
        # A setting competes with others at its own place on the axis alone.
        ("center_learning_rate", [[-8.0, -9.0, -5.0]] * 2),
        ("steps", [[-8.0], [-9.0]]),
    ],
)
def test_a_series_may_be_chosen_otherwise_than_its_panel(x, means):
    series = [{"label": "a"}, {"label": "b", "best": {"metric": "reward", "mode": "min"}}]
    content = drawing(curve(x=x, metric="reward", best={"metric": "reward"}, series=series), settings())
    assert [drawn.lines[0].points["mean"].tolist() for drawn in content.series] == means
    assert bool(content.notes) == (x == "steps")


def test_yardsticks_are_the_exact_values_of_the_task_that_is_drawn():
    stored = settings()
    content = drawing(HISTORY, stored)
    assert ("none", "the task has no exact 'nothing'") in [(note.series, note.text) for note in content.notes]
    exact = tasks.gridworld.minmax.deterministic(Grid(2, 3, 4))
    (line,) = content.exact
    assert line.value == -exact
    figure = composed(stored, HISTORY)
    assert any(list(line.get_ydata()) == [-exact, -exact] for line in figure.axes[0].lines)
    assert f"no walk is better (-{exact})" in said(figure)


def test_published_values_of_a_training_curve_stand_at_their_step_and_unstored_curves_are_named():
    at_end, beyond = drawing(HISTORY, settings()).compare()
    assert (at_end.measured, at_end.published, at_end.seeds, at_end.steps) == (16.0, 17.0, 2, (20_000,))
    assert beyond.measured is None
    notes = drawing(HISTORY.model_copy(update={"metric": "regret", "tail": None, "published": ()}), settings()).notes
    assert "no training curve 'regret' was stored (known: mean_loss, tail_loss)" in [note.text for note in notes]


def test_inputs_lie_row_by_row_from_the_first_cell():
    content = drawing(CELLS, walkers([walker(seed=1, reward=-1.0), walker(seed=0, reward=-1.0)]))
    (one,) = content.series
    assert one.seed == 0
    assert np.array_equal(one.values, [[np.nan, 1, 2], [3, 4, 5]], equal_nan=True)
    (other,) = drawing(CELLS.model_copy(update={"seed": 1}), walkers([walker(seed=1, reward=-1.0)])).series
    assert other.values[1, 2] == 5.5
    figure = composed(walkers([walker(reward=-1.0)]), CELLS)
    assert len([patch for patch in figure.axes[0].patches if patch.get_hatch()]) == 1


@pytest.mark.parametrize(
    ("one", "changes", "reason"),
    [
        (CELLS, {"first": 2}, "5 inputs from cell 2 on do not fit 2 x 3"),
        (CELLS, {"rows": "depth"}, "no column 'depth'"),
        (CELLS, {"rows": "center_learning_rate"}, "not a whole number"),
        (CELLS, {"seed": 7}, "no finished trial with seed = 7"),
        (CELLS, {"limits": (0.0, "end")}, "no column 'end'"),
        (BOARD, {"target": (1, 1)}, "row 1, column 1 is no input of a grid of 2 x 3"),
    ],
)
def test_grids_that_cannot_be_laid_out_say_why(one, changes, reason):
    (note,) = drawing(one.model_copy(update=changes), walkers([walker(reward=-1.0)])).notes
    assert reason in note.text


def test_limits_of_a_map_may_be_a_column_of_its_trials():
    figure = composed(walkers([walker(reward=-1.0)]), CELLS.model_copy(update={"limits": (0.0, "horizon")}))
    assert figure.axes[0].collections[0].get_clim() == (0, 4)


def test_one_map_shows_one_training():
    content = drawing(CELLS, settings())
    assert content.series == []
    assert "3 trials with seed = 0 differ in center_learning_rate (" in content.notes[0].text


def test_a_path_is_cut_where_a_walk_finds_the_target_or_is_at_its_longest():
    ((arrived, lost),) = drawing(BOARD, walkers([walker(reward=-1.0)])).series
    assert [walk.tolist() for walk in arrived.walks] == [
        [[0, 0], [0, 1], [0, 2], [1, 2]],
        [[0, 0], [1, 0], [1, 1], [1, 2]],
    ]
    assert [len(walk) for walk in lost.walks] == [5, 5]
    assert (arrived.steps, lost.steps) == (6, 8)
    shown = said(composed(walkers([walker(reward=-1.0)]), BOARD))
    assert {"-6", "-8", "seed 0", "seed 1"} <= set(shown.split("\n"))


# Files


def test_no_half_of_a_figure_stays(tmp_path):
    (tmp_path / "5C.pdf").mkdir()  # in the way of the second file
    report = figures.draw(paper_like(seeds=1, qs=[1]), PAPER[2:3], tmp_path)
    assert report.paths == report.drawn == ()
    assert report.notes[-1].text.startswith(figures.FAILED)
    assert not (tmp_path / "5C.png").exists()


def test_the_same_results_make_the_same_files(tmp_path):
    stored = paper_like(seeds=1, qs=[1])
    first, second = (figures.draw(stored, PAPER[2:3], tmp_path / folder).paths for folder in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_figures_of_several_reports_are_ordered_by_the_names_of_their_panels(tmp_path):
    stored = paper_like(seeds=1, qs=[1])
    first, second, third = (figures.draw(stored, [one], tmp_path / one.name) for one in (PAPER[1], PAPER[0], PAPER[3]))
    paths, _ = figures.draw_together([first, second, third], tmp_path)
    assert [path.name for path in paths] == ["figure-5.png", "figure-5.pdf"]
    figure = composed(stored, PAPER[0], PAPER[1])
    assert matplotlib.image.imread(paths[0]).shape[1] == pytest.approx(figure.bbox.width, abs=1)
    assert figures.draw_together([first, first], tmp_path) == ([], [])  # one figure of different trials
    assert figures.draw_together([first, third], tmp_path) == ([], [])


# Texts that are larger than the axes, axes without a place for 0, labels that are no formulas


def many(count, label="series {}"):
    trials = [trial(m=m, q=q, success=m / count + 0.1) for m in range(count) for q in (1.0, 2.0)]
    return results(trials), [{"label": label.format(m), "where": {"m": m}} for m in range(count)]


def unlike(entries):
    """Two trials that differ in so many entries."""
    trials = [trial(seed=seed, success=0.5) for seed in (0, 1)]
    for one in trials:
        spec = json.loads(one["spec"])
        spec["task"] |= {f"some_long_entry_{number}": one["seed"] + number / 7 for number in range(entries)}
        one["spec"] = json.dumps(spec)
    return results(trials)


WORDS = "words that nobody counts " * 12


@pytest.mark.parametrize(
    ("shown", "keys"),
    [
        (many(12, "a name that is as long as its panel, and even longer than that: {}"), {}),
        (many(3, WORDS + "{}"), {}),
        (many(1), {"title": WORDS * 2, "x": {"column": "q", "label": WORDS}, "y": {"label": WORDS}}),
        ((unlike(60), [{"label": "all"}]), {}),
        (many(60), {}),
    ],
    ids=["legend", "entries", "labels", "footer", "series"],
)
def test_the_canvas_grows_with_its_texts(shown, keys):
    found, series = shown
    figure = composed(found, panel(**{"kind": "curve", "x": "q", "metric": "success", "series": series} | keys))
    (axes,) = [axes for axes in figure.axes if axes.axison]
    assert axes.bbox.height / figure.dpi == pytest.approx(layout.HEIGHT, abs=0.02)
    boxes = [text.get_window_extent() for text in texts(figure)]
    room = figure.bbox.padded(1)
    assert all(room.contains(*box.min) and room.contains(*box.max) for box in boxes)
    assert not [box for box in boxes if box.overlaps(axes.bbox.padded(-2))]


def test_what_nobody_would_read_to_its_end_is_cut_and_says_so():
    found = unlike(12)
    shown = curve(series=[{"label": "all"}])
    assert "merged: 12 entries differ; see the notes" in said(composed(found, shown))
    (note,) = drawing(shown, found).notes
    assert "some_long_entry_11" in note.text
    best = curve(best={"metric": "success"}, series=[{"label": WORDS}])
    assert "… (see the notes)" in said(composed(unlike(60), best))
    found, series = many(160)
    (legend,) = legends(composed(found, curve(series=series)))
    assert len(legend) == layout.MOST_ENTRIES + 1
    assert (legend[0], legend[-7], legend[-1]) == ("series 0", "… 130 more", "series 159")


LOGARITHMIC = {"kind": "curve", "x": {"column": "q", "scale": "log"}, "y": {"scale": "log"}, "metric": "success"}


@pytest.mark.parametrize(
    ("kind", "qs", "values", "scales", "remarks"),
    [
        ("curve", (0, 0.01, 0.1, math.inf), (0.1, 0.2, 0.3, 0.4), ("log", "log"), ()),
        ("curve", (0,), (0.5,), ("linear", "log"), ("horizontal axis is linear",)),
        ("curve", (-1, 0, 2), (0.5, 0.5, 0.5), ("linear", "log"), ("horizontal axis is linear",)),
        ("curve", (1, 2), (0, 0), ("log", "linear"), ("vertical axis is linear, as no value is above 0",)),
        ("curve", (1, 2, 3), (0, 0.1, -1), ("log", "log"), ("2 values of 0 or less not shown",)),
        ("scatter", (0, 1), (0.5, 0.5), ("log", "log"), ("1 value of 0 or less not shown",)),
        ("scatter", (0, 0), (0, 0), ("linear", "linear"), ("horizontal axis is linear", "vertical axis is linear")),
    ],
)
def test_zero_on_a_logarithmic_axis_is_shown_or_told(kind, qs, values, scales, remarks):
    found = results([trial(q=float(qs[seed]), seed=seed, success=value) for seed, value in enumerate(values)])
    shown = panel(**LOGARITHMIC | {"kind": kind, "series": [{"label": "all"}]})
    figure = composed(found, shown)
    (axes,) = [axes for axes in figure.axes if axes.axison]
    assert (axes.get_xscale(), axes.get_yscale()) == scales
    notes = " ".join(note.text for note in drawing(shown, found).notes)
    for remark in remarks:
        assert remark in said(figure).replace("\n", " ")
        assert remark in notes
    assert bool(notes) == bool(remarks)
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
    figure = composed(found, panel(**LOGARITHMIC | axis | {"kind": kind}))
    (axes,) = [axes for axes in figure.axes if axes.axison]
    low, high = axes.get_ylim()
    assert low < 0 < high


def test_a_heat_map_of_very_many_values_shows_some_and_says_so():
    made = [trial(q=float(q), success=0.5) for q in range(100)]
    found = results(made, {one["trial_id"]: np.array([0.0, 0.5, 1.0]) for one in made})
    figure = composed(found, panel(kind="heatmap", x="q", metric="success", label="success", split="baseline"))
    assert "60 of 100 columns" in said(figure).replace("\n", " ")


NO_FORMULA = r"$\frac{1}{$"


def test_a_label_that_is_no_formula_is_drawn_as_it_is():
    found = results([trial(baseline=NO_FORMULA, q=q, success=0.5) for q in (1.0, 2.0)])
    keys = {"title": NO_FORMULA, "x": {"column": "q", "label": "$$"}, "y": {"label": "$x$ for $"}, "metric": "success"}
    figure = composed(found, panel(kind="curve", split="baseline", **keys))
    assert said(figure).count(NO_FORMULA) == 2
    outcomes = {one: np.array([0.0, 0.5, 1.0]) for one in found.trials["trial_id"]}
    heat = results([trial(baseline=NO_FORMULA, q=1.0, success=0.5)], outcomes)
    keys = {"x": "baseline", "label": NO_FORMULA, "split": "q", "metric": "success"}
    assert said(composed(heat, panel(kind="heatmap", **keys))).count(NO_FORMULA) == 2


def test_percentiles_of_all_training_seeds_together_stand_beside_their_mean():
    """Of two deterministic trainings one fails on 3 % of the inputs and one on 9 %, together on 6 %."""
    made = [trial(seed=seed, success=1 - failing / 100, success_p5=1.0 - seed) for seed, failing in enumerate((3, 9))]
    failed = zip(made, (3, 9), strict=True)
    inputs = {one["trial_id"]: (np.arange(100) >= failing).astype(float) for one, failing in failed}
    published = [{"series": "s", "metric": "success_p5", "values": {1.0: 0.0}, "source": "made up"}]
    curve = {"kind": "curve", "x": "q", "y": {"percent": True}, "series": [{"label": "s"}]}
    beside = panel(**curve, metric="success", tail="success_p5", published=published)

    compared = drawing(beside, results(made, inputs)).compare()
    assert {each.metric: each.measured for each in compared} == {"success_p5": 0.5, "success_p5_pooled": 0.0}
    assert agreement(compared).compared == 1, "a published number counts once"
    assert [each.metric for each in drawing(beside, results(made)).compare()] == ["success_p5"]
    assert [each.metric for each in drawing(beside, results(made[:1], inputs)).compare()] == ["success_p5"]

    # Outcomes are those of a trial's own protocol, and an evaluation by another one keeps none.
    evaluated = dataclasses.replace(results(made, inputs), evaluations=lambda: results(made).trials)
    by_evaluations = beside.model_copy(update={"rows": "evaluations"})
    assert [each.metric for each in drawing(by_evaluations, evaluated).compare()] == ["success_p5"]

    alone = panel(**curve, metric="success_p5_pooled")
    (series,) = drawing(alone, results(made, inputs)).series
    assert series.lines[0].values["value"].tolist() == [0.0, 0.0]
    assert "needs the outcomes of inputs" in drawing(alone, results(made)).notes[0].text
