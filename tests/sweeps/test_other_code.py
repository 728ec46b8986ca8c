"""A start that meets rows of other code says so, and computes them again if it is asked to."""

import dataclasses
from pathlib import Path

import pytest

from sweeper.analysis import sql
from sweeper.packs.other_code import computed_by_other_code
from sweeper.store.store import Store
from sweeper.trial import fingerprint, trial_spec
from sweeper.trial.trial_spec import canonical, trial_id
from tasks import coloring
from tests.processes import python
from tests.results import PROVENANCE, failure, result
from tests.tiny_sweeps import TIMINGS, with_seeds
from tests.trials import coloring_trial

CODE = fingerprint.captured()
MENDED = CODE.model_copy(update={"numerics": "before the mend"})


def _commit(store: Store, seed: int, **provenance) -> None:
    store.commit(result({"seed": seed}, provenance=PROVENANCE.model_copy(update=provenance), timings=TIMINGS))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """One row of this code, and two of other code."""
    store = Store.open(tmp_path / "results")
    _commit(store, 0, code=CODE)
    _commit(store, 1, code=MENDED)
    _commit(store, 2, code=None, commit="abcdef0123", dirty=True)
    (tmp_path / "space.yaml").write_text(with_seeds(4))
    return tmp_path / "results"


def _planned(results: Path, *options: str) -> list[str]:
    done = python("-m", "sweeper.run", results.parent / "space.yaml", "--dry-run", "--results", results, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_rows_of_other_code_are_told_and_kept(results):
    lines = _planned(results)
    assert (
        "  2 rows are of other code (commit abcdef0 with changes, commit c0ffeec): "
        "kept; --recompute-other-code computes them again"
    ) in lines
    assert "  3 done · 1 to run" in lines


@pytest.mark.slow
def test_failures_of_other_code_are_tried_again_and_failures_of_this_code_are_kept(results):
    store = Store.open(results)
    for seed, code in ((4, CODE), (5, MENDED)):
        provenance = PROVENANCE.model_copy(update={"code": code})
        store.commit(dataclasses.replace(failure({"seed": seed}), provenance=provenance))
    (results.parent / "space.yaml").write_text(with_seeds(6))
    lines = _planned(results)
    assert "  1 failed row is of other code (commit c0ffeec): moved to superseded/ and computed again" in lines
    assert any(line.startswith("  2 rows are of other code") and "kept" in line for line in lines)
    assert "  3 done · 1 failed · 2 to run" in lines


@pytest.mark.slow
def test_rows_of_other_code_are_computed_again_if_that_is_asked_for(results):
    lines = _planned(results, "--recompute-other-code")
    assert any(line.endswith("moved to superseded/ and computed again") for line in lines)
    assert "  1 done · 3 to run" in lines
    assert len(Store.open(results).committed()) == 3  # this was a dry run


@pytest.mark.slow
def test_rows_of_this_code_are_nothing_to_speak_of(tmp_path):
    (tmp_path / "space.yaml").write_text(with_seeds(4))
    _commit(Store.open(tmp_path / "results"), 0, code=CODE)
    assert not any("other code" in line for line in _planned(tmp_path / "results"))


def test_rows_of_another_objective_are_held_against_the_code_of_that_objective(tmp_path):
    trials = [coloring_trial(objective=objective) for objective in ({"q": 3, "m": 2}, {"name": "cvar", "m": 2})]
    store = Store.open(tmp_path)
    for trial in trials:
        store.commit(result(provenance=PROVENANCE.model_copy(update={"code": CODE}), trial=canonical(trial)))
    planned = {trial_id(trial): trial for trial in trials}
    assert len(store.seals(planned)) == 2
    assert computed_by_other_code(planned, store.seals(planned), CODE) == []


def test_trials_are_those_of_the_current_versions_and_all_trials_are_all(results, monkeypatch):
    def counts() -> tuple[int, int]:
        return tuple(int(sql.frame(f"select count(*) n from {v}", results)["n"][0]) for v in ("trials", "all_trials"))

    assert counts() == (3, 3)
    monkeypatch.setattr(coloring.Task, "VERSION", 2)
    assert counts() == (0, 3)
    _commit(Store.open(results), 0, code=CODE)
    assert counts() == (1, 4)
    rows = sql.frame("select distinct task_version v from all_trials order by v", results)
    assert rows["v"].tolist() == [1, 2]
    monkeypatch.setattr(trial_spec, "NUMERICS_VERSION", 2)
    assert counts() == (0, 4)
