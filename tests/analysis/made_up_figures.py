"""Made-up trials, and what the figures of them say."""

import json

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.text import Text
from pydantic import TypeAdapter

from sweeper.analysis.figures import drawing, layout, style
from sweeper.analysis.results import Results
from sweeper.panels.kinds import Panel, Panels


def trial(baseline="Aq_R", q=1.0, seed=0, m=10, steps=20_000, status="finished", extra=None, **metrics):
    spec = {
        "task": {"name": "coloring", "vertices": 10}, "baseline": baseline,
        "objective": {"q": "inf" if q == float("inf") else q, "m": m},
        "optimizer": {"name": "adam", "weight_decay": 0.1}, "evaluation": {"seeds": 100, "votes": [5, 30]},
        "steps": steps, "seed": seed,
    }  # fmt: skip
    return {
        "trial_id": f"{baseline}-{q}-{m}-{steps}-{seed}", "status": status, "task": "coloring", "objective": "q_norm",
        "baseline": baseline, "q": q, "m": m, "seed": seed, "steps": steps, "optimizer": "adam",
        "spec": json.dumps(spec), "extra_metrics": json.dumps(extra) if extra else None, **metrics,
    }  # fmt: skip


def results(trials, outcomes=None):
    """Results over made-up trials; `outcomes` gives the success of every input of a trial."""
    columns = {"success": np.nan, "success_p5": np.nan, "majority_30": np.nan}
    frame = pd.DataFrame([columns | one for one in trials])

    def per_input(trial_id, name):
        return None if outcomes is None or name != "success" else outcomes.get(trial_id)

    return Results.of_frame(frame, per_input)


def panel(**keys) -> Panel:
    (one,) = TypeAdapter(Panels).validate_python([{"name": "P"} | keys])
    return one


def composed(results, *panels, palette="paper"):
    """The figure of a row of panels, as `draw` writes it."""
    row = [drawing(panel, results) for panel in panels]
    with matplotlib.rc_context(style.RC):
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
    return "\n".join(text.get_text() for text in texts(figure))


def legends(figure):
    return [[text.get_text() for text in axes.get_legend().get_texts()] for axes in figure.axes if axes.get_legend()]
