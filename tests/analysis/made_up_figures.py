"""Made-up trials, panels of them, and the panels painted on bare axes, which have no layout and are not drawn."""

import json

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from pydantic import TypeAdapter

from sweeper.analysis.figures import style
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
        "spec": json.dumps(spec), "extra_metrics": json.dumps(extra or {}), **metrics,
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


def curve(**keys):
    return panel(**{"kind": "curve", "x": "q", "metric": "success"} | keys)


def painted(content):
    """The axes of a panel's drawing."""
    axes = Figure().subplots(1, len(content.widths()), squeeze=False)[0]
    content.paint(axes, style.PALETTES["paper"])
    return axes


def labels(content):
    """The entries of the legend of a panel's drawing."""
    return [label for label, _ in content.legend(style.PALETTES["paper"])]


def points(content, series=0, metric=None):
    """The points of a line by x: of the series in this place, and of its average unless a metric is named."""
    line = content.points[content.points["series"] == content.labels()[series]]
    return line[line["metric"] == (metric or line["metric"].iloc[0])].set_index("x")


# A grid world

PATHS = {0: [1, 2, 5, 3, 4, 5], 1: [0, 3, 0, 3, 1, 1, 1, 1]}
"""Cells reached on the way to cell 5: with seed 0 twice, with seed 1 never."""

SIZES = {"rows": "task_height", "columns": "task_width", "first": 1}

HISTORY = panel(
    kind="history", metric="mean_loss", tail="tail_loss", y={"unit": -1, "label": "Reward"}, best={"metric": "reward"},
    split="baseline",
    lines=[{"at": -7, "label": "no walk is better"}],
    published=[{"series": "Aq_R", "metric": "tail_loss", "source": "here", "values": {100: 17, 200: 1}}],
)  # fmt: skip
CELLS = panel(kind="cells", name="cells", metric="first_visit", limits=[0, 9], split="baseline", **SIZES)
BOARD = panel(kind="board", name="board", target=[2, 3], longest="task_horizon", unit=-1, split="baseline", **SIZES)


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
