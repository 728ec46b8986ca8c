"""What a store advises on seeds and votes, read off made-up trials."""

import json
import math

import numpy as np
import pandas as pd
import pytest

from sweeper.analysis.results import Results
from sweeper.analysis.table import numeric, texts, without_empty_columns
from sweeper.learned_algorithms.advice import as_good, seeds_table, votes_table
from sweeper.learned_algorithms.metrics import metric_named
from sweeper.learned_algorithms.vote_bounds import votes_needed
from tests.trials import coloring_trial


def trial(m=4, seed=0, tail=0.5, baseline="Aq_R", q=3.0, device="cpu", margin=None, cpu_seconds=10.0, **changes):
    """A row of the store's `trials`; `changes` replace fields of the trial or are metrics."""
    fields = {name: changes.pop(name) for name in ("steps", "evaluation", "batch_size") if name in changes}
    spec = coloring_trial(baseline=baseline, objective={"q": q, "m": m}, seed=seed, **fields)
    return {
        "trial_id": f"{baseline}-{q}-{m}-{seed}-{fields}", "status": "finished", "task": "coloring",
        "baseline": baseline, "q": q, "m": m, "seed": seed, "steps": spec.steps, "device": device,
        "spec": spec.model_dump_json(), "extra_metrics": json.dumps({} if margin is None else {"margin_p5": margin}),
        "success_p5": tail, "cpu_seconds": cpu_seconds, "steps_per_second": 1000 / cpu_seconds,
    } | changes  # fmt: skip


def walk(**changes):
    """A row of the grid world."""
    row = trial(task="gridworld", **changes)
    return row | {"spec": json.dumps(json.loads(row["spec"]) | {"task": {"name": "gridworld"}})}


def results(*trials):
    return Results.of_frame(pd.DataFrame(list(trials)), lambda trial_id, name: None).trials


def tails(values, seeds=2):
    """Trials with these tails by m; the seeds lie around them."""
    return [
        trial(m, seed, tail + 0.01 * (seed - (seeds - 1) / 2), cpu_seconds=float(m))
        for m, tail in values.items()
        for seed in range(seeds)
    ]


def cells(frame):
    table = without_empty_columns(frame)
    return [dict(zip(table.columns, row, strict=True)) for row in texts(table)]


# Seeds of a training step


def advice(*trials):
    return cells(seeds_table(results(*trials)))


def test_the_smallest_m_within_two_per_cent_of_the_best_tail_is_enough():
    (row,) = advice(*tails({1: 0.2, 5: 0.487, 10: 0.491, 20: 0.5, 30: 0.495}))
    assert row["m tried"] == "1 ... 30 (5)"
    assert (row["enough m (tail)"], row["best m (tail)"]) == ("10 (49.1 %)", "20 (50.0 %)")
    assert (row["CPU s"], row["steps/s"], row["seeds"]) == ("10 / 20", "100 / 50", "2")
    assert row["steps"] == "300"
    assert not {"setting", "remark"} & row.keys(), "what no row has is no column"


def test_nearly_means_two_per_cent_of_the_best_tail():
    """Tails on both sides of the threshold, so that neither 1 % nor 3 % passes."""
    for tail, enough in ((0.4901, "1 "), (0.4899, "2 ")):
        table = seeds_table(results(*tails({1: tail, 2: 0.5})))
        assert cells(table)[0]["enough m (tail)"].startswith(enough)
        assert "within 2 % of the best" in table.attrs["note"]
    for tail, nearly in ((20.39, True), (20.41, False)):  # of steps, where little is good, and of rewards, below zero
        assert as_good(metric_named("first_visit_p95"), tail, 20.0) == nearly
        assert as_good(metric_named("reward_p5"), -tail, -20.0) == nearly


def test_trials_that_differ_in_more_than_m_and_seed_are_not_compared():
    rows = advice(*tails({1: 0.1, 2: 0.2}), trial(4, batch_size=16), trial(5, batch_size=16), trial(9, steps=500))
    assert [(row["m tried"], row["other entries"]) for row in rows] == [
        ("1, 2", "batch_size 8"),
        ("4, 5", "batch_size 16"),
    ]


def test_only_randomised_models_with_several_m_get_advice():
    single = [trial(1, seed, 0.5, baseline="Aq_r0") for seed in range(2)]
    assert advice(*single, trial(3), trial(3, seed=1)) == []
    assert seeds_table(results(trial())[:0]).empty


@pytest.mark.parametrize(
    ("trials", "enough", "remark"),
    [
        (tails({1: 0.1, 2: 0.2}), "2 (20.0 %)", "largest tried"),
        (tails({1: 0.2, 2: 0.1}, seeds=1), "1 (20.0 %)", "one seed"),
        ([trial(m, seed, 0.0) for m in (1, 2) for seed in (0, 1)], "none", "all tails 0"),
        ([trial(1, tail=0.0), trial(2, tail=0.0)], "none", "all tails 0, one seed"),
        ([*tails({1: 0.2, 2: 0.1}), trial(3, 0, 0.1, device="gpu")], "1 (20.0 %)", "2 devices"),
    ],
)
def test_what_weakens_the_advice_is_said(trials, enough, remark):
    (row,) = advice(*trials)
    assert (row["enough m (tail)"], row["remark"]) == (enough, remark)


def test_a_task_is_ranked_by_the_tail_that_it_names():
    (row,) = advice(
        *(
            walk(m=m, seed=seed, tail=1.0, reward_p5=reward)
            for m, reward in {1: -30.0, 5: -26.4, 10: -26.0}.items()
            for seed in range(2)
        )
    )
    assert (row["enough m (tail)"], row["best m (tail)"]) == ("5 (reward_p5 -26.40)", "10 (reward_p5 -26.00)")


# Votes


def test_votes_are_those_of_the_bound_for_every_training_seed():
    trials = results(
        trial(seed=0, margin=0.5, evaluation={"seeds": 10, "votes": [5]}, majority_5=0.9, majority_5_p5=0.7),
        trial(seed=1, margin=0.4, evaluation={"seeds": 10, "votes": [5]}, majority_5=1.0, majority_5_p5=0.9),
    )
    table = votes_table(trials)
    (row,) = cells(table)
    wrong = 3**5 - (2**5 - 2)  # of all colourings of a cycle of five
    assert row["bound"] == f"{votes_needed(0.5, wrong, 0.05):.0f} ... {votes_needed(0.4, wrong, 0.05):.0f}"
    assert (row["m"], row["seeds"]) == ("4", "2")
    assert row["margin"] == "0.40 ... 0.50"
    assert row["5 votes, %"] == "95/80"
    assert row["enough"] == "5/>5"
    assert (row["vote"], row["entropy"]) == ("whole", "-")
    assert "10 evaluation seeds" in table.attrs["note"]


def test_votes_whose_percentile_jumps_are_not_averaged():
    evaluation = {"seeds": 10, "votes": [5]}
    shares = (0.94, 0.0), (1.0, 1.0)
    trials = results(
        *(
            trial(seed=seed, margin=0.5, evaluation=evaluation, majority_5=average, majority_5_p5=tail)
            for seed, (average, tail) in enumerate(shares)
        )
    )
    (row,) = cells(votes_table(trials))
    assert (row["5 votes, %"], row["enough"]) == ("97/0 to 100", "5/>5")


def recall(measured, **changes):
    row = trial(task="recall", evaluation={"seeds": 100, "votes": [5, 30]}, **changes)
    task = {"name": "recall", "keys": 20, "value_bits": 5}
    return row | {"spec": json.dumps(json.loads(row["spec"]) | {"task": task}), "extra_metrics": json.dumps(measured)}


def test_a_task_that_votes_on_parts_gets_both_bounds():
    measured = {"margin_p5": -0.04, "part_margin_p5": 0.3, "wrong_entropy": 2.25}
    measured |= {"majority_tuple_5": 0.49, "majority_tuple_5_p5": 0.2, "majority_tuple_30": 0.83}
    measured |= {"majority_tuple_30_p5": 0.33}
    shares = {"majority_5": 0.66, "majority_5_p5": 0.4, "majority_30": 0.977, "majority_30_p5": 0.67}
    rows = cells(votes_table(results(recall(measured, **shares))))
    assert votes_needed(0.3, 5, 0.05) == 103
    assert [row["vote"] for row in rows] == ["whole", "parts"]
    assert [row["bound"] for row in rows] == ["none", "103"]
    assert [row["enough"] for row in rows] == [">30/>30", "30/>30"]
    assert [row["30 votes, %"] for row in rows] == ["83/33", "97.7/67"]
    assert [row["entropy"] for row in rows] == ["2.2", "2.2"]


def test_estimates_from_all_seeds_go_before_disjoint_groups():
    """3 votes and 20 were not named by the trial: they have no column, and may be the fewest that are enough."""
    estimated = {"votes_5": 0.9, "votes_5_p5": 0.7, "votes_20": 0.97, "votes_20_p5": 0.96, "margin_p5": 0.5}
    estimated |= {"votes_30": 0.99, "votes_30_p5": 0.98, "part_margin_p5": 0.5}
    disjoint = {"majority_5": 0.91, "majority_5_p5": 0.65, "majority_30": 0.98, "majority_30_p5": 0.67}
    row = cells(votes_table(results(recall(estimated, **disjoint))))[1]
    assert (row["5 votes, %"], row["30 votes, %"], row["enough"]) == ("90/70", "99/98", "20/20")
    assert "20 votes, %" not in row


def test_rows_older_than_the_margin_of_parts_show_a_dash():
    measured = {"margin_p5": 0.5, "majority_tuple_5": 1.0, "majority_tuple_5_p5": 1.0}
    whole, by_part = cells(votes_table(results(recall(measured, majority_5=1.0, majority_5_p5=1.0))))
    assert (by_part["margin"], by_part["bound"], by_part["enough"]) == ("-", "-", "5/5")
    assert whole["bound"] == str(math.ceil(8 * math.log(31 / 0.05)))


def test_a_bound_may_promise_nothing_and_a_margin_may_not_be_measured():
    old = trial(evaluation={"seeds": 10, "votes": [3]}, majority_3=0.75, majority_3_p5=0.5)
    unmeasured = trial(m=9)
    (row,) = cells(votes_table(results(old, unmeasured)))
    assert (row["margin"], row["bound"], row["3 votes, %"]) == ("-", "-", "75/50")
    (row,) = cells(votes_table(results(trial(margin=-0.1), trial(seed=1, margin=0.9))))
    assert row["bound"].endswith(" ... none")


def test_a_perfect_model_needs_the_votes_of_a_margin_of_one():
    """Shares of single precision may exceed 1 by a rounding error, in stores that exist as well."""
    perfect = float(np.nextafter(np.float32(1), np.float32(2)))
    whole, by_part = cells(votes_table(results(recall({"margin_p5": perfect, "part_margin_p5": perfect}))))
    assert whole["margin"] == by_part["margin"] == "1.00"
    assert whole["bound"] == f"{votes_needed(1.0, 31, 0.05):.0f}"
    assert by_part["bound"] == f"{votes_needed(1.0, 5, 0.05):.0f}"


def test_cells_keep_numbers_to_sort_by():
    table = seeds_table(results(*tails({1: 0.2, 5: 0.487, 20: 0.5})))
    order = {head: float(cells[0]) for head, cells in table.items() if numeric(cells)}
    assert order == {
        "q": 3.0, "steps": 300.0, "enough m (tail)": 20, "best m (tail)": 20, "CPU s": 20.0, "steps/s": 50.0, "seeds": 2
    }  # fmt: skip


def test_without_answers_or_with_a_single_seed_there_are_no_voters():
    assert votes_table(results(walk(margin=0.5), trial(1, baseline="Aq_r0", margin=1.0))).empty
