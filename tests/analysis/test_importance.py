"""What decided how good the settings of a search are: importances that find the entry that mattered, and the figure."""

import math
import re
import shutil

import numpy as np
import pytest

from sweeper.analysis.figures import parallel_coordinates
from sweeper.analysis.figures.parallel_coordinates import NONE
from sweeper.analysis.figures.style import Scale
from sweeper.analysis.importance import LEAST_SETTINGS, importance_table, importances, logarithmic_entries
from sweeper.analysis.ranking import Goal, ranking
from sweeper.analysis.report import ReportOptions, write_report
from sweeper.analysis.results import named_frame
from sweeper.analysis.table import texts
from sweeper.space import search_space
from sweeper.store.store import Store
from sweeper.trial.trial import trial_id
from tests import tiny_sweeps
from tests.filled_stores import commit, plan

pytestmark = pytest.mark.usefixtures("vega")

RATES = "learning_rate: {log_uniform: [1e-6, 1e-1]}, weight_decay: {uniform: [0, 1]}, "
SPACE = (
    tiny_sweeps.SPACE.replace("q: 3", "q: {log_uniform: [1, 30]}").replace("warmup_steps", RATES + "warmup_steps")
    + "search: {method: random, trials: 40, metric: success, mode: max}\n"
).replace("baseline: Aq_R", "baseline: {choice: [Aq_R, AE_R]}")


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A search of 40 settings in which only the learning rate matters: success is best at 1e-3."""
    folder = tmp_path_factory.mktemp("searched")
    path = folder / "rates.yaml"
    path.write_text(SPACE)
    space = search_space.read(path)
    store = Store.open(folder / "results")
    trials = space.expand().trials
    for trial in trials:
        distance = abs(math.log10(trial.optimizer.learning_rate) + 3)
        commit(store, trial, metrics={"success": 1 - distance / 5, "loss": 0.1})
    plan(store, map(trial_id, trials), "rates", SPACE)
    frame = named_frame(store.trials().to_pandas())
    return store, space, frame, ranking(frame, Goal("success", "max"))


def test_the_entry_that_mattered_is_the_most_important(searched):
    _, space, _, ranked = searched
    shares = importances(ranked, logarithmic_entries(space))
    assert next(iter(shares)) == "optimizer.learning_rate"
    assert set(shares) == {"optimizer.learning_rate", "optimizer.weight_decay", "objective.q", "baseline"}
    assert shares["optimizer.learning_rate"] > 0.6
    assert sum(shares.values()) == pytest.approx(1)
    assert shares == importances(ranked, logarithmic_entries(space)), "no number depends on chance"


@pytest.mark.parametrize("hole", ["choice", "each"])
def test_logarithmic_entries_are_found_inside_choices(tmp_path, hole):
    path = tmp_path / "nested.yaml"
    optimizer = f"{hole}: [{{eps: {{log_uniform: [1e-9, 1e-3]}}}}, {{weight_decay: {{uniform: [0, 1]}}}}]"
    path.write_text(SPACE.replace(RATES + "warmup_steps: 10", optimizer))
    assert logarithmic_entries(search_space.read(path)) == {"objective.q", "optimizer.eps"}


def test_the_table_says_what_was_tried_and_what_was_best(searched):
    _, space, _, ranked = searched
    table = importance_table("rates", ranked, space)
    rows = {row[0]: row for row in texts(table)}
    best = ranked.ranked[0].setting.entries
    assert rows["learning_rate"][3] == f"{best['optimizer.learning_rate']:g}"
    assert rows["baseline"][2] in ("Aq_R, AE_R", "AE_R, Aq_R")
    assert rows["optimizer_weight_decay"][2].startswith("40 values, ")


def test_few_settings_have_no_importance(searched):
    _, space, frame, _ = searched
    few = ranking(frame.head(LEAST_SETTINGS - 1), Goal("success", "max"))
    table = importance_table("rates", few, space)
    assert (table.columns, re.findall(r"\d+", table.note)) == ((), [str(LEAST_SETTINGS - 1), str(LEAST_SETTINGS)])


def test_parallel_axes_show_every_setting(searched):
    _, space, _, ranked = searched
    axes = {axis.title: axis for axis in parallel_coordinates.axes_of(ranked, space)}
    assert list(axes)[-1] == "success"
    assert all(len(axis.places) == 40 for axis in axes.values())
    rates = np.array([each.setting.entries["optimizer.learning_rate"] for each in ranked.ranked])
    scaled = (np.log(rates) - np.log(rates.min())) / np.ptp(np.log(rates))
    assert np.allclose(axes["learning_rate"].places, scaled), "a logarithmic axis"
    ignored = np.array([each.setting.entries["baseline"] == "AE_R" for each in ranked.ranked])
    assert (axes["q"].places[ignored] == NONE).all(), "a baseline that ignores q has none"
    assert (axes["q"].places[~ignored] >= 0).all()
    texts_inside = [place for place, _ in axes["baseline"].ticks]
    assert texts_inside == pytest.approx([1 / 3, 2 / 3]), "two texts are as far from each other as from the ends"
    assert set(axes["baseline"].places) == set(texts_inside)


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
    places, values = zip(*scale.ticks(), strict=True)
    assert values == pytest.approx(ticks)
    assert places == pytest.approx(scale.place(np.array(values)))
    assert min(places) >= -1e-9
    assert max(places) <= 1 + 1e-9


@pytest.mark.slow  # draws a figure
def test_a_search_without_panels_has_a_report(searched, tmp_path, capsys):
    store, space, _, ranked = searched
    page = tmp_path / "page.html"
    assert write_report(ReportOptions(store.url, tmp_path / "report", html=page)).drawn
    names = {path.name for path in (tmp_path / "report" / "rates").iterdir()}
    assert names == {"parallel-coordinates.png", "parallel-coordinates.pdf"}
    told, text, title = capsys.readouterr().out, page.read_text(), importance_table("rates", ranked, space).title
    assert title in told
    assert title in text
    assert re.search(r"<figcaption.*40 settings.*success", text, re.S)
    assert "Settings of rates" in text
    assert "How many" not in told, "advice is about sweeps with panels"


@pytest.mark.long
def test_a_figure_of_a_search_that_fails_is_a_note_beside_those_of_its_panels(searched, tmp_path, capsys):
    store = Store.open(shutil.copytree(searched[0].url, tmp_path / "results"))
    panel = "panels: [{kind: curve, name: average, x: q, metric: majority_30, split: baseline}]\n"
    record = store.sweeps()[0]
    store.record_sweep(record.model_copy(update={"name": "voted", "text": SPACE + panel}))
    (tmp_path / "report" / "voted" / "parallel-coordinates.pdf").mkdir(parents=True)  # in the way of the file
    page = tmp_path / "page.html"
    assert not write_report(ReportOptions(store.url, tmp_path / "report", sweeps=["voted"], html=page)).drawn
    told = capsys.readouterr().out
    assert re.search(r"^voted: average: A._R, A._R: .*'majority_30'", told, re.M)
    assert re.search(r"^voted: parallel coordinates: .*IsADirectoryError", told, re.M)
    assert "IsADirectoryError" in page.read_text()
