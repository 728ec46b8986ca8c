"""Stored networks are evaluated by other protocols: what is planned, what is committed, and what a repetition does."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sweeper.analysis import sql
from sweeper.analysis.figures.lines import pooled
from sweeper.analysis.results import Results
from sweeper.learned_algorithms import evaluation
from sweeper.learned_algorithms.metrics import metric_named
from sweeper.packs.network_evaluation import EvaluationRun, ProtocolError, evaluation_plan
from sweeper.packs.pack_run import Destination
from sweeper.packs.packing import Pack
from sweeper.store.store import Store
from sweeper.sweeps import evaluation as sweep_evaluation
from sweeper.trial import provenance
from sweeper.trial.trial import trial_id
from tests.damage import flipped
from tests.results import failure, result
from tests.trials import coloring_trial
from tests.whole_packs import run_pack

pytestmark = pytest.mark.slow

TRIALS = tuple(coloring_trial(seed=seed) for seed in range(3))
IDS = tuple(map(trial_id, TRIALS))
ORIGIN = provenance.capture("test")
MENDED = ORIGIN.model_copy(update={"code": ORIGIN.code.model_copy(update={"always": {}})})
PROTOCOL = {"seeds": 20, "votes": (1, 5)}


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A store of three trained trials."""
    folder = tmp_path_factory.mktemp("trained")
    run_pack(Pack(TRIALS), Destination(Store.open(folder), ORIGIN))
    return folder


@pytest.fixture(scope="module")
def evaluated(trained, tmp_path_factory) -> Path:
    """The same store, whose networks are evaluated by `PROTOCOL`."""
    folder = tmp_path_factory.mktemp("evaluated") / "results"
    shutil.copytree(trained, folder)
    assert evaluate(Store.open(folder)) == 3
    return folder


@pytest.fixture
def store(trained, tmp_path) -> Store:
    """A copy of `trained`."""
    return Store.open(shutil.copytree(trained, tmp_path / "results"))


@pytest.fixture
def full(evaluated, tmp_path) -> Store:
    """A copy of `evaluated`."""
    return Store.open(shutil.copytree(evaluated, tmp_path / "full"))


def planned(store, trial_ids=IDS, protocol=PROTOCOL, origin=ORIGIN, recompute=False):
    return evaluation_plan(store, trial_ids, protocol, lambda: origin.code, None, recompute)


def finished(run):
    while run.advance().phase != "done":
        pass
    return run.rows


def evaluate(store, origin=ORIGIN, **options):
    """Evaluates all that is planned; how many trials that were."""
    work, protocol = planned(store, origin=origin, **options).plan.work, options.get("protocol", PROTOCOL)
    return sum(len(finished(EvaluationRun(each, protocol, store, origin))) for each in work)


def count(store):
    return sql.frame("select count(*) as n from evaluations", store)["n"].item()


def test_the_protocol_of_the_training_gives_the_numbers_of_the_row(store):
    assert evaluate(store, protocol={}) == 3
    both = sql.table(
        "select e.success - t.success as success, e.loss - t.loss as loss, e.majority_3 - t.majority_3 as majority, "
        "e.train_loss - t.train_loss as train_loss from evaluations e join trials t using (trial_id)",
        store,
    )
    assert both.to_pylist() == [{"success": 0.0, "loss": 0.0, "majority": 0.0, "train_loss": 0.0}] * 3


def test_an_evaluation_by_the_trials_own_protocol_keeps_quantiles_of_its_outcomes(full):
    assert Results.of_store(full).quantiles(IDS[0], "loss") is None, "the protocol is another"
    assert evaluate(full, protocol={}) == 3
    results = Results.of_store(full)
    loss = results.outcomes(IDS[0], "loss")
    np.testing.assert_array_equal(results.quantiles(IDS[0], "loss"), np.sort(loss))
    together = np.concatenate([results.outcomes(key, "loss") for key in IDS])
    assert results.of_evaluations().quantiles(IDS[0], "loss") is None, "the rows are of several protocols"
    metric, stripped = metric_named("loss_p95_pooled"), replace(results, outcomes=lambda trial_id, name: None)
    assert pooled(results, IDS, metric) == pytest.approx(np.percentile(together, 95))
    assert pooled(stripped, IDS, metric) == pytest.approx(np.percentile(together, 95), rel=0.02)
    assert pooled(stripped, [*IDS, "another"], metric) is None
    values, counts = stripped.distribution(IDS[0], "loss")
    np.testing.assert_array_equal(np.repeat(values, counts), np.sort(loss), "a histogram needs no more")
    assert stripped.distribution("another", "loss") is None


def test_another_protocol_gives_rows_of_its_own(full):
    rows = sql.table("from evaluations order by seed", full).to_pylist()
    assert [row["trial_id"] for row in rows] == list(IDS)
    for row in rows:
        assert (row["evaluation_seeds"], row["evaluation_votes"]) == (20, [1, 5])
        assert row["majority_1"] == pytest.approx(row["success"])
        assert row["majority_5"] is not None
        assert row["evaluation_seconds"] > 0
        assert row["fingerprint"] == ORIGIN.fingerprint(TRIALS[0])
    assert sql.frame("select count(*) as n from trials", full)["n"].tolist() == [3]
    assert evaluate(full, protocol={"seeds": 10}) == 3
    counts = sql.frame("select trial_id, count(*) as n from evaluations group by all", full)
    assert counts["n"].tolist() == [2, 2, 2]


def test_what_is_evaluated_is_not_evaluated_again(store):
    (work,) = planned(store).plan.work
    run = EvaluationRun(work, PROTOCOL, store, ORIGIN)
    progress = run.advance()
    assert (progress.phase, len(progress.rows), progress.step) == ("evaluating", 1, 300 // 3)
    assert evaluate(store) == 2, "the run ended before its time"
    assert evaluate(store) == 0
    again = EvaluationRun(work, PROTOCOL, store, ORIGIN)
    before = {name: store.read_bytes(name) for name in store.listing("evaluations")}
    assert finished(again) == dict.fromkeys(IDS, "finished")
    assert {name: store.read_bytes(name) for name in store.listing("evaluations")} == before


def test_evaluations_of_other_code_are_kept_or_made_again(full, monkeypatch):
    plan = planned(full, origin=MENDED)
    assert set(plan.other_code) == set(IDS)
    assert not plan.plan.work
    measured = evaluation.evaluate
    monkeypatch.setattr(
        evaluation, "evaluate", lambda trial, network: (measured(trial, network)[0] | {"new_metric": 7.0}, {})
    )
    assert evaluate(full, origin=MENDED, recompute=True) == 3
    assert sql.frame("select new_metric from evaluations", full)["new_metric"].tolist() == [7.0] * 3


def test_networks_that_other_code_has_trained_are_told(store):
    other = result({"seed": 3}, provenance=MENDED)
    store.commit(other)
    key = trial_id(other.trial)
    assert list(planned(store, (*IDS, key)).other_networks) == [key]
    counts, told = sweep_evaluation.plan_evaluation([*IDS, key], PROTOCOL, store.root).lines()
    assert counts.startswith("evaluation: 4 networks")
    assert told.strip().startswith("1 network is of other code")


def test_trials_without_a_network_are_counted_by_reason(store):
    store.commit(result({"seed": 7}, network=None))
    store.commit(failure({"seed": 8}))
    others = [trial_id(result({"seed": seed}).trial) for seed in (7, 8, 9)]
    plan = planned(store, [*IDS, *others])
    assert list(plan.plan.trials) == list(IDS)
    assert sorted(plan.left_out.values()) == [1, 1, 1]
    assert {reason.split()[0] for reason in plan.left_out} == {"failed,", "is", "has"}


def spoil(store, key):
    """Flip a bit of a network; a start does not read so far."""
    name = store.seals([key])[key].name
    data = store.read_bytes(name)
    store.write_bytes(name, flipped(data, 50))


def test_a_damaged_network_is_passed_over_and_its_trial_is_set_aside(store):
    (work,) = planned(store).plan.work
    spoil(store, IDS[1])
    assert finished(EvaluationRun(work, PROTOCOL, store, ORIGIN)) == {IDS[0]: "finished", IDS[2]: "finished"}
    assert planned(store).left_out == {"is not committed": 1}


def test_evaluations_of_an_old_network_do_not_count(full):
    full.supersede(IDS[:1])
    assert count(full) == 2
    full.commit(result({"seed": 0}))
    assert count(full) == 2
    assert [len(work.pending) for work in planned(full).plan.work] == [1]


def test_a_protocol_that_makes_no_sense_is_refused(store):
    with pytest.raises(ProtocolError, match=r"30.* 20"):
        planned(store, protocol={"seeds": 20, "votes": (30,)})


def test_a_trial_of_other_versions_is_left_out(store, monkeypatch):
    monkeypatch.setattr(type(TRIALS[0].task), "VERSION", 2)
    (reason,) = planned(store).left_out
    assert "another version" in reason


# Damage
