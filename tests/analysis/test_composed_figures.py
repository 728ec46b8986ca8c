"""Figures as `layout` composes them: nothing is cut, and no text runs into another.

One row of panels of several kinds is composed in `make test`; the figures of the paper are composed in CI.
"""

import itertools

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from sweeper.analysis.figures import drawing, layout, style, ticks
from sweeper.space import search_space
from tests.analysis.made_up_figures import BOARD, CELLS, HISTORY, curve, panel, results, trial, walker, walkers

INPUTS = 400

SHIPPED = {one.name: one for one in search_space.read("search_spaces/coloring.yaml").panels}
PAPER = [SHIPPED[name] for name in ("5A", "5B", "5C", "9")]


def composed(results, *panels, palette="paper"):
    """The figure of a row of panels, as `draw` writes it."""
    row = [drawing(panel, results) for panel in panels]
    with style.settings():
        figure = layout.compose(row, palette)
        figure.draw_without_rendering()
    return figure


def texts(figure):
    """Every text that is drawn; matplotlib keeps labels of ticks beyond the ends of an axis without drawing them."""
    beyond = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            slack = 1e-9 * (high - low)
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not (axes.axison and low - slack <= tick.get_loc() <= high + slack):
                    beyond |= {tick.label1, tick.label2}
    visible = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return [text for text in visible if text not in beyond]


def check_layout(figure):
    """Nothing is cut, no text runs into another, and axes stand in one line."""
    boxes = [(text, text.get_window_extent()) for text in texts(figure)]
    for text, box in boxes:
        inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
        assert inside, f"'{text.get_text()}' is cut"
    for (text, box), (other, other_box) in itertools.combinations(boxes, 2):
        # Boxes are a little larger than the ink in them.
        overlap = box.padded(-1.5).overlaps(other_box.padded(-1.5))
        assert not overlap, f"'{text.get_text()}' and '{other.get_text()}' overlap"
    sizes = [axes.bbox for axes in figure.axes if axes.axison and axes.get_label() != "<colorbar>"]
    assert len({(round(box.y0), round(box.y1)) for box in sizes}) == 1
    assert sizes[0].height / figure.dpi > 0.8 * style.HEIGHT


@pytest.mark.slow
def test_a_row_of_several_kinds_is_laid_out():
    stored = walkers([walker(name, seed, reward=-8.0 - seed) for name in ("AE_R", "Aq_R") for seed in range(2)])
    row = [HISTORY.model_copy(update={"title": "a title of several lines with $q = 1$ " * 4}), CELLS, BOARD]
    figure = composed(stored, *row, palette="colorblind")
    check_layout(figure)
    said = [text.get_text() for text in texts(figure)]
    title = next(text for text in said if text.startswith("a title")).split("\n")
    assert len(title) > 2
    assert {line.count("$") % 2 for line in title} == {0}, "formulas stay whole"
    footer = next(text for text in said if "board: " in text).split("\n")
    assert all(any(line.startswith(f"{name}: ") for line in footer) for name in ("P", "cells", "board"))


def paper_like():
    """Trials shaped like the published sweep."""
    rng = np.random.default_rng(0)
    trials, outcomes = [], {}
    for q in range(1, 11):
        for seed in range(3):
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
                trials.append(one)
                outcomes[one["trial_id"]] = success
    return results(trials, outcomes)


def voters(q):
    ladder = {f"votes_{k}": min(1.0, 0.1 * q * k**0.1) for k in (1, 3, 5, 10, 20, 30, 50)}
    return ladder | {f"{name}_p5": value / 2 for name, value in ladder.items()} | {"margin_p5": 0.1 * q}


@pytest.mark.long
def test_nothing_is_cut_and_no_text_runs_into_another():
    stored = paper_like()
    for row in [*([one] for one in PAPER), PAPER]:
        check_layout(composed(stored, *row))
    votes = results([trial(q=q, seed=seed, extra=voters(q)) for q in (1.0, 3.0, 10.0) for seed in range(3)])
    one = panel(kind="votes", title="Success of votes of $A_R$", split="q")
    check_layout(composed(votes, one, palette="colorblind"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("low", "high"), [(1e-4, 1e-1), (3.1e-4, 3.4e-4), (0.98, 1.02), (2e-7, 9e-7), (1e-12, 1e9), (1, 1e5), (7, 7.7e4)]
)
@pytest.mark.parametrize("scale", ["log", "linear"])
def test_labels_of_an_axis_have_room_whatever_its_range_and_size(low, high, scale):
    with style.settings():
        for size in (0.7, 1.2, 2.75, 5.0):
            axes = Figure((size + 2, size + 2)).add_axes((0.4, 0.4, size / (size + 2), size / (size + 2)))
            for name in "xy":
                ticks.scale(axes, name, scale)
            axes.set(xlim=(low, high), ylim=(low, high))
            axes.figure.draw_without_rendering()
            for axis in (axes.xaxis, axes.yaxis):
                labels = [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
                assert len(labels) == len({label.get_text() for label in labels}) >= 1 + (size > 2)
                for one, other in itertools.pairwise(label.get_window_extent() for label in labels):
                    assert not one.overlaps(other), [label.get_text() for label in labels]


@pytest.mark.slow
def test_a_long_name_is_not_cut_and_has_its_title_below():
    named = curve(split="baseline", name="loss against experiment_optimizer_learning_rate", title="a title of words")
    check_layout(composed(results([trial(success=0.5)]), named))


@pytest.mark.long
def test_a_legend_of_many_series_has_the_first_ones():
    trials = [trial(m=m, q=q, success=m / 160) for m in range(160) for q in (1.0, 2.0)]
    figure = composed(results(trials), curve(split="m"))
    check_layout(figure)
    (legend,) = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    shown = [text.get_text() for text in legend.get_texts()]
    assert (len(shown), shown[0], "130" in shown[-1]) == (layout.MOST_ENTRIES + 1, "m = 0", True)
