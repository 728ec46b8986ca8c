"""What the entries of a sweep explain, in made-up sweeps whose truth is known: in `query best`, page and study."""

import math
import random

import pytest

import sweeper
from sweeper.analysis.ready_questions import best
from sweeper.analysis.report import settings_tables
from sweeper.analysis.report_sources import sources
from sweeper.analysis.results import Results
from sweeper.space import search_space
from sweeper.store.store import Store
from tests.experiments.toy import TOY, project
from tests.filled_stores import commit
from tests.results import failure, record, result

SPACE = """
trial:
  experiment:
    name: toy
    points: {choice: [16, 64]}
    explode_at: {int: [-101, -1]}
    rate: {log_uniform: [1e-4, 1]}
  steps: 10
  seed: {seeds: 2}
variables: {noise: {uniform: [0, 1]}, word: {choice: [good, bad, ugly]}}
search: {method: random, trials: 240, metric: distance}
"""

# A normal variable with the variance of the remaining 66 % stands for all else.
TRUE = {"points": 0.01, "explode_at": 0.33}


def distance(trial, variables, noise):
    """The sum of an effect of the width, one of the iterations and noise, of variances .01, .33 and .66."""
    width = math.copysign(TRUE["points"] ** 0.5, trial.experiment.points - 32)
    iterations = (12 * TRUE["explode_at"]) ** 0.5 * (trial.experiment.explode_at + 51) / 101
    return width - iterations + 0.66**0.5 * noise


def optimum(trial, variables, noise):
    """A parabola over the logarithm of the rate, with its optimum at .003, words and a little noise."""
    words = {"good": 0.0, "bad": 1.0, "ugly": 2.0}
    away = math.log10(float(trial.experiment.rate)) - math.log10(3e-3)
    return 0.6 * away**2 + 0.6 * words[variables["variables.word"]] + 0.1 * noise


@pytest.fixture
def searched(tmp_path):
    """Makes a store with the sweep `made`; `value` of a trial, its variables and a normal number is its metric."""
    with project(tmp_path, toy=TOY):

        def made(value, kept=lambda trial: True, text=SPACE, failed=()):
            store = Store.open(tmp_path / "results")
            expansion = search_space.of_text("made.yaml", text).expand()
            for place, (key, trial) in enumerate(zip(expansion.trial_ids, expansion.trials, strict=True)):
                # both seeds of a setting have the same noise, so that their mean has its variance
                noise = random.Random(place // 2).gauss()
                if place in failed:
                    commit(store, trial, failure())
                elif kept(trial):
                    number = value(trial, expansion.variables[key], noise)
                    commit(store, trial, result(metrics={"distance": number, "reach": 1.0}))
            planned = record("made", expansion.trial_ids, text)
            store.record_sweep(planned.model_copy(update={"variables": expansion.variables}))
            return store

        yield made


def shares(table):
    return {row.entry: (row.share, row.better) for row in table.itertuples()}


def wide(trial):
    """A fifth of the wide ones."""
    return trial.experiment.explode_at % 5 == 0


@pytest.mark.parametrize("uneven", [False, True])
def test_shares_are_those_of_the_truth_and_noise_has_none(searched, uneven):
    store = searched(distance, lambda trial: not uneven or trial.experiment.points == 16 or wide(trial))
    tables, _ = best(store, "made")
    found = shares(tables[1])
    assert found["experiment_points"][0] == pytest.approx(TRUE["points"], abs=0.03)
    assert found["experiment_explode_at"][0] == pytest.approx(TRUE["explode_at"], abs=0.1)
    assert found["experiment_explode_at"][1] == "larger is better"
    of_noise = [found[name] for name in ("experiment_rate", "variables_noise", "variables_word")]
    assert sum(share for share, _ in of_noise) / 3 < 0.03
    assert [better for _, better in of_noise].count("within chance") >= 2


def test_an_optimum_within_a_range_and_the_best_of_some_words_are_told_also_on_the_page(searched):
    store = searched(optimum)
    rows = shares(best(store, "made")[0][1])
    share, where = rows["experiment_rate"]
    assert share > 0.7
    assert where.startswith("best near ")
    assert 1e-3 < float(where.split()[-1]) < 1e-2
    assert rows["variables_word"][1] == "good > bad > ugly"
    listed = sources(store, Results.of_store(store), [], ["made"], panels_needed=False)
    (_, (name, on_page)) = settings_tables(store.trials(), listed)
    assert (name, shares(on_page)) == ("made", rows)


def test_a_setting_with_a_failed_seed_is_in_no_share_and_no_value_of_the_study(searched):
    import optuna

    text = SPACE.replace("240", "12")
    store = searched(lambda trial, *_: float(trial.experiment.points) + trial.seed, text=text, failed=[0])
    (explained,) = best(store, "made")[0][1:]
    assert "of 11 settings" in explained.attrs["title"]
    study = sweeper.study("made", store.root)
    states = [trial.state.name for trial in study.trials]
    assert (states.count("COMPLETE"), states.count("FAIL")) == (11, 1)
    assert study.best_value == 16.5  # a setting is one trial, with the mean of its training seeds
    (ranges,) = {tuple(sorted(trial.distributions.items(), key=str)) for trial in study.trials}
    assert dict(ranges) == {
        "experiment.points": optuna.distributions.CategoricalDistribution((16, 64)),
        "experiment.explode_at": optuna.distributions.IntDistribution(-101, -1),
        "experiment.rate": optuna.distributions.FloatDistribution(1e-4, 1, log=True),
        "variables.noise": optuna.distributions.FloatDistribution(0, 1),
        "variables.word": optuna.distributions.CategoricalDistribution(("good", "bad", "ugly")),
    }


def test_two_settings_explain_nothing(searched):
    store = searched(lambda trial, *_: float(trial.experiment.points), text=SPACE.replace("240", "2"))
    assert len(best(store, "made")[0]) == 1


def test_where_no_setting_has_a_rank_none_is_said_to_be_as_good_as_others(searched):
    store = searched(distance, text=SPACE.replace("240", "2"), failed=range(4))
    listed = sources(store, Results.of_store(store), [], ["made"], panels_needed=False)
    ((_, table),) = settings_tables(store.trials(), listed)
    assert "equal" not in table.attrs["note"]
