"""One pack, trained for real in this process: what it commits, and what interruption and packing do to its numbers."""

import dataclasses
import hashlib
import io
import json
import random
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sweeper.packs import checkpoint, checkpointed_trials, device_memory, pack_run, plan
from sweeper.packs.pack_run import Destination, PackRun, run_pack
from sweeper.packs.packing import Pack
from sweeper.store.store import NoNetworkError, Store, StoreError
from sweeper.training import evaluation, gradient
from sweeper.trial import provenance
from sweeper.trial.contracts import ContractError
from sweeper.trial.trial_spec import TrialSpec, trial_id
from tasks.coloring import Task as Coloring
from tests.processes import python
from tests.trials import coloring_trial

TRIALS = (
    *(coloring_trial(seed=seed, objective={"q": 3.0, "m": 2}) for seed in range(2)),
    coloring_trial(baseline="AE_R", objective={"q": 1.0, "m": 2}),
)
METRICS = ["success", "success_p5", "majority_3", "sampled", "loss", "loss_p95", "variance", "train_loss"]
ORIGIN = provenance.capture("test")


def _run(store: Store, pack: Pack, pending=None, **options) -> PackRun:
    given = Destination(store, ORIGIN, checkpoint_seconds=0.0)
    return pack_run.PackRun(pack, pending or pack.trial_ids, given, **options)


def _finish(run: PackRun):
    while (progress := run.advance()).phase != "done":
        pass
    return progress


def _metrics(store: Store) -> dict[str, dict]:
    rows = store.trials().to_pylist()
    return {row["trial_id"]: {k: v for k, v in row.items() if k in METRICS or k == "extra_metrics"} for row in rows}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Store:
    store = Store.open(tmp_path_factory.mktemp("undisturbed"))
    run_pack(Pack(TRIALS), Destination(store, ORIGIN))
    return store


def test_every_trial_becomes_a_row_with_curves_and_outcomes(undisturbed):
    rows = {row["trial_id"]: row for row in undisturbed.trials().to_pylist()}
    assert set(rows) == {trial_id(trial) for trial in TRIALS}
    for row in rows.values():
        assert (row["status"], row["lanes"], row["steps_done"]) == ("finished", 3, 250)
        assert 0 <= row["success"] <= 1
        assert row["train_seconds"] > 0
        assert row["peak_memory_bytes"] > 2**20
    curves = undisturbed.curves().to_pandas()
    assert sorted(curves["step"].unique()) == [100, 200, 250]
    assert set(curves["metric"]) == {"train_loss", "mean_loss"}
    means = curves[curves["metric"] == "mean_loss"].groupby("step")["value"].mean()
    assert means[250] < means[100], "training lowers the loss"
    outcomes = undisturbed.outcomes().to_pandas()
    assert len(outcomes) == 3 * 12
    for name, group in outcomes.groupby("trial_id"):
        np.testing.assert_allclose(group["success"].mean(), rows[name]["success"], rtol=1e-3)


@pytest.mark.slow
def test_networks_can_be_left_out(tmp_path):
    store = Store.open(tmp_path)
    run_pack(Pack(TRIALS[:1]), Destination(store, ORIGIN, networks=False))
    (seal,) = store.seals().values()
    with pytest.raises(NoNetworkError):
        store.weights(seal)


def test_an_interruption_anywhere_changes_no_bit(undisturbed, tmp_path):
    """A new run after every single stride: between chunks, after training, and between two commits."""
    store = Store.open(tmp_path)
    pack = Pack(TRIALS)
    strides = 0
    while len(done := store.committed()) < len(TRIALS):
        pending = [name for name in pack.trial_ids if name not in done]
        _run(store, pack, pending).advance()
        strides += 1
    assert strides == 3 + 3  # three chunks and three commits: nothing was done twice
    assert _metrics(store) == _metrics(undisturbed)
    assert store.read_bytes(f"checkpoints/{pack.pack_id}.ckpt") is None


@pytest.mark.parametrize("packs", [[TRIALS[::-1]], pytest.param([(t,) for t in TRIALS], marks=pytest.mark.slow)])
def test_neither_the_place_in_a_pack_nor_the_number_of_lanes_changes_a_bit(undisturbed, tmp_path, packs):
    store = Store.open(tmp_path)
    for trials in packs:
        run_pack(Pack(trials), Destination(store, ORIGIN))
    assert _metrics(store) == _metrics(undisturbed)
    assert {row["lanes"] for row in store.trials().to_pylist()} == {len(packs[0])}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_step_is_repeated_when_seeds_values_and_lanes_of_the_space_change(tmp_path, seed):
    """Every start plans other trials in other packs, and dies while several of them train."""
    rng, store = random.Random(seed), Store.open(tmp_path)
    every = [coloring_trial(seed=n, objective={"q": q, "m": 2}) for q in (2.0, 3.0) for n in range(3)]
    steps = Counter()

    def start(planned, lanes, strides):
        held = checkpointed_trials.holders(store, planned, lanes)
        made = plan.plan(planned, lanes, store.committed(), plan.done_statuses(False, False), held)
        for work in made.work:
            run = _run(store, work.pack, work.pending, segment=work.segment)
            for _ in range(strides()):
                before = run.training.step
                if run.progress().phase != "done":
                    run.advance()
                steps.update(dict.fromkeys(run.pack.trial_ids, run.training.step - before))

    for _ in range(6):
        planned = rng.sample(every, rng.randrange(1, 7)) if rng.random() < 0.5 else every
        start(planned, rng.choice([None, 1, 2, 4, 6]), lambda: rng.randrange(3))
    start(every, 6, lambda: 10)
    assert steps == {trial_id(trial): 250 for trial in every}
    for trial in TRIALS[:2]:
        run_pack(Pack((trial,)), Destination(fresh := Store.open(tmp_path / "fresh"), ORIGIN))
    assert {key: _metrics(store)[key] for key in fresh.committed()} == _metrics(fresh)


def test_without_the_checkpoint_only_pending_trials_run(tmp_path):
    store = Store.open(tmp_path)
    pack = Pack(TRIALS)
    progress = _finish(_run(store, pack, pack.trial_ids[:1]))
    assert progress.lanes == 1
    assert set(store.committed()) == {pack.trial_ids[0]}


@pytest.mark.slow
def test_a_part_of_a_pack_leaves_the_checkpoint_of_the_pack(undisturbed, tmp_path):
    """Two trials are left of three and die between their commits: the last one finds their checkpoint."""
    store, pack = Store.open(tmp_path), Pack(TRIALS)
    run_pack(Pack(TRIALS[:1]), Destination(store, ORIGIN))
    dying = _run(store, pack, pack.trial_ids[1:])
    while not dying.advance().rows:
        pass
    (file,) = tmp_path.glob("checkpoints/*")
    assert file.stem == pack.pack_id
    last = _run(store, pack, pack.trial_ids[2:])
    assert (last.progress().phase, last.progress().lanes) == ("evaluating", 2)
    _finish(last)
    assert _metrics(store) == _metrics(undisturbed)
    assert not list(tmp_path.glob("checkpoints/*"))


@pytest.mark.slow
def test_a_checkpoint_without_the_pending_lanes_is_of_no_use(undisturbed, tmp_path):
    store, pack = Store.open(tmp_path), Pack(TRIALS)
    _run(store, pack, pack.trial_ids[:2]).advance()
    _finish(_run(store, pack, pack.trial_ids[1:]))
    expected = _metrics(undisturbed)
    assert _metrics(store) == {name: expected[name] for name in pack.trial_ids[1:]}


def test_a_checkpoint_of_other_code_is_not_continued(undisturbed, tmp_path):
    store, pack = Store.open(tmp_path), Pack(TRIALS)
    before = ORIGIN.model_copy(update={"code": ORIGIN.code.model_copy(update={"numerics": "before the mend"})})
    first = pack_run.PackRun(pack, pack.trial_ids, Destination(store, before, checkpoint_seconds=0.0))
    assert first.refused_checkpoint is None
    while first.advance().phase == "training":
        pass
    first.advance()  # one trial is committed, so that the pack has a row and a checkpoint of the code before
    (old,) = store.trials().to_pylist()
    pending = [name for name in pack.trial_ids if name != old["trial_id"]]
    run = _run(store, pack, pending)
    assert (run.progress().step, run.pack.trial_ids) == (0, tuple(pending))
    assert run.refused_checkpoint == "is of other code"
    _finish(run)
    assert _metrics(store) == _metrics(undisturbed)
    rows = {row["trial_id"]: row["fingerprint"] for row in store.trials().to_pylist()}
    expected = {name: ORIGIN.fingerprint(TRIALS[0]) for name in pack.trial_ids}
    assert rows == expected | {old["trial_id"]: before.fingerprint(TRIALS[0])}


def test_a_checkpoint_of_another_network_is_told(undisturbed, tmp_path):
    store, pack = Store.open(tmp_path), Pack(TRIALS)
    run = _run(store, pack)
    run.advance()
    training = run.training
    checkpoint.save(store, pack.pack_id, pack.trial_ids, run.fingerprint, training.state[:1], training.notes())
    again = _run(store, pack)
    assert (again.training.step, again.refused_checkpoint) == (0, "does not fit the network")
    _finish(again)
    assert _metrics(store) == _metrics(undisturbed)


def test_checkpoints_without_a_trial_that_is_needed_are_removed(tmp_path):
    store = Store.open(tmp_path)
    for name, trial_ids in {"one": ["a", "b"], "other": ["b", "c"], "empty": []}.items():
        checkpoint.save(store, name, trial_ids, None, {}, {})
    store.write_bytes("checkpoints/damaged.ckpt", b"x")
    names = store.listing("checkpoints")
    checkpoint.save(store, "later", [], None, {}, {})
    removed = checkpoint.remove_without(store, names, {"a"}.__contains__)
    assert sorted(removed) == [(), (), ("b", "c")]
    assert sorted(file.stem for file in tmp_path.glob("checkpoints/*")) == ["later", "one"]


def test_a_checkpoint_that_fails_is_a_warning(tmp_path, monkeypatch, caplog):
    store = Store.open(tmp_path)

    def refuse(*arguments):
        raise StoreError("cannot write it: HTTP status 503")

    monkeypatch.setattr(store, "write_bytes", refuse)
    monkeypatch.setattr(store, "delete", refuse)
    _finish(_run(store, Pack(TRIALS[:1])))
    assert list(store.committed().values()) == ["finished"]
    assert "has no checkpoint of step 250: cannot write it: HTTP status 503" in caplog.text


def test_a_lane_that_diverges_fails_alone(undisturbed, tmp_path):
    store = Store.open(tmp_path)
    exploding = coloring_trial(
        seed=5, objective={"q": 3.0, "m": 2}, optimizer={"learning_rate": 1e30, "warmup_steps": 10}
    )
    run_pack(Pack((*TRIALS[:2], exploding)), Destination(store, ORIGIN))
    rows = {row["trial_id"]: row for row in store.trials().to_pylist()}
    failed = rows[trial_id(exploding)]
    assert failed["status"] == "failed"
    assert failed["error_kind"] in ("non-finite loss", "non-finite gradient")
    assert 0 < failed["error_step"] < 20
    assert str(failed["error_step"]) in failed["error_message"]
    sound, expected = _metrics(store), _metrics(undisturbed)
    for trial in TRIALS[:2]:
        assert sound[trial_id(trial)] == expected[trial_id(trial)]


def _spoil(run: PackRun, lane: int) -> None:
    """As if the last update had made the weights of one lane infinite."""
    state = jax.tree.map(np.array, run.training.state)
    weights = jax.tree.leaves(state.network)
    weights[0][lane] = np.inf
    network = jax.tree.unflatten(jax.tree.structure(state.network), weights)
    run.training = dataclasses.replace(run.training, state=state._replace(network=network))


def test_weights_that_the_last_update_made_infinite_are_a_failure(undisturbed, tmp_path):
    store = Store.open(tmp_path)
    run = _run(store, Pack(TRIALS))
    while run.advance().phase == "training":
        pass
    _spoil(run, lane=1)
    _finish(run)
    rows = {row["trial_id"]: row for row in store.trials().to_pylist()}
    spoilt = rows.pop(trial_id(TRIALS[1]))
    assert (spoilt["status"], spoilt["error_kind"], spoilt["error_step"]) == ("failed", "non-finite weights", 250)
    assert spoilt["success"] is None
    assert {row["status"] for row in rows.values()} == {"finished"}


def test_an_evaluation_that_is_not_finite_is_a_failure(tmp_path, monkeypatch):
    metrics = {"success": 0.5, "loss": float("nan"), "loss_p95": float("inf")}
    columns = {"success": np.zeros(12, np.float32)}
    monkeypatch.setattr(evaluation, "evaluate", lambda trial, model: (metrics, columns))
    store = Store.open(tmp_path)
    run_pack(Pack(TRIALS[:1]), Destination(store, ORIGIN))
    (row,) = store.trials().to_pylist()
    assert (row["status"], row["error_kind"]) == ("failed", "non-finite evaluation")
    assert row["error_message"] == "non-finite loss, loss_p95"


def test_a_pack_whose_lanes_all_diverged_stops_training(tmp_path):
    store = Store.open(tmp_path)
    exploding = coloring_trial(optimizer={"learning_rate": 1e30, "warmup_steps": 10}, steps=100_000)
    run = _run(store, Pack((exploding,)))
    assert run.advance().phase == "evaluating"
    assert list(_finish(run).rows.values()).count("failed") == 1


def test_stop_early_commits_what_has_been_trained(tmp_path):
    store = Store.open(tmp_path)
    run = _run(store, Pack(TRIALS[:1]))
    run.advance()
    run.stop_early()
    (row,) = store.trials().to_pylist()
    assert row["status"] == "stopped"
    assert row["steps_done"] == 100
    assert row["loss"] is not None


@pytest.mark.parametrize("kind", [np.float64, jnp.bfloat16])
def test_a_checkpoint_is_what_was_saved_and_fits_no_other_shape(tmp_path, kind):
    store = Store.open(tmp_path)
    state = {"weights": np.arange(100.0).astype(kind)}
    checkpoint.save(store, "pack", ["a"], "c0de", state, {"step": 1})
    saved = checkpoint.load(store, "pack")
    assert saved is not None
    assert (saved.trial_ids, saved.fingerprint, saved.notes) == (("a",), "c0de", {"step": 1})
    np.testing.assert_array_equal(saved.state(state)["weights"], state["weights"], strict=True)
    assert saved.state({"weights": np.zeros(4)}) is None
    assert saved.state({}) is None


def _archive(header: bytes, compression: int = zipfile.ZIP_STORED, **members: bytes) -> bytes:
    """A checkpoint with a right digest and any content."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        array = io.BytesIO()
        np.save(array, np.frombuffer(header, np.uint8))
        for name, content in {"header": array.getvalue(), **members}.items():
            archive.writestr(f"{name}.npy", content)
    return hashlib.sha256(buffer.getvalue()).digest() + buffer.getvalue()


def _huge_array(count: int) -> bytes:
    """An array that says that it has so many numbers, and holds none."""
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(array, {"descr": "<f8", "fortran_order": False, "shape": (count,)})
    return array.getvalue()


SOUND = json.dumps({"pack_id": "pack", "trial_ids": ["a"], "notes": {}}).encode()


WHOLE = _archive(SOUND)
BAD_CHECKPOINTS = {
    "cut off": WHOLE[:-9],
    "empty": b"",
    "altered": WHOLE[:99] + b"x" + WHOLE[100:],
    "deep header": _archive(b"[" * 200_000),
    "header of a number": _archive(b"5"),
    "no trials": _archive(SOUND.replace(b'"a"', b"")),
    "more than memory": _archive(SOUND, leaf_0=_huge_array(2**60)),
    "more than an integer": _archive(SOUND, leaf_0=_huge_array(2**80)),
    "expands": _archive(SOUND, zipfile.ZIP_DEFLATED, leaf_0=_huge_array(10**7) + bytes(8 * 10**7)),
}


@pytest.mark.parametrize("bad", BAD_CHECKPOINTS)
def test_a_damaged_or_hostile_checkpoint_is_none(tmp_path, bad):
    store = Store.open(tmp_path)
    store.write_bytes("checkpoints/pack.ckpt", WHOLE)
    assert checkpoint.load(store, "pack") is not None
    store.write_bytes("checkpoints/pack.ckpt", BAD_CHECKPOINTS[bad])
    assert checkpoint.load(store, "pack") is None


@pytest.mark.parametrize("notes", [{}, 3, {"step": "1"}, {"lane_steps": []}, {"curves": [[[1.0]]]}, {"seconds": {}}])
def test_a_checkpoint_whose_notes_make_no_sense_is_not_continued(tmp_path, notes):
    store, pack = Store.open(tmp_path), Pack(TRIALS[:1])
    run = _run(store, pack)
    sound = run.training.notes()
    checkpoint.save(store, pack.pack_id, pack.trial_ids, run.fingerprint, run.training.state, sound | {"step": 100})
    assert _run(store, pack).training.step == 100
    hostile = sound | {"step": 100} | notes if isinstance(notes, dict) and notes else notes
    checkpoint.save(store, pack.pack_id, pack.trial_ids, run.fingerprint, run.training.state, hostile)
    assert _run(store, pack).training.step == 0


def test_the_schedule_rises_falls_and_ends_at_the_final_rate():
    optimizer = coloring_trial(optimizer={"warmup_steps": 100, "learning_rate": 1e-3}).optimizer
    rates = jax.vmap(lambda step: gradient.learning_rate(optimizer, step, 1000))(jnp.array([0, 50, 100, 550, 1000]))
    np.testing.assert_allclose(rates, [0, 5e-4, 1e-3, 5.5e-4, 1e-4], rtol=1e-5)
    linear = coloring_trial(optimizer={"warmup_steps": 0, "schedule": "linear"}).optimizer
    rates = jax.vmap(lambda step: gradient.learning_rate(linear, step, 1000))(jnp.array([0, 500, 1000]))
    np.testing.assert_allclose(rates, [1e-3, 5.5e-4, 1e-4], rtol=1e-5)


@pytest.mark.slow
def test_numerics_import_without_ray():
    """The pack runs where Ray is not installed: an import hook refuses it."""
    code = (
        "import sys; sys.modules['ray'] = None\n"
        "import sweeper.packs.pack_run, tasks.coloring, models.transformer\n"
        "assert not [name for name in sys.modules if name.startswith('ray.')]"
    )
    python("-c", code, check=True)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux alone can forget a peak")
def test_the_peak_of_an_earlier_pack_is_forgotten():
    before = device_memory.peak_bytes()
    block = np.ones(40_000_000)
    high = device_memory.peak_bytes()
    del block
    device_memory.forget_peak()
    assert high > before
    assert device_memory.peak_bytes() < high - 200_000_000


def _broken_trial(method: str, change: Callable[[Any], Any], **fields: Any) -> TrialSpec:
    """A trial whose task gives something else than colouring does: `change` of it."""

    def changed(self: Any, *arguments: Any) -> Any:
        return change(getattr(Coloring, method)(self, *arguments))

    task: Any = type("Task", (Coloring,), {method: changed})
    trial = coloring_trial(steps=4, objective={"q": 1.0, "m": 2}, **fields)
    return trial.model_copy(update={"task": task(vertices=5)})


@pytest.mark.parametrize(
    "fields", [{}, {"optimizer": {"name": "pgpe", "population": 4}}], ids=["gradient", "evolution"]
)
def test_a_task_and_an_objective_add_curves_and_change_no_number(tmp_path, fields):
    def abilities(self: Any) -> Any:
        curves = {"largest_loss": lambda network, inputs, seeds: self.losses(network, inputs, seeds).max()}
        return dataclasses.replace(Coloring.abilities(self), curves=curves)

    plain = coloring_trial(steps=4, **fields)
    objective: Any = type("Objective", (type(plain.objective),), {"curves": lambda self: {"q_now": lambda *_: self.q}})
    task: Any = type("Task", (Coloring,), {"abilities": abilities})
    own = {"task": task(vertices=5), "objective": objective.model_validate(plain.objective.model_dump())}
    found = {}
    for name, trial in {"plain": plain, "own": plain.model_copy(update=own)}.items():
        store = Store.open(tmp_path / name)
        run_pack(Pack((trial,)), Destination(store, ORIGIN))
        (row,) = store.trials().to_pylist()
        found[name] = store.curves().to_pandas().groupby("metric")["value"].first().to_dict() | {"loss": row["loss"]}
    largest = found["own"].pop("largest_loss")
    assert found["own"] == found["plain"] | {"q_now": float(plain.objective.q)}
    assert largest > found["own"]["mean_loss"]


PLACE = f"{__file__}, line {_broken_trial.__code__.co_firstlineno + 3}"
PGPE = {"optimizer": {"name": "pgpe", "population": 4}}


def _first_is(value: float) -> Callable[[jax.Array], jax.Array]:
    return lambda losses: losses.at[0, 0].set(value)


@pytest.mark.parametrize(
    ("fields", "method", "change", "kind", "message"),
    [
        ({}, "losses", lambda losses: losses - 3, "negative loss", f"negative loss at step 0: {PLACE}: losses"),
        ({}, "losses", _first_is(-1), "negative loss", f"negative loss at step 0: {PLACE}"),
        (PGPE, "losses", _first_is(-1), "negative loss", f"negative loss at step 0: {PLACE}"),
        ({}, "losses", _first_is(jnp.nan), "non-finite loss", "non-finite loss at step 0"),
        (PGPE, "losses", _first_is(jnp.nan), "non-finite loss", "non-finite loss at step 0"),
        ({}, "losses", lambda losses: losses * 0 - 1e-5, None, ""),  # as sums of logarithms may be, by rounding
        ({}, "outcomes", lambda found: found._replace(loss=found.loss.at[0, 0].set(-9)), "broken contract",
         f"{PLACE}: outcomes gives -9 as loss, must be at least 0"),
        ({}, "outcomes", lambda found: found._replace(sampled=found.sampled + 1), "broken contract",
         f"{PLACE}: outcomes gives 1."),
    ],
)  # fmt: skip
def test_values_that_break_their_contract_are_an_error_of_the_trial_with_its_place(
    tmp_path, fields, method, change, kind, message
):
    store = Store.open(tmp_path)
    run_pack(Pack((_broken_trial(method, change, **fields),)), Destination(store, ORIGIN))
    (row,) = store.trials().to_pylist()
    assert row["error_kind"] == kind
    assert (row["error_message"] or "").startswith(message)


@pytest.mark.parametrize(
    ("method", "change", "message"),
    [
        ("losses", lambda losses: losses[:, :1], "shape [8, 1], must be [8 inputs, 2 seeds]"),
        ("losses", lambda losses: losses[:, :, None], "shape [8, 2, 1], must be [8 inputs, "),
        ("losses", lambda losses: losses.mean(axis=1), "shape [8], must be [8 inputs, "),
        ("losses", lambda losses: losses.astype(int), "type int32, must be floating"),
        ("sample_inputs", lambda inputs: inputs[:3], "shape [3, 5], must be arrays with the leading axis 8"),
        ("sample_seeds", lambda seeds: seeds[:1], "shape [1, "),
        ("evaluation_inputs", lambda inputs: (inputs, inputs[:3]), "shape [12, 5], shape [3, 5], must be arr"),
        ("outcomes", lambda found: found._replace(correct=found.correct * 1.0), "correct of type float32, must b"),
        ("outcomes", lambda found: found._replace(loss=found.loss[:, :1]), "loss of shape [12, 1], must be [12 input"),
        ("outcomes", lambda found: found._replace(loss=None), "loss of type NoneType, must be [12 inputs, "),
        ("outcomes", lambda found: found._replace(variance=found.loss), "variance of shape [12, 10], must be [12 i"),
        ("outcomes", lambda found: found._replace(measures={"own": found.loss}), "the measures own, must be those o"),
    ],
)  # fmt: skip
def test_arrays_of_another_form_are_refused_with_their_place(tmp_path, method, change, message):
    store = Store.open(tmp_path)
    try:
        run_pack(Pack((_broken_trial(method, change),)), Destination(store, ORIGIN))
        (said,) = store.trials()["error_message"].to_pylist()  # of an evaluation
    except ContractError as error:
        said = str(error)
    assert said.startswith(f"{PLACE}: {method} gives {message}")
