"""A search ends with its best setting, its rank, and the commands that train exactly this setting with other seeds."""

import dataclasses
import functools
import json
import re

import pytest

from sweeper.analysis.best_setting import ending
from sweeper.analysis.ranking import ranking, repetition
from sweeper.analysis.results import named_frame, with_variables
from sweeper.analysis.table import texts, value_text
from sweeper.space import search_space
from sweeper.store.store import Store
from tests.filled_stores import commit
from tests.tiny_sweeps import with_seeds

SPACE = (
    with_seeds(2)
    .replace("q: 3", "q: {log_uniform: [1, 30]}")
    .replace("warmup_steps: 10", "learning_rate: {log_uniform: [1e-6, 1e-1]}, warmup_steps: 10")
    + "search: {method: random, trials: 6, metric: loss, mode: min}\n"
)

# Each has what a row's specification may leave out, or write in another way than the space.
SPACES = {
    "leaves": SPACE,
    "nested": SPACE.replace(
        "learning_rate: {log_uniform: [1e-6, 1e-1]}, warmup_steps: 10",
        "choice: [{eps: 1e-3}, {eps: {uniform: [0.1, 0.2]}, beta1: 0.5}]",
    ),
    "unwritten": SPACE.replace("  steps: 300", "  precision: {choice: [float32, tensorfloat32]}\n  steps: 300"),
    "variants": SPACE
    + """
variants:
  - {}
  - {model: {width: 8}, optimizer: {learning_rate: {choice: [0.5, 0.25]}}, baseline: AE_R}
  - {model: {name: deep_sets}}
""",
    "variables": SPACE.replace("warmup_steps: 10", "eps: {formula: variables.x * variables.pair.a}")
    + "variables: {x: {log_uniform: [1e-6, 1e-4]}, pair: {choice: [{a: 1}, {a: {choice: [2, 3, 4]}, b: inf}]}}\n",
}


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """Makes rows of all trials of a space, with two seeds of each setting; the third setting has the lowest loss."""
    folder = tmp_path_factory.mktemp("searched")

    @functools.cache
    def committed(text, overrides):
        path = folder / str(len(list(folder.iterdir()))) / "rates.yaml"
        path.parent.mkdir()
        path.write_text(text)
        space = search_space.read(path, overrides)
        store = Store.open(path.parent / "results")
        for trial in space.expand().trials:
            commit(store, trial, metrics={"loss": 0.0, "success": 0.5})
        return space, with_variables(store.trials().to_pandas(), space.expand().variables)

    def made(text, overrides=(), losses=(5.0, 4.0, 1.0, 3.0, 6.0, 2.0)):
        space, rows = committed(text, overrides)
        reached = {
            key: losses[place // 2] + 0.1 * (place % 2)
            for place, key in enumerate(space.expand().trial_ids)
            if losses[place // 2] is not None
        }
        rows = rows[rows["trial_id"].isin(reached)]
        return space, rows.assign(loss=rows["trial_id"].map(reached))

    return made


@pytest.mark.slow
@pytest.mark.parametrize("text", SPACES.values(), ids=SPACES)
def test_the_space_of_the_best_setting_has_its_trials(searched, tmp_path, text):
    for best in (0, 5):
        losses = [2.0 + place for place in range(6)]
        losses[best] = 1.0
        space, rows = searched(text, losses=tuple(losses))
        path = tmp_path / "again.yaml"
        path.write_text(repetition("rates", ranking(named_frame(rows), space.search.goal), {"lanes": 2}))
        again = search_space.read(path)
        assert (again.name, again.resources.lanes) == ("rates-best", 2)
        assert [int(trial.seed) for trial in again.expand().trials] == [2, 3, 4, 5, 6]
        seeds = search_space.read(path, ("trial.seed={choice: [0, 1]}",))
        assert seeds.expand().trial_ids == space.expand().trial_ids[2 * best : 2 * best + 2]


@pytest.mark.slow
def test_variables_stand_in_the_table_and_beside_the_best_setting(searched):
    space, rows = searched(SPACES["variables"])
    of_best = space.expand().variables[space.expand().trial_ids[4]]
    table, lines = ending(rows, space, (), "results", None)
    assert {"variables_x", "variables_pair_a"} <= set(table.columns)
    assert table["variables_x"][0] == of_best["variables.x"]
    assert f"  variables_x: {value_text(of_best['variables.x'])}" in lines


@pytest.mark.slow
def test_what_is_said_of_the_best_setting(searched):
    space, rows = searched(SPACE, losses=(5.0, 4.0, 1.0, 3.0, 6.0, None))
    best = space.expand().trials[4]
    table, lines = ending(rows, space, (), "my results", "10.0.0.1:6379")
    assert re.findall(r"loss|[\d.]+", lines[0]) == ["loss", "2", "1.05", "0.07", "1", "5"], "rank 1 of 5 settings"
    assert lines[1:3] == [f"  q: {best.objective.q:g}", f"  learning_rate: {best.optimizer.learning_rate:g}"]
    assert lines[-2].endswith("query best rates --yaml --results 'my results' > rates-best.yaml")
    assert lines[-1].endswith("run rates-best.yaml --results 'my results' --address 10.0.0.1:6379")
    assert [row[0] for row in texts(table)] == ["1", "2", "3", "4", "5"]
    assert re.findall(r"rates|loss|\d+", table.attrs["title"])[:3] == ["rates", "5", "loss"]


def test_the_best_setting_names_every_hole_and_the_table_has_what_panels_draw(searched):
    """One rate for all settings is a hole as well, and `margin` is a metric of no table by itself."""
    panels = (
        "panels: [{kind: curve, name: A, x: q, metric: margin, series: [{label: all}]}, "
        "{kind: votes, name: B, split: q}, {kind: history, name: C, metric: train_loss, split: q}]\n"
    )
    space, rows = searched(SPACE.replace("log_uniform: [1e-6, 1e-1]", "choice: [0.01]") + panels)
    rows["extra_metrics"] = [json.dumps({"margin": 0.25})] * len(rows)
    table, lines = ending(rows, space, (), "results", None)
    assert [line.partition(":")[0] for line in lines[1:3]] == ["  q", "  learning_rate"]
    assert "  learning_rate: 0.01" in lines
    titles = [*table.columns]
    assert "margin" in titles
    assert "votes" not in titles, "the numbers of votes of the protocol are no metric"


def test_a_search_for_two_metrics_names_its_pareto_front(searched):
    space, rows = searched(SPACE, losses=(5.0, 4.0, 1.0, 3.0, 6.0, 2.0))
    rows["success"] = [0.9 if 2 <= loss < 3 else 0.5 - loss / 100 for loss in rows["loss"]]
    search = space.search.model_copy(update={"metric": ("loss", "success"), "mode": ("min", "max")})
    _, lines = ending(rows, dataclasses.replace(space, search=search), (), "results", None)
    assert lines[-1].endswith(" 1, 2")


def test_settings_that_were_stopped_early_are_said_to_be_so(searched):
    space, rows = searched(SPACE)
    worst = set(rows.nlargest(4, "loss")["trial_id"])  # of two settings
    rows = rows.assign(status=rows["status"].mask(rows["trial_id"].isin(worst), "stopped"))
    table, lines = ending(rows, space, (), "results", None)
    for text in (lines[0], table.attrs["note"]):
        assert "2 settings stopped early" in text
        assert "without a rank" not in text


def test_settings_with_fewer_seeds_have_no_rank_and_equal_ones_share_it(searched):
    space, rows = searched(SPACE, losses=(1.0, 1.0, 2.0, 3.0, 4.0, 5.0))
    without = rows[rows["loss"] != 2.1]
    _, lines = ending(without, space, (), "results", None)
    # Rank 1 of 5 settings, equal to 1 other; 1 more without a rank.
    assert re.findall(r"\d+", lines[0].rpartition("(")[2]) == ["1", "5", "1", "1"]


def test_a_grid_names_no_winner(searched):
    text = SPACE.replace("log_uniform: [1, 30]", "choice: [1, 2, 3]").replace(
        "log_uniform: [1e-6, 1e-1]", "choice: [1, 2]"
    )
    space, rows = searched(text.replace("method: random, trials: 6", "method: grid"))
    table, lines = ending(rows, space, (), "results", None)
    assert lines == []
    assert "rank" not in [*table.columns]
