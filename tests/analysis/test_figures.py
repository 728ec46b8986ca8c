"""Figures of made-up results: which trials they show, which numbers, and what is painted of them.

Panels are painted on bare axes here; what the layout makes of them is tested in `test_composed_figures`.
"""

import math
import re
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest

from sweeper.analysis import figures
from sweeper.analysis.comparison import Comparison, numbers, summary
from sweeper.analysis.figures import FigureReport, drawing, selection, style
from sweeper.analysis.figures.drawing import PUBLISHED_ONLY
from sweeper.panels.series import Best
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
    mentioned = results([trial("AE_R", q=1.0, success=0.5), trial("Aq_R", q=2.0, success=0.6)])
    one = curve(series=[{"label": "a", "where": {"baseline": ["AE_R", "Aq_R"]}}])
    assert drawing(one, mentioned).notes == []


# Which numbers


def test_a_metric_that_was_not_measured_leaves_out_its_curve_alone_and_keeps_its_published_values():
    one = curve(series=[{"label": "seen"}, {"label": "unseen", "metric": "majority_30"}])
    content = drawing(one, results([trial(success=0.5)]))
    assert content.labels() == ["seen"]
    assert [(note.series, "'majority_30'" in note.text) for note in content.notes] == [("unseen", True)]
    at = [{"series": "a", "metric": "success_p5", "source": "f", "values": {1: 0.3}}]
    tail = curve(series=[{"label": "a", "metric": "success", "tail": "success_p5"}], published=at)
    assert len(crosses(painted(drawing(tail, results([trial(success=0.5)]))))) == 1


def test_curve_and_table_show_the_same_number():
    tails = [trial(q=q, seed=seed, success=0.9, success_p5=0.4 + 0.1 * seed) for q in (1.0, 2.0) for seed in range(3)]
    published = [{"series": "a", "metric": "success_p5", "source": "f", "values": {2: 0.695}}]
    keys = {"tail": "success_p5", "y": {"percent": True}, "series": [{"label": "a"}], "published": published}
    content = drawing(curve(**keys), results(tails))
    compared, pooled = content.compare()[0], content.compare()[1:]
    assert (compared.x, compared.seeds, compared.miss, pooled) == (2.0, 3, True, [])
    assert (compared.measured, compared.published) == pytest.approx((50, 69.5))
    drawn = [np.asarray(line.get_ydata()) for line in painted(content)[0].lines]
    assert any(len(y) == 2 and np.isclose(y[-1], compared.measured) for y in drawn)


@pytest.mark.parametrize(
    ("published", "measured", "percent", "miss"),
    [
        (80.0, 75.0, True, False), (80.0, 74.9, True, True), (0.0, 0.0, True, False), (80.0, None, True, False),
        (0.0055, 0.0058, False, False), (0.0055, 0.0064, False, True), (27.3, 21.8, False, True),
    ],
)  # fmt: skip
def test_a_miss_is_further_than_five_points_or_a_tenth(published, measured, percent, miss):
    compared = Comparison("P", "c", "success", 1.0, published, measured, 1, percent)
    assert compared.miss == miss
    assert [*numbers([compared])["miss"]] == ["miss" * miss]
    assert summary([compared]).endswith(f"{measured is not None:d} measured, {miss:d} missed")


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
    assert [(row.metric, row.x, row.measured, row.seeds) for row in compared] == [
        ("fraction of inputs", 0, 25, 1),
        ("fraction of inputs", 1, 25, 1),
        ("fullest bin", None, 90, 1),
    ]


def test_trials_without_a_value_of_the_axis_have_a_place_where_one_is_given():
    trials = [trial(seed=seed, success=0.5, m=m) for seed in range(2) for m in (10, 20)]
    stored = results(trials)
    stored.trials["m"] = stored.trials["m"].where(stored.trials["m"] < 20)
    keys: dict = {"kind": "curve", "metric": "success", "split": "q"}
    assert points(drawing(panel(x="m", **keys), stored))["count"].to_dict() == {10: 2}
    with_place = drawing(panel(x={"column": "m", "empty": 99}, **keys), stored)
    assert points(with_place)["count"].to_dict() == {10: 2, 99: 2}


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
    assert {each.metric: each.measured for each in compared} == {"success_p5": 50, "success_p5_pooled": 0}
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


def test_a_scatter_has_a_point_for_each_trial():
    y = {"label": "Success (%)", "percent": True}
    scatter = panel(kind="scatter", x={"column": "success", "percent": True}, y=y, metric="success_p5", split="m")
    made = results([trial(success=0.25, success_p5=0.125), trial(seed=1, success=0.75, success_p5=0.5)])
    (axes,) = painted(drawing(scatter, made))
    (dots,) = axes.lines
    assert (list(dots.get_xdata()), list(dots.get_ydata())) == ([25, 75], [12.5, 50])
    words = drawing(panel(kind="scatter", x="task", metric="success", split="m"), made)
    assert (words.labels(), "'task'" in words.notes[0].text) == ([], True)


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


QS = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, math.inf]


def test_missing_points_and_infinity_are_shown():
    trials = [
        trial(baseline, q, seed, success=0.01)
        for q in QS
        for baseline in ("Aq_R", "Aq_r0")
        for seed in range(5 if q < 20 else 2)
        if not (baseline == "Aq_r0" and q == 16.0)
    ]
    stored = results(trials, {one["trial_id"]: np.float32([0, 1]) for one in trials})
    (axes,) = painted(drawing(curve(x={"column": "q", "scale": "log"}, split="baseline"), stored))
    assert [label.get_text() for label in axes.get_xticklabels()] == [*(f"{q:g}" for q in QS[:-1]), "∞"]
    heat = painted(drawing(panel(kind="heatmap", x="q", metric="success", split="baseline"), stored))
    (hatched,) = [patch for axes in heat for patch in axes.patches if patch.get_hatch()]
    assert hatched.get_x() == 4, "q = 16, without trials, is the fifth column"


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
    drawn = [list(line.get_ydata()) for line in painted(content)[0].lines]
    assert all(y in drawn for y in ([-16, -8], [-32, -16], [-7, -7])), "a known number is in the unit that is drawn"
    assert "no walk is better (-7)" in labels(content)


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
    assert (at_end.measured, at_end.published, at_end.seeds) == (16.0, 17.0, 2)
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
    assert [axes.get_title() for axes in painted(content)] == ["-6", "-8"]
    assert "minus" in content.remarks()[0], "of both episodes, and steps are no negative numbers"


# Files


@pytest.mark.slow
def test_files_are_the_same_for_the_same_panels_in_any_order_and_no_half_of_them_stays(tmp_path):
    stored = results([trial(success=0.5)])
    one, other = (curve(name=name, figure="5", split="baseline") for name in ("5A", "5B"))
    (tmp_path / "5A.png").mkdir()  # in the way of the file
    failed = figures.draw(stored, [one], tmp_path)
    assert (failed.paths, failed.drawn, failed.notes[-1].panel) == ((), (), "5A")
    assert failed.notes[-1].text.startswith(figures.FAILED)
    assert [path.name for path in tmp_path.iterdir()] == ["5A.png"]

    first, second = (FigureReport("", stored, (), (), (), (drawing(each, stored),)) for each in (one, other))
    paths, _ = figures.draw_together([first, second], tmp_path / "a", pdf=True)
    assert [path.name for path in paths] == ["figure-5.png", "figure-5.pdf"]
    reversed_paths, _ = figures.draw_together([second, first], tmp_path / "b", pdf=True)
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in reversed_paths]
    assert figures.draw_together([first, first], tmp_path) == ([], [])  # one figure of different trials
    alone = FigureReport("", stored, (), (), (), (drawing(one.model_copy(update={"figure": "6"}), stored),))
    assert figures.draw_together([alone, second], tmp_path) == ([], [])
