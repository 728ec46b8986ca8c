"""One point a trial: against a column, or against an early value of a training curve."""

import numpy as np
import pandas as pd
import pytest

from sweeper.analysis.figures import drawing
from sweeper.analysis.results import Results
from tests.analysis.made_up_figures import labels, painted, panel, results, trial

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
    content = drawing(
        panel(kind="scatter", x=EARLY, y=SUCCESS, metric="success", split="baseline"), trained([0.3, 0.1])
    )
    (axes,) = painted(content)
    (points,) = axes.lines
    assert np.asarray(points.get_xdata()) == pytest.approx([0.3, 0.1])
    assert np.asarray(points.get_ydata()) == pytest.approx([60, 80])
    assert points.get_linestyle() == "None"
    assert axes.get_xlabel() == "train_loss at step 45"
    assert labels(content) == ["Aq_R (2 trials)"]


def test_five_points_or_more_have_a_rank_correlation():
    scatter = panel(kind="scatter", x=EARLY, metric="success", split="baseline")
    for losses, correlation in (
        ([0.5, 0.01, 0.2, 0.3, 0.02], pytest.approx(-1)),
        ([0.5, 0.01, 0.2, 0.3], None),
        ([0.1] * 5, None),
        ([0.1 + 2e-9 * place for place in range(5)], None),  # rounding has no rank
    ):
        content = drawing(scatter, trained(losses))
        assert content.rank_correlation("Aq_R") == correlation
        assert ("-1.00" in labels(content)[0]) == (correlation is not None)


def test_trials_that_differ_in_more_than_their_seed_have_no_rank_correlation():
    scatter = panel(kind="scatter", x="success", metric="success_p5", split="baseline")
    for steps, known in ((lambda seed: 100, True), (lambda seed: 100 * seed, False)):
        made = [trial(seed=n, steps=steps(n), success=n / 9, success_p5=n / 9) for n in range(1, 7)]
        content = drawing(scatter, results(made))
        assert (content.rank_correlation("Aq_R") is not None) == known
        told = [content.title(), *content.remarks(), *(note.text for note in content.notes)]
        assert any("steps" in text for text in told) != known, "differences are named"
        assert not any("merge" in text for text in told), "every point is one trial"


def test_the_axis_may_be_a_column_and_shares_per_cent():
    scatter = panel(kind="scatter", x={"column": "success", "percent": True}, y=SUCCESS, metric="success_p5", split="m")
    made = [trial(m=5, success=0.25, success_p5=0.125), trial(m=5, seed=1, success=0.75, success_p5=0.5)]
    content = drawing(scatter, results(made))
    assert content.frame[["x", "value"]].to_numpy().tolist() == [[0.25, 0.125], [0.75, 0.5]]
    (points,) = painted(content)[0].lines
    assert (list(points.get_xdata()), list(points.get_ydata())) == ([25, 75], [12.5, 50])


@pytest.mark.parametrize(
    ("x", "named"),
    [(EARLY | {"step": 5}, "train_loss at step 5"), (EARLY | {"curve": "loss"}, "loss at step 45"), ("task", "'task'")],
)
def test_what_no_trial_has_is_a_note(x, named):
    content = drawing(panel(kind="scatter", x=x, metric="success", split="baseline"), trained([0.1, 0.2]))
    assert content.labels() == []
    (note,) = content.notes
    assert named in note.text
