"""A start that meets rows of other code says so, and computes them again if it is asked to."""

import dataclasses
from pathlib import Path

import pytest

import sweeper
from sweeper.analysis import sql
from sweeper.packs.other_code import computed_by_other_code
from sweeper.store.store import Store
from sweeper.trial import fingerprint
from sweeper.trial.record import canonical
from sweeper.trial.trial import trial_id
from tasks import coloring
from tests.processes import python
from tests.results import PROVENANCE, failure, record, result
from tests.tiny_sweeps import TIMINGS, with_seeds
from tests.trials import coloring_trial

CODE = fingerprint.captured()
MENDED = CODE.model_copy(update={"always": CODE.always | {"sweeper/training/trainer.py": "0"}})


def _commit(store: Store, seed: int, **provenance) -> None:
    store.commit(result({"seed": seed}, provenance=PROVENANCE.model_copy(update=provenance), timings=TIMINGS))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A row of this code, one of other code, which a start has recorded, and one without a fingerprint."""
    store = Store.open(tmp_path / "results")
    _commit(store, 0, code=CODE)
    _commit(store, 1, code=MENDED)
    store.record_sweep(record("mended", code=MENDED))
    _commit(store, 2, code=fingerprint.Code())
    return store


def planned(store: Store, seeds: int) -> sweeper.SweepPlan:
    space = Path(store.root).parent / "space.yaml"
    space.write_text(with_seeds(seeds))
    return sweeper.plan(sweeper.read_space(space), store.root)


@pytest.mark.slow
def test_rows_of_other_code_are_told_and_kept(store):
    plan = planned(store, 4)
    assert (len(plan.settled), len(plan.pending), plan.superseded) == (3, 1, [])
    differs = "what differs: sweeper/training/trainer.py"
    assert plan.other_code.startswith(f"2 rows are of other code ({differs}): kept")
    assert f"  {plan.other_code}" in str(plan).splitlines()


@pytest.mark.slow
def test_failures_of_other_code_are_tried_again_and_failures_of_this_code_are_kept(store):
    for seed, code in ((5, CODE), (6, MENDED)):
        provenance = PROVENANCE.model_copy(update={"code": code})
        store.commit(dataclasses.replace(failure({"seed": seed}), provenance=provenance))
    plan = planned(store, 7)
    again, kept = plan.other_code.splitlines()
    assert again.startswith("1 row is of other code (what differs: sweeper/training/trainer.py): moved to superseded/")
    assert kept.startswith("2 rows are of other code (")
    assert [plan.trials[key].seed for key in plan.superseded] == [6]
    assert sorted(plan.settled.values()) == ["failed", *["finished"] * 3]
    assert [plan.trials[key].seed for key in plan.pending] == [3, 4, 6]


@pytest.mark.slow  # a process of its own
def test_rows_of_other_code_are_computed_again_if_that_is_asked_for(store):
    assert planned(store, 1).other_code is None, "rows of this code are nothing to speak of"
    planned(store, 3)
    options = ("--dry-run", "--recompute-other-code", "--results", store.root)
    done = python("-m", "sweeper.run", Path(store.root).parent / "space.yaml", *options)
    assert done.returncode == 0, done.stderr
    assert "  1 done · 2 to run" in done.stdout.splitlines()
    assert len(store.committed()) == 3  # this was a dry run


def test_rows_of_another_objective_are_held_against_the_code_of_that_objective(tmp_path):
    trials = [coloring_trial(objective=objective) for objective in ({"q": 3, "m": 2}, {"name": "cvar", "m": 2})]
    store = Store.open(tmp_path)
    for trial in trials:
        store.commit(result(provenance=PROVENANCE.model_copy(update={"code": CODE}), trial=canonical(trial)))
    planned = {trial_id(trial): trial for trial in trials}
    assert len(store.seals(planned)) == 2
    assert computed_by_other_code(planned, store.seals(planned), CODE) == []


@pytest.mark.slow
def test_trials_are_those_of_the_current_versions_and_all_trials_are_all(store, monkeypatch):
    def counts() -> tuple[int, ...]:
        frames = (sql.frame(f"select count(*) n from {view}", store.root) for view in ("trials", "all_trials"))
        return tuple(int(frame["n"][0]) for frame in frames)

    assert counts() == (3, 3)
    monkeypatch.setattr(coloring.Task, "VERSION", 2)
    assert counts() == (0, 3)
    _commit(store, 0, code=CODE)
    assert counts() == (1, 4)
    rows = sql.frame("select distinct task_version v from all_trials order by v", store.root)
    assert rows["v"].tolist() == [1, 2]
    monkeypatch.setattr("sweeper.trial.trial.NUMERICS_VERSION", 2)
    assert counts() == (0, 4)
