"""The end of a successive halving, and the searches of its trials in SQL."""

import dataclasses

import pytest

from sweeper.analysis import sql
from sweeper.analysis.best_setting import ending
from sweeper.space import search_space
from sweeper.store.store import Store, SweepRecord
from tests.results import PROVENANCE, result

SPACE = """
trial:
  task: {name: coloring, vertices: 5}
  model: {name: transformer, width: 4, key_size: 4}
  baseline: Aq_R
  objective: {q: {choice: [2, 4]}, m: 2}
  steps: 1000
  seed: {seeds: 2}
search: {method: halving, starts: 3, rungs: [{steps: 500, keep: 1}]}
"""


@pytest.fixture
def halved(tmp_path):
    """Two searches at q = 2 with a winner each, of which a start costs 10 s and a winner 30 s; one start at q = 4."""
    path = tmp_path / "basins.yaml"
    path.write_text(SPACE)
    space = search_space.read(path)
    store = Store.open(tmp_path / "results")
    trials = space.expand().trials
    for trial in trials[:7]:
        wins = trial.seed in (1, 5)
        metrics = {"success": 0.5 + trial.seed / 100, "success_p5": 0.25, "loss": 0.5}
        committed = result(metrics=metrics, status="finished" if wins else "stopped")
        timings = {"cpu_seconds": 30.0 if wins else 10.0, "steps_done": 500.0}
        store.commit(dataclasses.replace(committed, trial=trial, timings=timings))
    ids = space.expand().trial_ids
    store.record_sweep(SweepRecord(name="basins", text=SPACE, overrides=(), trial_ids=ids, provenance=PROVENANCE))
    return space, store


def test_the_end_names_winners_and_the_cost_of_all_trials(halved):
    space, store = halved
    table, lines = ending(store.trials().to_pandas(), space, "results", None)
    assert [row[1:3] for row in table.rows] == [(2, "finished"), (4, "stopped"), (1, "stopped")]
    assert lines == [
        "cost of the search: 2 min of CPU time for 2 winners, all 7 trials included",
        "  q 2, search 0: seed 1 wins with success 0.51, success_p5 0.25, loss 0.5 and 30 s of its own; "
        "50 s of CPU for 3 trials",
        "  q 2, search 1: seed 5 wins with success 0.55, success_p5 0.25, loss 0.5 and 30 s of its own; "
        "50 s of CPU for 3 trials",
        "  q 4, search 0: no winner; 10 s of CPU for 1 trial",
    ]


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
    text = SPACE.replace("search: {method: halving, starts: 3, rungs: [{steps: 500, keep: 1}]}", "")
    record = SweepRecord(name="grid", text=text, overrides=(), trial_ids=("0" * 20,), provenance=PROVENANCE)
    store.record_sweep(record)
    assert sql.frame("select search from sweeps where sweep = 'grid'", store)["search"].isna().all()
