"""Figures as `layout` composes them: nothing is cut, no text runs into another, and axes have the size of their kind.

One row of panels of several kinds is composed in `make test`; what is scarce of room is composed in CI.
"""

import itertools
import json

import numpy as np
import pytest
from matplotlib.text import Text

from sweeper.analysis.figures import drawing, layout, style
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
        figure.canvas.draw()
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


def said(figure):
    return [text.get_text() for text in texts(figure)]


def legends(figure):
    return [[text.get_text() for text in axes.get_legend().get_texts()] for axes in figure.axes if axes.get_legend()]


def check_layout(figure, stored, row):
    """Nothing is cut, no text runs into another, axes have their size, and titles begin at one height."""
    boxes = [(text, text.get_window_extent()) for text in texts(figure)]
    for text, box in boxes:
        inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
        assert inside, f"'{text.get_text()}' is cut"
    for (text, box), (other, other_box) in itertools.combinations(boxes, 2):
        # Boxes are a little larger than the ink in them.
        overlap = box.padded(-1.5).overlaps(other_box.padded(-1.5))
        assert not overlap, f"'{text.get_text()}' and '{other.get_text()}' overlap"
    sizes = [axes.bbox for axes in figure.axes if axes.axison and axes.get_label() != "<colorbar>"]
    widths = [width for one in row for width in drawing(one, stored).widths()]
    np.testing.assert_allclose([box.width / figure.dpi for box in sizes], widths, atol=0.02)
    np.testing.assert_allclose([box.height / figure.dpi for box in sizes], style.HEIGHT, atol=0.02)
    assert len({(round(box.y0, 3), round(box.y1, 3)) for box in sizes}) == 1
    tops = [box.y1 for text, box in boxes if text.get_fontweight() == "bold"]
    assert len(tops) == len(row)
    assert max(tops) - min(tops) < 2


@pytest.mark.slow
def test_a_row_of_several_kinds_is_laid_out():
    stored = walkers([walker(name, seed, reward=-8.0 - seed) for name in ("AE_R", "Aq_R") for seed in range(2)])
    row = [HISTORY.model_copy(update={"title": "a title of several lines with $q = 1$ " * 4}), CELLS, BOARD]
    figure = composed(stored, *row, palette="colorblind")
    check_layout(figure, stored, row)
    title = next(text for text in said(figure) if text.startswith("a title")).split("\n")
    assert len(title) > 2
    assert {line.count("$") % 2 for line in title} == {0}, "formulas stay whole"
    assert len(legends(figure)) == 2, "maps have no legend"
    hatched = [patch for axes in figure.axes for patch in axes.patches if patch.get_hatch()]
    assert len(hatched) == len(drawing(CELLS, stored).labels())
    footer = next(text for text in said(figure) if "board: " in text).split("\n")
    assert [line.partition(":")[0] for line in footer if line.startswith(("P: ", "cells: ", "board: "))] == [
        "P", "cells", "board",
    ]  # fmt: skip


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


@pytest.mark.long
@pytest.mark.parametrize(
    ("case", "palette"),
    [
        ("paper", "paper"),
        ("log axis", "colorblind"),
        ("uneven", "paper"),
        ("votes", "colorblind"),
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
    }[case]()
    for row in [*([one] for one in panels), *([panels] if len(panels) > 1 else [])]:
        check_layout(composed(stored, *row, palette=palette), stored, row)


@pytest.mark.long
def test_labels_of_a_short_logarithmic_axis_do_not_overlap():
    made = [trial(seed=seed, success=0.5, loss=loss) for seed, loss in enumerate((0.026, 0.2, 0.01))]
    one = panel(kind="scatter", x={"column": "loss", "scale": "log"}, metric="success", split="baseline")
    figure = composed(results(made), one)
    shown = [text.get_window_extent() for text in figure.axes[0].get_xticklabels() if text.get_text()]
    assert len(shown) >= 3
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(sorted(shown, key=lambda box: box.x0)))


@pytest.mark.long
def test_neighbours_of_the_same_series_share_a_legend():
    two = [
        {"label": "seen", "metric": "success", "where": {"baseline": "Aq_R"}},
        {"label": "unseen", "metric": "success", "where": {"baseline": "Aq_r0"}},
    ]
    stored = results([trial(success=0.5, success_p5=0.1), trial("Aq_r0", success=0.5)])
    left = curve(series=two, published=[{"series": "seen", "metric": "success", "source": "f", "values": {1: 0.5}}])
    right = left.model_copy(update={"name": "R", "published": ()})
    assert legends(composed(stored, left, right, curve(series=two[:1]))) == [["seen", "unseen", "published"], ["seen"]]
    unseen = right.model_copy(update={"where": {"baseline": "Aq_R"}})  # of which the left panel has data
    unseen = unseen.model_copy(update={"published": left.published})
    assert legends(composed(stored, left, unseen)) == [["seen", "unseen", "published"]]


# Texts that are larger than the axes, and labels that are no formulas


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


@pytest.mark.long
@pytest.mark.parametrize(
    "size", [(3, WORDS + "{}", {}), (60, "series {}", {"title": WORDS + WORDS[:150], "y": {"label": WORDS}})]
)
def test_the_canvas_grows_with_its_texts(size):
    count, label, keys = size
    found, series = many(count, label)
    figure = composed(found, curve(x={"column": "q", "label": WORDS}, series=[*series, {"label": "all"}], **keys))
    (axes,) = [axes for axes in figure.axes if axes.axison]
    assert axes.bbox.height / figure.dpi == pytest.approx(style.HEIGHT, abs=0.02)
    boxes = [text.get_window_extent() for text in texts(figure)]
    room = figure.bbox.padded(1)
    assert all(room.contains(*box.min) and room.contains(*box.max) for box in boxes)
    assert not [box for box in boxes if box.overlaps(axes.bbox.padded(-2))]


@pytest.mark.long
def test_what_nobody_would_read_to_its_end_is_cut_and_says_so():
    found, shown = unlike(12), curve(series=[{"label": "all"}])
    content = drawing(shown, found)
    assert (len(content.differences), "some_long_entry" in content.differences[0]) == (1, False)
    assert "some_long_entry_11" in content.notes[0].text
    footer = said(composed(unlike(60), curve(best={"metric": "success"}, series=[{"label": WORDS}])))
    assert max(len(text) for text in footer) <= layout.MOST_REMARKS + 1
    found, series = many(160)
    (legend,) = legends(composed(found, curve(series=series)))
    assert len(legend) == layout.MOST_ENTRIES + 1
    assert (legend[0], "130" in legend[-7], legend[-1]) == ("series 0", True, "series 159")


NO_FORMULA = r"$\frac{1}{$"


@pytest.mark.long
def test_a_label_that_is_no_formula_is_drawn_as_it_is():
    found = results([trial(baseline=NO_FORMULA, q=q, success=0.5) for q in (1.0, 2.0)])
    keys = {"title": NO_FORMULA, "x": {"column": "q", "label": "$$"}, "y": {"label": "$x$ for $"}}
    assert said(composed(found, curve(split="baseline", **keys))).count(NO_FORMULA) == 2
    outcomes = {one: np.array([0.0, 0.5, 1.0]) for one in found.trials["trial_id"]}
    heat = results([trial(baseline=NO_FORMULA, q=1.0, success=0.5)], outcomes)
    keys = {"x": "baseline", "label": NO_FORMULA, "split": "q", "metric": "success"}
    assert said(composed(heat, panel(kind="heatmap", **keys))).count(NO_FORMULA) == 2
