"""Choices with weights, and choices whose order Optuna knows."""

from collections import Counter

import pytest
from optuna import distributions
from scipy import stats

from tests.space.test_language import refused, space

RANDOM = "search={method: random, trials: 1000}"
OPTUNA = "search={method: optuna, trials: 5}"
WIDTHS = "trial.model.width={choice: [8, 12, 16], weights: [1, 2, 5]}"


@pytest.mark.slow
def test_entries_are_drawn_by_their_weights():
    steps = "trial.steps={choice: [" + ", ".join(map(str, range(1, 1001))) + "]}"  # so that no two settings are equal
    drawn = Counter(trial.model.width for trial in space(WIDTHS, steps, RANDOM).expand().examples)
    expected = [sum(drawn.values()) * weight / 8 for weight in (1, 2, 5)]
    assert stats.chisquare([drawn[width] for width in (8, 12, 16)], expected).pvalue > 1e-3


def test_weights_of_any_unit_reach_every_entry_and_no_further():
    (hole,) = [node.value for node in space(WIDTHS, RANDOM).tree.value["trial"].value["model"].children
               if hasattr(node.value, "weights")]  # fmt: skip
    assert [hole.drawn(u) for u in (0.0, 0.124, 0.125, 0.374, 0.376, 1 - 2**-53, 1.0)] == [0, 0, 1, 1, 2, 2, 2]


def distribution_of(written: str) -> object:
    spec = space(f"trial.model.width={written}", OPTUNA)
    study = spec.search.study(spec.tree)
    assert study.ask()["trial.model.width"] in range(3)
    return study._asked[0].distributions["trial.model.width"]


CATEGORIES, SCALE = distributions.CategoricalDistribution((0, 1, 2)), distributions.IntDistribution(0, 2)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{choice: [8, 12, 16]}", SCALE),
        ("{choice: [16, 12, 8]}", SCALE),
        ("{choice: [8, 16, 12]}", CATEGORIES),
        ("{choice: [8, 16, 12], ordered: true}", SCALE),
        ("{choice: [8, 12, 16], ordered: false}", CATEGORIES),
        ("{choice: [8, 12, {int: [16, 20]}]}", CATEGORIES),
        ("{choice: [8, 12, 16], weights: [1, 1, 2]}", distributions.FloatDistribution(0, 1)),
    ],
)
def test_optuna_is_told_the_order_of_a_choice(written, expected):
    assert distribution_of(written) == expected


def test_words_have_an_order_if_the_space_says_so_and_infinity_is_a_number():
    for ordered, expected in (("", CATEGORIES), (", ordered: true", SCALE)):
        baselines = f"trial.baseline={{choice: [AE_r0, Aq_r0, Aq_R]{ordered}}}"
        spec = space("trial.objective.q={choice: [1, 10, inf]}", baselines, OPTUNA)
        study = spec.search.study(spec.tree)
        study.ask()
        found = study._asked[0].distributions
        assert (found["trial.objective.q"], found["trial.baseline"]) == (SCALE, expected)


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("{choice: [8, 12], weights: [1, 2, 5]}", "trial.model.width.weights"),
        ("{choice: [8, 12], weights: [1, 0]}", "trial.model.width.weights[1]"),
        ("{choice: [8, 12], weights: [1, 2]}", "trial.model.width.weights"),  # of a grid
        ("{choice: [8, 12], ordered: 2}", "trial.model.width.ordered"),
        ("{each: [8, 12], weights: [1, 2]}", "trial.model.width.weights"),
    ],
)
def test_a_mistake_is_told_with_its_path(written, path):
    assert refused(f"trial.model.width={written}").path == path
