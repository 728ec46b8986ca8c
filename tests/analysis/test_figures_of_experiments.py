"""Figures of a kind of trial that declares nothing about them: names alone say what a metric is."""

import json

import numpy as np
import pandas as pd
import pytest

from sweeper.analysis.figures import _drawings, drawing
from sweeper.analysis.results import Results
from sweeper.panels.kinds import KINDS
from tests.analysis.made_up_figures import labels, painted, panel, points


@pytest.fixture
def results():
    """Two seeds of two rates, each with the right answers of its four inputs."""
    rows = [
        {
            "trial_id": f"{rate}-{seed}", "status": "finished", "task": "digits", "baseline": "experiment",
            "seed": seed, "steps": 10, "extra_metrics": json.dumps({"accuracy": rate, "accuracy_p5": float(seed)}),
            "spec": json.dumps({"experiment": {"name": "digits", "rate": rate}, "steps": 10, "seed": seed}),
        }
        for rate in (0.25, 0.75) for seed in (0, 1)
    ]  # fmt: skip
    return Results.of_frame(
        pd.DataFrame(rows), lambda _, name: np.array([0, 0.5, 0.5, 1]) if name == "right_answers" else None
    )


def test_names_of_metrics_give_labels_and_say_where_a_mean_describes_no_training(results):
    lines = panel(
        kind="curve", x="experiment_rate", metric="accuracy", tail="accuracy_p5", series=[{"label": "all"}],
        y={"percent": True},
    )  # fmt: skip
    content = drawing(lines, results)
    assert points(content)["mean"].to_dict() == {0.25: 0.25, 0.75: 0.75}
    assert points(content, metric="accuracy_p5")["mean"].isna().all(), "0 of one seed and 1 of the other"
    assert painted(content)[0].get_ylabel() == "accuracy (%)"
    assert labels(content) == ["all", "average", "5th percentile"]


@pytest.mark.parametrize(
    ("values", "said"),
    [(([8], [8, 16]), ["[8, 16]", "[8]"]), ((False, True), ["false", "true"]), (("a", 2.0), ["2", "a"])],
)
def test_a_panel_is_split_by_values_of_every_type(results, values, said):
    specs = [
        json.dumps(json.loads(spec) | {"experiment": {"name": "digits", "widths": value}})
        for spec, value in zip(results.trials["spec"], sorted(values * 2, key=str), strict=True)
    ]
    columns = ["trial_id", "status", "task", "baseline", "seed", "steps", "spec", "extra_metrics"]
    results = Results.of_frame(results.trials[columns].assign(spec=specs), results.outcomes)
    lines = {"kind": "curve", "x": "seed", "metric": "accuracy"}
    content = drawing(panel(split="experiment_widths", **lines), results)
    assert not content.notes
    assert [label.removeprefix("experiment_widths = ") for label in content.labels()] == said
    series = [{"label": "all"}]
    chosen = panel(where={"experiment_widths": [values[1]]}, series=series, **lines)
    assert len(drawing(chosen, results).frame) == 2
    heatmap = panel(kind="heatmap", x="experiment_widths", metric="right_answers", series=series)
    (axes,) = painted(drawing(heatmap, results))
    assert [label.get_text() for label in axes.get_xticklabels()] == said


def test_panels_of_another_kind_of_trial_say_what_they_lack(results):
    content = drawing(panel(kind="votes", series=[{"label": "all"}]), results)
    assert content.frame.empty
    assert [note.series for note in content.notes] == ["all"]


def test_every_kind_of_panel_is_drawn():
    names = {record.model_fields["kind"].annotation.__args__[0] for record in KINDS}
    assert names == set(_drawings())
    assert {"votes", "board"} <= names, "those of the kinds of trial too"
