"""One pack, trained for real in this process: what it commits, and what interruption and packing do to its numbers.

Nearly all of these packs have two lanes of one structure, so that the module compiles their programs once.
"""

import dataclasses
import json
import math
import random
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import Field

from sweeper.learned_algorithms import evaluation
from sweeper.packs import checkpoint, checkpointed_trials, pack_run, plan
from sweeper.packs.pack_run import Destination, PackRun
from sweeper.packs.packing import Pack
from sweeper.space.early_stopping import EarlyStopping
from sweeper.store.store import NoNetworkError, Store, StoreError
from sweeper.training import arithmetic
from sweeper.training.kind import trainer_of
from sweeper.trial import provenance
from sweeper.trial.record import Traced
from sweeper.trial.trial import trial_id
from tasks.coloring import Task as Coloring
from tests.trials import coloring_trial
from tests.whole_packs import run_pack

pytestmark = pytest.mark.slow  # the first of them compiles for all

TRIALS = (coloring_trial(), coloring_trial(seed=1, baseline="AE_R", objective={"m": 2}))
PACK = Pack(TRIALS)
EXPLODING = coloring_trial(seed=5, optimizer={"learning_rate": 1e30, "warmup_steps": 10})
METRICS = ["success", "success_p5", "sampled", "loss", "loss_p95", "variance", "train_loss"]
ORIGIN = provenance.capture("test")
PGPE = {"optimizer": {"name": "pgpe", "population": 4}}


def _run(store: Store, pack: Pack = PACK, pending=None, **options) -> PackRun:
    given = Destination(store, ORIGIN, checkpoint_seconds=0.0)
    return pack_run.PackRun(pack, pending or pack.trial_ids, given, **options)


def _finish(run: PackRun):
    while (progress := run.advance()).phase != "done":
        pass
    return progress


def _rows(store: Store) -> dict[str, dict[str, Any]]:
    return {row["trial_id"]: row for row in store.trials().to_pylist()}


def _metrics(store: Store) -> dict[str, dict[str, Any]]:
    rows = store.trials().select([*METRICS, "extra_metrics", "trial_id"]).to_pylist()
    return {row.pop("trial_id"): row for row in rows}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Store:
    """A pack of two trials that nothing has interrupted."""
    store = Store.open(tmp_path_factory.mktemp("undisturbed"))
    run_pack(PACK, Destination(store, ORIGIN))
    return store


def test_every_trial_becomes_a_row_with_curves_and_outcomes(undisturbed):
    rows = _rows(undisturbed)
    assert set(rows) == set(PACK.trial_ids)
    for row in rows.values():
        assert (row["status"], row["lanes"], row["steps_done"]) == ("finished", 2, 300)
        assert 0 <= row["success"] <= 1
        assert row["train_seconds"] > 0
        assert row["peak_memory_bytes"] > 2**20
    curves = undisturbed.curves().to_pandas()
    assert sorted(curves["step"].unique()) == [100, 200, 300]
    assert set(curves["metric"]) == {"train_loss", "mean_loss"}
    means = curves[curves["metric"] == "mean_loss"].groupby("step")["value"].mean()
    assert means[300] < means[100], "training lowers the loss"
    outcomes = undisturbed.outcomes().to_pandas()
    assert len(outcomes) == 2 * 12
    for name, group in outcomes.groupby("trial_id"):
        np.testing.assert_allclose(group["success"].mean(), rows[name]["success"], rtol=1e-3)


# What changes no bit


def test_an_interruption_anywhere_changes_no_bit(undisturbed, tmp_path):
    """A new run after every single stride: between chunks, after training, and between two commits."""
    store, strides = Store.open(tmp_path), 0
    while len(done := store.committed()) < len(TRIALS):
        _run(store, PACK, [name for name in PACK.trial_ids if name not in done]).advance()
        strides += 1
    assert strides == 3 + 2  # three chunks and two commits: nothing was done twice
    assert _metrics(store) == _metrics(undisturbed)
    assert store.read_bytes(f"checkpoints/{PACK.pack_id}.ckpt") is None


@pytest.mark.parametrize("packs", [[TRIALS[::-1]], [(t,) for t in TRIALS]])
def test_neither_the_place_in_a_pack_nor_the_number_of_lanes_changes_a_bit(undisturbed, tmp_path, packs):
    store = Store.open(tmp_path)
    for trials in packs:
        run_pack(Pack(trials), Destination(store, ORIGIN, networks=False))
    assert _metrics(store) == _metrics(undisturbed)
    assert {row["lanes"] for row in _rows(store).values()} == {len(packs[0])}
    for seal in store.seals().values():
        with pytest.raises(NoNetworkError):
            store.weights(seal)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))])
def test_no_step_is_repeated_when_seeds_values_and_lanes_of_the_space_change(tmp_path, seed):
    """Every start plans other trials in other packs, and dies while several of them train."""
    rng, store = random.Random(seed), Store.open(tmp_path)
    every = [coloring_trial(seed=n, objective={"q": q, "m": 2}) for q in (2.0, 3.0) for n in range(2)]
    steps = Counter()

    def start(planned, lanes, strides):
        held = checkpointed_trials.holders(store, planned, lanes)
        by_id = {trial_id(trial): trial for trial in planned}
        made = plan.plan(by_id, lanes, store.committed(), plan.done_statuses(False, False), held)
        for work in made.work:
            run = _run(store, work.pack, work.pending, segment=work.segment)
            for _ in range(strides()):
                before = run.training.step
                if run.progress().phase != "done":
                    run.advance()
                steps.update(dict.fromkeys(run.pack.trial_ids, run.training.step - before))

    for _ in range(6):
        planned = rng.sample(every, rng.randrange(1, 5)) if rng.random() < 0.5 else every
        start(planned, rng.choice([None, 1, 2]), lambda: rng.randrange(3))
    start(every, 2, lambda: 10)
    assert steps == {trial_id(trial): 300 for trial in every}
    run_pack(Pack(tuple(every[2:])), Destination(fresh := Store.open(tmp_path / "fresh"), ORIGIN))
    assert {key: _metrics(store)[key] for key in fresh.committed()} == _metrics(fresh)


# Checkpoints


THREE = Pack((coloring_trial(seed=7), *TRIALS))
"""A pack of which two trials are pending, so that two lanes train."""


def test_without_the_checkpoint_only_pending_trials_run(undisturbed, tmp_path):
    store = Store.open(tmp_path)
    progress = _finish(_run(store, THREE, PACK.trial_ids))
    assert progress.lanes == 2
    assert _metrics(store) == _metrics(undisturbed)


def test_a_part_of_a_pack_leaves_the_checkpoint_of_the_pack(undisturbed, tmp_path):
    """Two trials are left of three and die between their commits: the last one finds their checkpoint."""
    store = Store.open(tmp_path)
    dying = _run(store, THREE, PACK.trial_ids)
    while not dying.advance().rows:
        pass
    (file,) = tmp_path.glob("checkpoints/*")
    assert file.stem == THREE.pack_id
    last = _run(store, THREE, PACK.trial_ids[1:])
    assert (last.progress().phase, last.progress().lanes) == ("evaluating", 2)
    _finish(last)
    assert _metrics(store) == _metrics(undisturbed)
    assert not list(tmp_path.glob("checkpoints/*"))


@pytest.mark.parametrize(("seconds", "in_turns", "saved"), [(1e9, True, False), (1e9, False, True), (0.0, True, True)])
def test_a_short_training_is_trained_again_rather_than_saved(
    undisturbed, tmp_path, monkeypatch, seconds, in_turns, saved
):
    """Unless the number of lanes would change numbers: of two the first is committed when the pack dies."""
    monkeypatch.setattr(pack_run, "SHORT", seconds)
    monkeypatch.setattr(pack_run, "vectorisation", SimpleNamespace(in_turns=lambda: in_turns))
    store = Store.open(tmp_path)
    dying = pack_run.PackRun(PACK, PACK.trial_ids, Destination(store, ORIGIN, checkpoint_seconds=1e9))
    while not dying.advance().rows:
        pass
    assert bool(store.listing("checkpoints")) == saved
    next_run = _run(store, PACK, PACK.trial_ids[1:])
    assert next_run.progress().lanes == (2 if saved else 1)
    _finish(next_run)
    assert _metrics(store) == _metrics(undisturbed)


def test_a_checkpoint_of_other_code_is_not_continued(undisturbed, tmp_path):
    store = Store.open(tmp_path)
    before = ORIGIN.model_copy(update={"code": ORIGIN.code.model_copy(update={"always": {}})})
    first = pack_run.PackRun(
        THREE, THREE.trial_ids[:2], Destination(store, before, checkpoint_seconds=0.0, networks=False)
    )
    assert first.refused_checkpoint is None
    while not first.advance().rows:  # one trial is committed, so that the pack has a row and a checkpoint of that code
        pass
    (old,) = store.committed()
    run = _run(store, THREE, PACK.trial_ids)
    assert (run.progress().step, run.pack.trial_ids) == (0, PACK.trial_ids)
    assert run.refused_checkpoint == "is of other code"
    _finish(run)
    assert {key: _metrics(store)[key] for key in PACK.trial_ids} == _metrics(undisturbed)
    expected = dict.fromkeys(PACK.trial_ids, ORIGIN.fingerprint(TRIALS[0])) | {old: before.fingerprint(TRIALS[0])}
    assert {key: row["fingerprint"] for key, row in _rows(store).items()} == expected


def test_a_checkpoint_of_other_arithmetic_goes_on_and_the_row_says_so(undisturbed, tmp_path, monkeypatch):
    store = Store.open(tmp_path)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(arithmetic, "own", lambda: "e15e")
        _run(store).advance()
    _finish(_run(store))
    assert {row["arithmetic"] for row in _rows(store).values()} == {f"e15e {arithmetic.own()}"}
    assert _metrics(store) == _metrics(undisturbed)


def test_a_pack_that_goes_on_makes_no_first_state(tmp_path):
    store = Store.open(tmp_path)
    _run(store).advance()
    trainer = dataclasses.replace(trainer_of(TRIALS[0]), start=lambda *_: pytest.fail("a first state was made"))
    assert _run(store, trainer=trainer).training.step == 100


@pytest.mark.parametrize("why", ["does not fit the network", "is damaged"])
def test_a_checkpoint_that_serves_nobody_is_told(undisturbed, tmp_path, why):
    store = Store.open(tmp_path)
    run = _run(store)
    run.advance()
    if why == "is damaged":
        store.write_bytes(f"checkpoints/{PACK.pack_id}.ckpt", b"x")
    else:
        state, notes = run.training.state[:1], run.training.notes()
        checkpoint.save(store, PACK.pack_id, PACK.trial_ids, run.identity, state, notes)
    again = _run(store)
    assert (again.training.step, again.refused_checkpoint) == (0, why)
    _finish(again)
    assert _metrics(store) == _metrics(undisturbed)


def test_a_checkpoint_that_fails_is_a_warning(undisturbed, tmp_path, monkeypatch, caplog):
    store = Store.open(tmp_path)

    def refuse(*arguments):
        raise StoreError("HTTP status 503")

    monkeypatch.setattr(store, "write_bytes", refuse)
    monkeypatch.setattr(store, "delete", refuse)
    _finish(_run(store))
    assert set(store.committed().values()) == {"finished"}
    (told,) = {record.getMessage() for record in caplog.records if "step 300" in record.getMessage()}
    assert told.endswith("HTTP status 503")


# Failures are data


def test_a_lane_that_diverges_fails_alone(undisturbed, tmp_path):
    store = Store.open(tmp_path)
    progress = _finish(_run(store, Pack((TRIALS[0], EXPLODING))))
    failed = _rows(store)[trial_id(EXPLODING)]
    assert failed["status"] == "failed"
    assert failed["error_kind"] in ("non-finite loss", "non-finite gradient")
    assert 0 < failed["error_step"] < 20
    assert str(failed["error_step"]) in failed["error_message"]
    sound = trial_id(TRIALS[0])
    assert _metrics(store)[sound] == _metrics(undisturbed)[sound]
    assert progress.train_loss == pytest.approx(_metrics(store)[sound]["train_loss"])


def test_early_stopping_compares_any_training_curve_and_evaluates_nothing_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(pack_run, "kind_of", None)
    stopping = EarlyStopping(metric="mean_loss", mode="min", every=100, grace_steps=100)
    run = _run(Store.open(tmp_path), early_stopping=stopping)
    run.advance()
    assert run.evaluated == (100, pytest.approx(np.mean(run.training.curves[-1][1])))


def test_to_early_stopping_a_metric_that_is_finite_in_no_lane_is_the_worst(tmp_path, monkeypatch):
    monkeypatch.setattr(pack_run, "_metrics", lambda *_: [{"success": math.nan}, {}])
    stopping = EarlyStopping(metric="success", mode="max", every=100, grace_steps=100)
    run = _run(Store.open(tmp_path), early_stopping=stopping)
    run.advance()
    assert run.evaluated == (100, -math.inf)


def test_weights_that_the_last_update_made_infinite_are_a_failure(undisturbed, tmp_path):
    store = Store.open(tmp_path)
    run = _run(store)
    while run.advance().phase == "training":
        pass
    state = jax.tree.map(np.array, run.training.state)
    jax.tree.leaves(state.network)[0][1] = np.inf
    run.training = dataclasses.replace(run.training, state=state)
    _finish(run)
    sound, spoilt = (_rows(store)[key] for key in PACK.trial_ids)
    assert (spoilt["status"], spoilt["error_kind"], spoilt["error_step"]) == ("failed", "non-finite weights", 300)
    assert spoilt["success"] is None
    assert sound["status"] == "finished"


def test_an_evaluation_that_is_not_finite_is_a_failure(undisturbed, tmp_path, monkeypatch):
    metrics = {"success": 0.5, "loss": float("nan"), "loss_p95": float("inf")}
    columns = {"success": np.zeros(12, np.float32)}
    monkeypatch.setattr(evaluation, "evaluate", lambda trial, model: (metrics, columns))
    store = Store.open(tmp_path)
    run_pack(PACK, Destination(store, ORIGIN))
    for row in _rows(store).values():
        assert (row["status"], row["error_kind"]) == ("failed", "non-finite evaluation")
        assert row["error_message"].endswith("loss, loss_p95")


def test_a_measure_of_a_task_that_is_not_finite_costs_itself(undisturbed, tmp_path, monkeypatch):
    metrics = {"success": 0.5, "loss": 0.25, "regret": float("nan"), "regret_p95": float("-inf")}
    monkeypatch.setattr(evaluation, "evaluate", lambda trial, model: (metrics, {"success": np.zeros(12, np.float32)}))
    store = Store.open(tmp_path)
    run_pack(PACK, Destination(store, ORIGIN))
    for row in _rows(store).values():
        assert (row["status"], row["success"], row["loss"]) == ("finished", 0.5, 0.25)
        assert json.loads(row["extra_metrics"]) | {"regret": None, "regret_p95": None} == json.loads(
            row["extra_metrics"]
        )


def test_stop_early_commits_what_has_been_trained(undisturbed, tmp_path):
    store = Store.open(tmp_path)
    run = _run(store)
    run.advance()
    run.stop_early()
    for row in _rows(store).values():
        assert (row["status"], row["steps_done"]) == ("stopped", 100)
        assert row["loss"] is not None


class Breaking(Coloring):
    """Colouring that breaks its contract in a way of its own in every lane of a pack."""

    how: Annotated[Traced[int], Field(ge=0)] = 0

    def losses(self, network, inputs, seeds):
        factor, offset, first = jnp.array(
            [(1, 0, 0), (1, -3, 0), (1, 0, -1), (1, 0, jnp.nan), (0, -1e-5, 0), (1, 0, 0), (1, 0, 0)]
        )[self.how]
        return (super().losses(network, inputs, seeds) * factor + offset).at[0, 0].add(first)

    def outcomes(self, network, inputs, seeds):
        found = super().outcomes(network, inputs, seeds)
        loss, sampled = jnp.array([(0, 0)] * 5 + [(-9, 0), (0, 1)])[self.how]
        return found._replace(loss=found.loss + loss, sampled=found.sampled + sampled)


def _line(method: Callable[..., Any]) -> str:
    return f"{__file__}, line {method.__code__.co_firstlineno}"


@pytest.mark.long
@pytest.mark.parametrize("fields", [{}, pytest.param(PGPE, marks=pytest.mark.long)], ids=["gradient", "evolution"])
def test_values_that_break_their_contract_are_an_error_of_the_trial_with_its_place(tmp_path, fields):
    trial, store = coloring_trial(objective={"q": 1.0, "m": 2}, **fields), Store.open(tmp_path)
    pack = Pack(tuple(trial.model_copy(update={"task": Breaking(vertices=5, how=how)}) for how in range(7)))
    run_pack(pack, Destination(store, ORIGIN))
    rows = [_rows(store)[key] for key in pack.trial_ids]
    # Losses may be a little negative by rounding, as sums of logarithms.
    assert [row["error_kind"] for row in rows] == [
        None, "negative loss", "negative loss", "non-finite loss", None, "broken contract", "broken contract"
    ]  # fmt: skip
    assert [row["error_step"] for row in rows[1:4]] == [0] * 3
    assert all(_line(Breaking.losses) in row["error_message"] for row in rows[1:3])
    found = [row["error_message"].removeprefix(f"{_line(Breaking.outcomes)}: outcomes gives ") for row in rows[5:]]
    assert found[0].startswith("-8.")
    assert found[1].startswith("1.")


@pytest.mark.long
@pytest.mark.parametrize("fields", [{}, pytest.param(PGPE, marks=pytest.mark.long)], ids=["gradient", "evolution"])
def test_a_task_and_an_objective_add_curves_and_change_no_number(tmp_path, fields):
    def abilities(self: Any) -> Any:
        curves = {"largest_loss": lambda network, inputs, seeds: self.losses(network, inputs, seeds).max()}
        return dataclasses.replace(Coloring.abilities(self), curves=curves)

    plain = coloring_trial(**fields)
    objective: Any = type("Objective", (type(plain.objective),), {"curves": lambda self: {"q_now": lambda *_: self.q}})
    task: Any = type("Task", (Coloring,), {"abilities": abilities})
    own = {"task": task(vertices=5), "objective": objective.model_validate(plain.objective.model_dump())}
    found = {}
    for name, trial in {"plain": plain, "own": plain.model_copy(update=own)}.items():
        run = _run(Store.open(tmp_path / name), Pack((trial, trial.model_copy(update={"seed": 1}))))
        run.advance()
        run.stop_early()
        curves = run.destination.store.curves().to_pandas()
        means = curves[curves["trial_id"] == run.pack.trial_ids[0]].set_index("metric")["value"]
        found[name] = means.to_dict() | {"loss": _rows(run.destination.store)[run.pack.trial_ids[0]]["loss"]}
    largest = found["own"].pop("largest_loss")
    assert found["own"] == found["plain"] | {"q_now": float(plain.objective.q)}
    assert largest > found["own"]["mean_loss"]


def test_the_schedule_rises_falls_and_ends_at_the_final_rate():
    def rates(steps: list[int], **fields: Any) -> jax.Array:
        optimizer = coloring_trial(optimizer=fields).optimizer
        return jax.jit(jax.vmap(lambda step: optimizer.rate(1000)(step)))(jnp.array(steps))

    cosine = rates([0, 50, 100, 550, 1000], warmup_steps=100, learning_rate=1e-3)
    np.testing.assert_allclose(cosine, [0, 5e-4, 1e-3, 5.5e-4, 1e-4], rtol=1e-5)
    linear = rates([0, 500, 1000], warmup_steps=0, schedule="linear")
    np.testing.assert_allclose(linear, [1e-3, 5.5e-4, 1e-4], rtol=1e-5)
