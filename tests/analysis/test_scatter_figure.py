"""One point a trial: against a column, or against an early value of a training curve."""

import itertools

import numpy as np
import pandas as pd
import pytest

from sweeper.analysis.figures import drawing
from sweeper.analysis.results import Results
from tests.analysis.made_up_figures import composed, legends, panel, results, said, trial

EARLY = {"curve": "train_loss", "step": 45}
SUCCESS = {"label": "Success (%)", "percent": True}


def trained(losses):
    """A trial for every loss at step 40, whose success falls as that loss rises; their curves end at one loss."""
    trials = [trial(seed=seed, success=0.9 - loss) for seed, loss in enumerate(losses)]

    def curves(trial_ids):
        rows = [
            {"trial_id": made["trial_id"], "step": step, "metric": metric, "value": value * scale}
            for made, loss in zip(trials, losses, strict=True)
            for metric, scale in (("train_loss", 1.0), ("mean_loss", 7.0))
            for step, value in ((20, 0.5), (40, loss), (60, 0.25))
        ]
        return pd.DataFrame([row for row in rows if row["trial_id"] in trial_ids])

    return Results.of_frame(pd.DataFrame(trials), lambda trial_id, name: None, curves)


def test_a_point_is_a_trial_at_the_last_value_of_its_curve_up_to_the_step():
    scatter = panel(kind="scatter", x=EARLY, y=SUCCESS, metric="success", split="baseline")
    figure = composed(trained([0.3, 0.1, 0.2]), scatter)
    (drawn,) = figure.axes[0].lines
    assert np.asarray(drawn.get_xdata()) == pytest.approx([0.3, 0.1, 0.2])
    assert np.asarray(drawn.get_ydata()) == pytest.approx([60, 80, 70])
    assert drawn.get_linestyle() == "None"
    assert "train_loss at step 45" in said(figure)
    assert legends(figure) == [["Aq_R (3 trials)"]]


def test_the_legend_has_the_rank_correlation_of_five_points_or_more():
    scatter = panel(kind="scatter", x=EARLY, metric="success", split="baseline")
    for losses, rank in (
        ([0.5, 0.01, 0.2, 0.3, 0.02], ", rank correlation -1.00"),
        ([0.1] * 5, ""),
        ([0.1 + 2e-9 * place for place in range(5)], ""),  # rounding has no rank
    ):
        assert legends(composed(trained(losses), scatter)) == [[f"Aq_R (5 trials{rank})"]]


def test_the_axis_may_be_a_column():
    scatter = panel(kind="scatter", x="m", metric="success", split="baseline")
    (points,) = drawing(scatter, results([trial(m=5, success=0.25), trial(m=20, success=0.75)])).series
    assert points.values.to_numpy().tolist() == [[20.0, 0.75], [5.0, 0.25]]


def test_shares_may_be_drawn_as_per_cent_on_either_axis():
    scatter = panel(kind="scatter", x={"column": "success", "percent": True}, y=SUCCESS, metric="success_p5", split="m")
    (drawn,) = composed(results([trial(success=0.25, success_p5=0.125)]), scatter).axes[0].lines
    assert (list(drawn.get_xdata()), list(drawn.get_ydata())) == ([25], [12.5])


def test_labels_of_a_logarithmic_axis_do_not_overlap():
    scatter = panel(kind="scatter", x=EARLY | {"scale": "log"}, metric="success", split="baseline")
    figure = composed(trained([0.026, 0.2, 0.01]), scatter)
    shown = [text.get_window_extent() for text in figure.axes[0].get_xticklabels() if text.get_text()]
    assert len(shown) >= 3
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(sorted(shown, key=lambda box: box.x0)))


@pytest.mark.parametrize(
    ("x", "note"),
    [
        (EARLY | {"step": 5}, "no trial has train_loss at step 5"),
        (EARLY | {"curve": "loss"}, "no trial has loss at step 45"),
        ("task", "'task' is not a number"),
    ],
)
def test_what_no_trial_has_is_a_note(x, note):
    content = drawing(panel(kind="scatter", x=x, metric="success", split="baseline"), trained([0.1, 0.2]))
    assert not content.series
    assert [missing.text for missing in content.notes] == [note]
