"""The training curves of the page: from rows and from checkpoints, with labels, colours and limits."""

import math
import re
import shutil

import numpy as np
import pytest

from sweeper.analysis import page, training_curves
from sweeper.analysis.figures import PALETTES
from sweeper.analysis.status import starts_by_name
from sweeper.analysis.training_curves import Limits
from sweeper.learned_algorithms import gradient
from sweeper.packs import checkpoint
from sweeper.packs.checkpointed_trials import unfinished_curves
from sweeper.space.search_space import read
from sweeper.store.store import Store
from sweeper.training.identity import Identity
from sweeper.trial.trial import trial_id
from tests.analysis.test_page import charted
from tests.filled_stores import commit, plan
from tests.results import failure
from tests.tiny_sweeps import with_seeds
from tests.trials import coloring_trial

pytestmark = pytest.mark.usefixtures("vega")

LOOK = PALETTES["paper"]

SPACE = "name: ours" + with_seeds(2).replace("q: 3", "q: {choice: [3, 10]}").replace("steps: 300", "steps: 400")


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    file = tmp_path_factory.mktemp("space") / "ours.yaml"
    file.write_text(SPACE)
    expansion = read(file).expand()
    return dict(zip(expansion.trial_ids, expansion.trials, strict=True))


@pytest.fixture(scope="module")
def half_done(tmp_path_factory, planned):
    """A store: trials with q = 3 and seeds 0, 1 are done, q = 10 and seed 0 has failed, and seed 1 trains."""
    store, trials = Store.open(tmp_path_factory.mktemp("store")), list(planned.values())
    for seed in (0, 1):
        points = [(step, "train_loss", (seed + 1) / step) for step in (100, 200, 300, 400)]
        commit(store, trials[seed], curves=[*points, (100, "accuracy", 1.0)])
    commit(store, trials[2], failure(), curves=[(100, "train_loss", 1.0), (200, "train_loss", math.nan)])
    plan(store, planned, text=SPACE)
    return store


@pytest.fixture
def store(tmp_path, half_done):
    """A copy of the store, to be changed."""
    return Store.open(shutil.copytree(half_done.url, tmp_path / "store"))


SECONDS = {"train_seconds": 0.0, "compile_seconds": 0.0, "cpu_seconds": 0.0}


def trains(store, trial_ids, step=200, losses=(0.5, 0.25), notes=None):
    """A pack has a checkpoint after these steps, with a loss at every hundredth."""
    points = [[[loss] * len(trial_ids)] * len(gradient.TRAINER.curves) for loss in losses]
    count = len(trial_ids)
    sound = {
        "step": step, "curves": points, "strides": [], "evaluations": [], "seconds": SECONDS,
        "lane_steps": [step] * count, "lanes": count, "arithmetics": [], "raised": [None] * count,
    }  # fmt: skip
    sound = sound if notes is None else notes and sound | notes
    weights = {"weights": np.zeros(3)}
    checkpoint.save(store, "0123456789", trial_ids, Identity(None, "", None), weights, sound)


def shown(store, shades=None, **limits):
    starts, trials = starts_by_name(store.sweeps()), page.trials_of(store.trials(), {})
    return training_curves.curves(store, starts, trials, [], {"ours": shades or {}}, LOOK, Limits(**limits))


def loss(series, trial=None):
    """The steps and losses of a setting, of one of its trials or of all."""
    curve = series["curves"]["train_loss"]
    return curve["steps"], curve["values"] if trial is None else curve["values"][trial]


def test_a_setting_has_the_curve_of_each_of_its_trials(half_done, planned):
    (chart,) = shown(half_done)
    assert (chart["title"], chart["note"]) == ("ours", "")
    assert {name: chart["facets"][name] for name in ("sweep", "task", "baseline")} == {
        "sweep": ["ours"], "task": ["coloring"], "baseline": ["Aq_R"],
    }  # fmt: skip
    assert chart["metrics"] == ["train_loss", "accuracy"]
    three, ten = chart["series"]
    assert (three["label"], ten["label"]) == ("q=3", "q=10")
    assert three["trials"] == [
        {"id": key, "seed": seed, "status": "finished"} for seed, key in enumerate(list(planned)[:2])
    ]
    assert loss(three) == ([100, 200, 300, 400], [[0.01, 0.005, 0.003333, 0.0025], [0.02, 0.01, 0.006667, 0.005]])
    assert three["curves"]["accuracy"] == {"steps": [100], "values": [[1.0], [1.0]]}
    assert (loss(ten), ten["trials"][0]["status"]) == (([100], [[1.0]]), "failed")


def test_a_point_between_those_of_other_trials_moves_no_mean(tmp_path, planned):
    """Between its own points a curve is linear, and after its last it has none."""
    store, trials = Store.open(tmp_path / "store"), list(planned.values())
    for seed, losses in enumerate(({100: 3.0, 200: 2.0, 300: 1.0}, {100: 5.0, 150: 9.0})):
        commit(store, trials[seed], curves=[(step, "train_loss", loss) for step, loss in losses.items()])
    plan(store, planned, text=SPACE)
    (chart,) = shown(store)
    (series,) = chart["series"]
    assert loss(series) == ([100, 150, 200, 300], [[3.0, 2.5, 2.0, 1.0], [5.0, 9.0, None, None]])


def test_what_trains_is_shown_up_to_its_checkpoint(store, planned):
    *_, failed, pending = planned
    trains(store, [failed, pending])
    (chart,) = shown(store)
    ten = chart["series"][1]
    assert [(trial["id"], trial["status"]) for trial in ten["trials"]] == [(failed, "failed"), (pending, "unfinished")]
    assert loss(ten) == ([100, 200], [[1.0, None], [0.5, 0.25]])
    assert chart["note"].startswith("1 trial ")
    assert charted(page.render(store, store.trials(), []))["charts"] == [chart]


def test_the_points_of_a_checkpoint_are_those_of_the_finished_curve(store, planned):
    key, trial = list(planned.items())[3]
    trains(store, [key], 350, (0.5, 0.4, 0.3, 9.0))
    curve = [step for step, name, _ in unfinished_curves(store, {key: trial})[key] if name == "train_loss"]
    assert curve == [100, 200, 300]


@pytest.mark.parametrize("notes", [{}, {"curves": [[[0.5]]]}])
def test_a_checkpoint_of_another_program_is_passed_over(store, planned, notes):
    trains(store, list(planned)[3:], notes=notes)
    (chart,) = shown(store)
    assert all(trial["status"] != "unfinished" for series in chart["series"] for trial in series["trials"])


def test_a_chart_has_limits(store, planned):
    trains(store, list(planned)[3:])
    (chart,) = shown(store, settings=1, trials=1, points=3)
    (series,) = chart["series"]
    assert [trial["status"] for trial in series["trials"]] == ["unfinished"]
    assert loss(series)[0] == [100, 200]
    sentences = chart["note"].removesuffix(".").split(". ")
    assert [re.findall(r"\b\d+\b|success\w*", sentence) for sentence in sentences] == [
        ["1"], ["1", "success_p5"], ["1", "1"],
    ]  # fmt: skip


def test_a_long_curve_keeps_its_ends_and_points_that_are_evenly_spread(store, planned):
    commit(store, list(planned.values())[3], curves=[(step, "train_loss", 1.0) for step in range(10, 80, 10)])
    (chart,) = shown(store, points=4)
    assert [loss(series)[0] for series in chart["series"]] == [[100, 200, 300, 400], [10, 30, 60, 100]]


def test_a_chart_has_the_best_settings(tmp_path):
    store = Store.open(tmp_path)
    trials = [coloring_trial(objective={"q": q, "m": 2}) for q in (1.0, 2.0, 3.0)]
    for trial, success in zip(trials, (0.1, 0.9, 0.5), strict=True):
        commit(store, trial, metrics={"success": success, "success_p5": success})
    plan(store, map(trial_id, trials))
    (chart,) = shown(store, settings=1)
    assert [series["trials"][0]["id"] for series in chart["series"]] == [trial_id(trials[1])]


def test_an_adaptive_search_shows_what_is_committed(store, planned):
    text = SPACE + "search: {method: optuna, trials: 4, metric: loss, mode: min}\n"
    store.record_sweep(store.sweeps()[0].model_copy(update={"text": text}))
    trains(store, list(planned)[3:])
    (chart,) = shown(store)
    assert {trial["status"] for series in chart["series"] for trial in series["trials"]} == {"finished", "failed"}


def test_the_first_curve_is_what_the_search_ranks_by(store, planned):
    assert shown(store)[0]["metrics"][0] == "train_loss"
    commit(store, [*planned.values()][3], curves=[(100, "success", 0.5)])
    plan(store, planned, text=SPACE + "search: {method: random, trials: 2, metric: success, mode: max}\n")
    assert shown(store)[0]["metrics"][0] == "success"
