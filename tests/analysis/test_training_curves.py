"""The training curves of the page: from rows and from checkpoints, with bands, labels, scales and limits."""

import math
import re
import shutil

import numpy as np
import pytest

from sweeper.analysis import page
from sweeper.analysis.figures.style import Scale
from sweeper.analysis.page import training_curves
from sweeper.analysis.page.training_curves import Limits, charts
from sweeper.packs import checkpoint
from sweeper.packs.checkpointed_trials import unfinished_curves
from sweeper.space.search_space import read
from sweeper.store.store import Store
from sweeper.training import gradient
from sweeper.trial.trial import trial_id
from tests.filled_stores import commit, plan
from tests.results import failure, result
from tests.tiny_sweeps import with_seeds
from tests.trials import coloring_trial

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
    sound = {"step": step, "curves": points, "strides": [], "seconds": SECONDS, "lane_steps": [step] * len(trial_ids)}
    weights = {"weights": np.zeros(3)}
    checkpoint.save(store, "0123456789", trial_ids, None, weights, sound if notes is None else notes)


def shown(store, **limits):
    latest = {record.name: record for record in store.sweeps()}
    return charts(store, latest, store.trials().to_pylist(), Limits(**limits))


def test_a_setting_has_a_line_a_band_and_a_line_for_each_trial(half_done, planned):
    (chart,) = shown(half_done)
    assert chart.title == "ours"
    three, ten = chart.series
    assert (three.label, ten.label) == ("q=3", "q=10")
    assert three.steps == [100, 200, 300, 400]
    assert three.means == pytest.approx([1.5 / step for step in three.steps])
    assert [(trial.trial_id, trial.seed, trial.status) for trial in three.trials] == [
        (key, seed, "finished") for seed, key in enumerate(list(planned)[:2])
    ]
    assert three.trials[1].values == pytest.approx([2 / step for step in three.steps])
    assert three.band.count("L") == 7
    assert three.band.endswith("Z")
    assert (ten.steps, ten.band, ten.trials[0].status) == ([100], "", "failed")
    assert chart.up.logarithmic
    assert chart.note == ""


def test_a_point_between_those_of_other_trials_moves_neither_line_nor_band(tmp_path, planned):
    store, trials = Store.open(tmp_path / "store"), list(planned.values())
    for seed, losses in enumerate(({100: 3.0, 200: 2.0, 300: 1.0}, {100: 5.0, 150: 9.0})):
        commit(store, trials[seed], curves=[(step, "train_loss", loss) for step, loss in losses.items()])
    plan(store, planned, text=SPACE)
    (chart,) = shown(store)
    (series,) = chart.series
    assert series.steps == [100, 150, 200, 300]
    assert series.means == pytest.approx([4.0, math.nan, 2.0, 1.0], nan_ok=True)

    def path(*points):
        across, up = (
            scale.place(np.array(at)) for scale, at in zip(chart[1:3], zip(*points, strict=True), strict=True)
        )
        return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, up, strict=True))

    assert series.line == path((100, 4), (200, 2), (300, 1))
    assert series.band == path((100, 5), (200, 2), (300, 1), (300, 1), (200, 2), (100, 3)) + "Z"
    assert series.trials[1].values == pytest.approx([5.0, 9.0, math.nan, math.nan], nan_ok=True)


def test_settings_of_two_models_are_called_by_their_models(tmp_path):
    """Entries that only one of the models has are not named."""
    deep_sets = {"name": "deep_sets", "blocks": 1, "width": 4}
    store, trials = Store.open(tmp_path), [coloring_trial(), coloring_trial(model=deep_sets)]
    for trial in trials:
        commit(store, trial)
    plan(store, map(trial_id, trials))
    (chart,) = shown(store)
    assert {series.label for series in chart.series} == {"transformer", "deep_sets"}


def test_what_trains_is_shown_up_to_its_checkpoint(store, planned):
    *_, failed, pending = planned
    trains(store, [failed, pending])
    (chart,) = shown(store)
    ten = chart.series[1]
    assert [(trial.trial_id, trial.status) for trial in ten.trials] == [(failed, "failed"), (pending, "unfinished")]
    assert [trial.values for trial in ten.trials] == [pytest.approx([1.0, math.nan], nan_ok=True), [0.5, 0.25]]
    assert ten.means == [0.75, 0.25]
    assert chart.note.startswith("1 trial ")
    text = page.render(store, store.trials(), [])
    assert f'data-trial="{pending}" data-seed="1" data-status="unfinished" data-values="0.5 0.25"' in text
    assert f'data-trial="{failed}" data-seed="0" data-status="failed" data-values="1 -"' in text


def test_the_points_of_a_checkpoint_are_those_of_the_finished_curve(store, planned):
    key, trial = list(planned.items())[3]
    trains(store, [key], 350, (0.5, 0.4, 0.3, 9.0))
    curve = [step for step, name, _ in unfinished_curves(store, {key: trial})[key] if name == "train_loss"]
    assert curve == [100, 200, 300]


@pytest.mark.parametrize("notes", [{}, {"step": 1, "curves": "x", "strides": [], "seconds": {}, "lane_steps": [1]}, 3])
def test_a_checkpoint_that_makes_no_sense_is_passed_over(store, planned, notes):
    trains(store, list(planned)[3:], notes=notes)
    (chart,) = shown(store)
    assert all(trial.status != "unfinished" for series in chart.series for trial in series.trials)


def test_a_chart_has_limits(store, planned):
    trains(store, list(planned)[3:])
    (chart,) = shown(store, settings=1, trials=1, points=3)
    (series,) = chart.series
    assert [trial.status for trial in series.trials] == ["unfinished"]
    assert series.steps == [100, 200]
    sentences = chart.note.removesuffix(".").split(". ")
    assert [re.findall(r"\b\d+\b|success\w*", sentence) for sentence in sentences] == [
        ["1"], ["1", "success_p5"], ["1", "1"],
    ]  # fmt: skip


def test_a_long_curve_keeps_its_ends_and_points_that_are_evenly_spread(store, planned):
    commit(store, list(planned.values())[3], curves=[(step, "train_loss", 1.0) for step in range(10, 80, 10)])
    (chart,) = shown(store, points=4)
    assert [series.steps for series in chart.series] == [[100, 200, 300, 400], [10, 30, 60, 100]]


def test_a_chart_has_the_best_settings(tmp_path):
    store = Store.open(tmp_path)
    trials = [coloring_trial(objective={"q": q, "m": 2}) for q in (1.0, 2.0, 3.0)]
    for trial, success in zip(trials, (0.1, 0.9, 0.5), strict=True):
        commit(store, trial, metrics={"success": success, "success_p5": success})
    plan(store, map(trial_id, trials))
    (chart,) = shown(store, settings=1)
    assert [series.trials[0].trial_id for series in chart.series] == [trial_id(trials[1])]


def test_an_adaptive_search_shows_what_is_committed(store, planned):
    text = SPACE + "search: {method: optuna, trials: 4, metric: loss, mode: min}\n"
    store.record_sweep(store.sweeps()[0].model_copy(update={"text": text}))
    trains(store, list(planned)[3:])
    (chart,) = shown(store)
    assert {trial.status for series in chart.series for trial in series.trials} == {"finished", "failed"}


def test_a_page_without_curves_has_no_chart(tmp_path):
    store = Store.open(tmp_path / "store")
    store.commit(result(curves=[]))
    assert shown(store) == []
    assert 'id="curves"' not in page.render(store, store.trials(), [])


@pytest.mark.parametrize(
    ("scale", "ticks"),
    [
        (Scale(0, 20_000), [0, 4_000, 8_000, 12_000, 16_000, 20_000]),
        (Scale(-0.1, 0.25), [-0.08, 0, 0.08, 0.16, 0.24]),
        (Scale.over(np.array([3.0, 3.0])), [1.8, 2.4, 3, 3.6, 4.2]),
        (Scale.over(np.array([0.0, math.nan])), [-0.4, -0.2, 0, 0.2, 0.4]),
        (Scale(0.0004, 2, True), [0.001, 0.01, 0.1, 1]),
        (Scale(0.0011, 0.11, True), [0.003, 0.01, 0.03, 0.1]),
        (Scale(2, 9, True), [3, 4.5, 6, 7.5, 9]),
        (Scale(1e-12, 1, True), [1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 0.01, 1]),
    ],
)
def test_ticks_are_round_values_between_the_ends(scale, ticks):
    places, values = zip(*scale._replace(begin=226, end=10).ticks(), strict=True)
    assert values == pytest.approx(ticks)
    assert places == pytest.approx(226 - 216 * scale.place(np.array(values)))
    assert min(places) >= 10 - 1e-6
    assert max(places) <= 226 + 1e-6


def test_ticks_of_a_chart_are_written_as_people_do(half_done, monkeypatch):
    (chart,) = shown(half_done)
    chart = chart._replace(across=chart.across._replace(high=3e6), up=chart.up._replace(low=1e-9, high=2e3))
    monkeypatch.setattr(training_curves, "charts", lambda *arguments: [chart])
    (drawing,) = re.findall('class="chart".*?</svg>', page.render(half_done, half_done.trials(), []), re.S)
    up, across = "1e-9 1e-7 1e-5 0.001 0.1 10 1,000", "0 600,000 1.2e6 1.8e6 2.4e6 3e6"
    assert re.findall("<text[^>]*>([^<]*)</text>", drawing) == [*up.split(), *across.split(), "step"]


def test_curves_that_cannot_be_drawn_are_a_sentence(half_done, monkeypatch):
    def broken(*arguments):
        raise ValueError("a point of <nonsense>")

    monkeypatch.setattr(training_curves, "charts", broken)
    assert "ValueError: a point of &lt;nonsense&gt;" in page.render(half_done, half_done.trials(), [])
