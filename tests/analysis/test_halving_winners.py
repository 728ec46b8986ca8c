"""The end of a successive halving, and the searches of its trials in SQL."""

import dataclasses
import shutil

import pytest

from sweeper.analysis import halving_winners, ranking, ready_questions, report_sources, sql
from sweeper.analysis.best_setting import ending
from sweeper.analysis.results import Results
from sweeper.space import search_space
from sweeper.store.store import Store
from tests.filled_stores import commit, plan
from tests.results import failure, result
from tests.tiny_sweeps import with_seeds

SPACE = (
    with_seeds(2).replace("q: 3", "q: {choice: [2, 4]}").replace("steps: 300", "steps: 1000")
    + "search: {method: halving, starts: 3, rungs: [{steps: 500, keep: 1}]}\n"
)


def ended(trial, status):
    """The result of a trial; training seeds 1 and 5 have the lowest loss at step 500, but not at the end."""
    curves = [(500, "train_loss", 0.1 if trial.seed in (1, 5) else 0.2), (500, "other", 0.0)]
    if status == "finished":
        curves.append((1000, "train_loss", 0.15 if trial.seed in (1, 5) else 0.05))
    cpu_seconds, steps = (30.0, 1000) if status == "finished" else (10.0, 500)
    timings = {"cpu_seconds": cpu_seconds, "steps_done": steps}
    metrics = {"success": 0.5 + trial.seed / 100, "success_p5": 0.25, "loss": 0.5}
    return dataclasses.replace(result(metrics=metrics, status=status, curves=curves), trial=trial, timings=timings)


@pytest.fixture(scope="module")
def ended_search(tmp_path_factory):
    folder = tmp_path_factory.mktemp("halved")
    path = folder / "basins.yaml"
    path.write_text(SPACE)
    space = search_space.read(path)
    store = Store.open(folder / "results")
    for trial in space.expand().trials[:7]:
        store.commit(ended(trial, "finished" if trial.seed in (1, 5) else "stopped"))
    plan(store, space.expand().trial_ids, "basins", SPACE)
    return space, store


@pytest.fixture
def halved(ended_search, tmp_path):
    """Two searches at q = 2 with a winner each, of which a start costs 10 s and a winner 30 s; one start at q = 4."""
    space, store = ended_search
    return space, Store.open(shutil.copytree(store.url, tmp_path / "results"))


def test_sql_sums_what_a_search_costs(halved):
    _, store = halved
    answer = sql.frame(
        "select search, count(*) as starts, sum(cpu_seconds) as seconds from sweeps join trials using (trial_id) "
        "where sweep = 'basins' group by search order by search",
        store,
    )
    assert answer.to_dict("list") == {"search": [0, 1, 2], "starts": [3, 3, 1], "seconds": [50.0, 50.0, 10.0]}


def test_trials_of_other_sweeps_have_no_search(halved):
    _, store = halved
    plan(store, ["0" * 20], "grid", SPACE[: SPACE.index("search:")])
    assert sql.frame("select search from sweeps where sweep = 'grid'", store)["search"].isna().all()


def test_the_winner_is_trained_again_with_seeds_that_no_start_had(ended_search, tmp_path):
    space, store = ended_search[0], Store.open(tmp_path)
    starts = space.expand().trials[:3]
    for trial in starts:
        store.commit(ended(trial, "finished" if trial.seed == 1 else "stopped"))
    plan(store, space.expand().trial_ids, "basins", SPACE)
    again = search_space.of_text("again.yaml", ready_questions.best_as_space(store, "basins"))
    assert {trial.seed for trial in starts}.isdisjoint(trial.seed for trial in again.expand().trials)


@pytest.fixture
def overtaken(halved):
    """The same store, after another sweep has trained the loser with training seed 0 to the end."""
    space, store = halved
    loser = space.expand().trials[0]
    assert loser.seed == 0
    store.commit(ended(loser, "finished"))
    return space, store


def test_what_another_sweep_has_finished_is_no_winner(overtaken):
    space, store = overtaken
    trials = store.trials().to_pandas()
    elsewhere = halving_winners.finished_elsewhere(trials, space, store)
    assert elsewhere == {space.expand().trial_ids[0]}
    table, lines = ending(trials, space, elsewhere, "results", None)
    assert [*table.iloc[:, 1:3].itertuples(index=False, name=None)] == [(2, "finished"), (3, "stopped"), (1, "stopped")]
    assert len(lines) == 1, "which says that the trial is left out"


def test_sql_names_the_winners(overtaken):
    _, store = overtaken
    answer = sql.frame("select winner, seed, status from sweeps join trials using (trial_id) order by q, seed", store)
    assert answer["winner"].to_list() == [False, True, False, False, False, True, False]
    assert answer["status"][0] == "finished"


def test_a_search_with_a_trial_before_its_rung_has_no_winner(halved):
    space, store = halved
    trials = space.expand().trials
    store.commit(ended(trials[6], "finished"))  # the other two of its search have no row
    assert halving_winners.winners_of(space, halving_winners.searches_of(space), store) == {
        space.expand().trial_ids[1],
        space.expand().trial_ids[5],
    }


def test_a_trial_that_failed_before_the_rung_gives_way(halved):
    space, store = halved
    trials, ids = space.expand().trials, space.expand().trial_ids
    for trial, step in ((trials[7], 400), (trials[8], 700)):
        curves = [(step // 500 * 500 or 400, "train_loss", 0.01)]
        commit(store, trial, failure(), curves=curves, timings={"steps_done": step})
    assert halving_winners.winners_of(space, halving_winners.searches_of(space), store) == {ids[1], ids[5], ids[8]}


def test_figures_and_rankings_leave_out_what_another_sweep_has_finished(overtaken):
    space, store = overtaken
    (source,) = report_sources.sources(store, Results.of_store(store), [], ["basins"], panels_needed=False)
    assert sorted(source.results.trials["seed"]) == [1, 5]
    assert source.remark.startswith("1 trial ")
    (again,) = report_sources.sources(store, Results.of_store(store), [space.path], [], panels_needed=False)
    assert sorted(again.results.trials["seed"]) == [1, 5]
    (record,) = store.sweeps()
    assert len(ranking.trials_of(store, record)) == 6
