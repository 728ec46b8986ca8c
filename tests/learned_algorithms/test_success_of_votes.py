"""Success against the number of votes: its points, its error bars, and the bound beside it."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from sweeper.analysis.figures import drawing
from sweeper.learned_algorithms.vote_bounds import success_promised
from tests.analysis.made_up_figures import labels, painted, panel, points, results, trial

WRONG = 3**10 - (2**10 + 2)  # colourings of a cycle of ten that are not proper
VOTES = panel(kind="votes", series=[{"label": "A", "where": {"baseline": "Aq_R"}}])


def voters(seed=0, margin=0.5, **changes):
    measured = {"votes_1": 0.8, "votes_1_p5": 0.6, "votes_1_se": 0.03, "votes_30": 0.9, "votes_30_p5": 0.7}
    measured |= {"votes_3": 0.85 + 0.02 * seed, "votes_3_p5": 0.65, "votes_3_se": 0.04, "margin_p5": margin}
    return trial(seed=seed, extra=measured | changes)


def test_a_votes_panel_draws_the_estimates_by_default_and_on_demand_the_votes_of_the_paper():
    content = drawing(VOTES, results([voters(0), voters(1)]))
    assert points(content)["mean"].to_dict() == pytest.approx({1: 0.8, 3: 0.86, 30: 0.9})
    assert points(content, metric="votes_p5")["mean"].to_dict() == pytest.approx({1: 0.6, 3: 0.65, 30: 0.7})
    majority = panel(kind="votes", metric="majority", tail="majority_p5", split="baseline")
    content = drawing(majority, results([trial(majority_5=0.7, majority_30=0.9, majority_30_p5=0.5)]))
    assert points(content)["mean"].to_dict() == {5: 0.7, 30: 0.9}
    assert points(content, metric="majority_p5")["mean"].to_dict() == {30: 0.5}


def bounds(axes):
    """The lines that are no points: bounds have a value at many numbers of votes."""
    return [line for line in axes.lines if len(line.get_xdata()) > 10]


def test_the_bound_is_drawn_where_it_promises_something():
    content = drawing(VOTES, results([voters(votes_300=1.0)]))
    (axes,) = painted(content)
    (bound,) = bounds(axes)
    votes, promised = np.asarray(bound.get_xdata()), np.asarray(bound.get_ydata())
    assert promised == pytest.approx([100 * success_promised(k, 0.5, WRONG) for k in votes])
    assert promised.min() > 0
    assert votes[0] > 80
    assert votes[-1] == pytest.approx(300)
    assert labels(content)[-1] == "bound on the 5th percentile"


def test_a_bound_that_promises_nothing_for_some_of_the_trials_is_said_and_not_drawn():
    content = drawing(VOTES, results([voters(0, votes_300=1.0), voters(1, margin=-0.3, votes_300=1.0)]))
    assert not any("bound" in label for label in labels(content))
    (remark,) = [remark for remark in content.remarks() if "bound" in remark]
    assert re.findall(r"\d+", remark) == ["300", "1", "2"], "up to 300 votes, for 1 of 2 trials"
    assert bounds(painted(content)[0]) == []


def test_error_bars_are_those_of_the_mean_over_training_seeds():
    content = drawing(VOTES, results([voters(0), voters(1, votes_1_se=0.04)]))
    reaches = [
        (segment[0][0], segment[1][1] - segment[0][1])
        for collection in painted(content)[0].collections
        if hasattr(collection, "get_segments")
        for segment in collection.get_segments()
    ]
    assert dict(reaches)[1] == pytest.approx(100 * 2 * 2 * np.hypot(0.03, 0.04) / 2)
    assert 30 not in dict(reaches)  # its error was not measured
    assert any(remark.startswith("bars: 2 ") for remark in content.remarks())


def evaluated(seeds, **metrics):
    row = voters(**metrics)
    spec = json.loads(row["spec"]) | {"evaluation": {"seeds": seeds, "votes": [5]}}
    return row | {"spec": json.dumps(spec)}


def test_of_several_evaluations_of_a_network_the_one_with_the_most_seeds_counts():
    """For every number of votes by itself: few seeds may have been evaluated for numbers that many were not."""
    rows = [evaluated(100, votes_30=0.5, votes_7=0.6), evaluated(1000, votes_30=0.7, votes_300=1.0), evaluated(500)]
    every = replace(results([voters()]), evaluations=lambda: results(rows).trials)
    content = drawing(VOTES.model_copy(update={"rows": "evaluations"}), every)
    assert points(content)["mean"].to_dict() == pytest.approx({1: 0.8, 3: 0.85, 7: 0.6, 30: 0.7, 300: 1.0})
    assert set(points(content)["count"]) == {1}
    assert content.differences == []
