"""Lanes on an accelerator, which is made up: how many fit, and what a lack of memory costs."""

import dataclasses

import jax
import numpy as np
import pytest

from sweeper.learned_algorithms import evolution, gradient
from sweeper.packs import device_memory, pack_run
from sweeper.packs.pack_run import Destination
from sweeper.packs.packing import Pack, stack
from sweeper.store.store import Store
from sweeper.training import compilation
from sweeper.trial import provenance, vectorisation
from tests.trials import coloring_trial
from tests.whole_packs import run_pack

ORIGIN = provenance.capture("test")
TRIALS = tuple(coloring_trial(seed=seed) for seed in range(5))
FIVE, PACK = Pack(TRIALS), Pack(TRIALS[:3])


def _of_memory(*needed: float, asked: list[int] | None = None):
    """A trainer whose programs need so much memory with one lane, with two, and so on."""

    def memory(trials):
        (asked if asked is not None else []).append(len(trials.seed))
        return needed[len(trials.seed) - 1]

    return dataclasses.replace(gradient.TRAINER, memory=memory)


@pytest.mark.parametrize(
    ("room", "lanes", "asked"),
    [(350, 5, [5]), (349, 3, [5, 3]), (249, 2, [5, 3, 2]), (180, 1, [5, 3, 2, 1]), (9, 1, [5, 3, 2, 1])],
)
def test_lanes_are_halved_until_they_fit(room, lanes, asked):
    seen: list[int] = []
    trainer = _of_memory(150, 200, 250, 300, 350, asked=seen)
    assert (device_memory.chosen_lanes(FIVE, trainer, room).lanes, seen) == (lanes, asked)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 106500000000 bytes.", True),
        ("INTERNAL: Failed to allocate 8.00GiB for new constant", True),
        ("INTERNAL: failed to create cublas handle: CUBLAS_STATUS_NOT_INITIALIZED", True),
        ("INTERNAL: cuBLAS error: CUBLAS_STATUS_ALLOC_FAILED", True),
        ("INTERNAL: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered", False),
    ],
)
def test_what_says_that_memory_is_too_small(text, expected):
    assert device_memory.out_of_memory(jax.errors.JaxRuntimeError(text)) == expected
    assert not device_memory.out_of_memory(MemoryError(text)), "of this computer, not of the device"


@pytest.mark.slow
def test_the_program_whose_memory_was_asked_for_is_the_one_that_trains():
    pack = Pack(tuple(coloring_trial(seed=seed, task={"name": "coloring", "vertices": 6}) for seed in range(2)))
    stacked = stack(pack.trials)
    with vectorisation.built_for("cuda"):
        device_memory.chosen_lanes(pack, gradient.TRAINER, 1e12)
        state = gradient.start(stacked)
        before = compilation.seconds()
        gradient.stride(stacked, state, gradient.TRAINER.stride_steps)
        assert compilation.seconds() == before


def test_a_pack_has_its_share_of_the_device_and_a_cpu_has_no_bound(monkeypatch):
    assert device_memory.room_for_lanes(1.0) is None
    monkeypatch.setattr(device_memory, "device_bytes", lambda: 1000)
    assert (device_memory.room_for_lanes(1.0), device_memory.room_for_lanes(0.5)) == (700, 350)
    assert device_memory.room_for_lanes(None) is None, "no accelerator was asked for"


@pytest.mark.long
@pytest.mark.parametrize("optimizer", [{}, pytest.param({"name": "pgpe", "population": 4}, marks=pytest.mark.long)])
def test_the_compiler_says_what_a_lane_needs(optimizer):
    trainer = evolution.TRAINER if optimizer else gradient.TRAINER
    trials = [coloring_trial(seed=seed, optimizer=optimizer) for seed in range(3)]
    one, two, three = (trainer.memory(stack(trials[:lanes])) for lanes in (1, 2, 3))
    assert 0 < one < two < three
    state = jax.eval_shape(gradient.init if not optimizer else evolution.init, stack(trials[:1]))
    assert one >= sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))


# Too little memory


class Device:
    """A trainer on a device whose memory holds some lanes only, from some step on."""

    def __init__(self, holds: int, from_step: int = 0, message: str = "RESOURCE_EXHAUSTED: Out of memory"):
        self.holds, self.from_step, self.message = holds, from_step, message
        self.strides: list[tuple[int, int]] = []
        self.trainer = dataclasses.replace(gradient.TRAINER, stride=self._stride)

    def memory(self, trials):
        raise jax.errors.JaxRuntimeError(self.message)

    def _stride(self, trials, state, length):
        lanes, step = len(trials.seed), int(np.asarray(state.step)[0])
        if lanes > self.holds and step >= self.from_step:
            raise jax.errors.JaxRuntimeError(self.message)
        self.strides.append((step, lanes))
        return gradient.stride(trials, state, length)


def _finish(run: pack_run.PackRun) -> list:
    progress = [run.progress()]
    while progress[-1].phase != "done":
        progress.append(run.advance())
    return progress


def _numbers(store: Store) -> dict[str, tuple]:
    rows = store.trials().to_pylist()
    return {row["trial_id"]: (row["success"], row["loss"], row["train_loss"], row["extra_metrics"]) for row in rows}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Store:
    store = Store.open(tmp_path_factory.mktemp("undisturbed"))
    run_pack(PACK, Destination(store, ORIGIN))
    return store


@pytest.mark.slow
@pytest.mark.parametrize("from_step", [0, 200])
def test_out_of_memory_halves_the_lanes_and_goes_on_from_the_checkpoint(undisturbed, tmp_path, from_step):
    store, device = Store.open(tmp_path), Device(holds=2, from_step=from_step)
    destination = Destination(store, ORIGIN, checkpoint_seconds=0.0)
    progress = _finish(pack_run.PackRun(PACK, PACK.trial_ids, destination, device.trainer))
    # Three lanes, then two and, filled up, two: nothing that a checkpoint held is trained again.
    before = [(step, 3) for step in range(0, from_step, 100)]
    after = [(step, 2) for step in range(from_step, 300, 100) for _ in range(2)]
    assert device.strides == before + after
    reasons = {item.lanes: item.lanes_reason for item in progress}
    assert list(reasons) == [3, 2]
    assert reasons[3] is None
    assert " memory for 3" in reasons[2]
    assert _numbers(store) == _numbers(undisturbed)
    assert {row["lanes"] for row in store.trials().to_pylist()} == {2}
    assert set(store.curves().to_pandas()["step"]) == {100, 200, 300}


@pytest.mark.slow
def test_an_interruption_keeps_the_number_of_lanes(undisturbed, tmp_path):
    store, device = Store.open(tmp_path), Device(holds=2)
    destination = Destination(store, ORIGIN, checkpoint_seconds=0.0)
    run = pack_run.PackRun(PACK, PACK.trial_ids, destination, device.trainer)
    while run.training.step < 200:
        run.advance()
    again = pack_run.PackRun(PACK, PACK.trial_ids, destination, Device(holds=3).trainer)
    assert again.progress().lanes == 2
    _finish(again)
    assert _numbers(store) == _numbers(undisturbed)


@pytest.mark.slow
def test_a_worker_takes_as_many_lanes_as_fit(undisturbed, tmp_path):
    store, device = Store.open(tmp_path), Device(holds=2)
    trainer = dataclasses.replace(device.trainer, memory=_of_memory(100, 150, 200).memory)
    run = pack_run.PackRun(PACK, PACK.trial_ids, Destination(store, ORIGIN), trainer, room=168)
    assert run.progress().lanes == 2
    _finish(run)
    assert {lanes for _, lanes in device.strides} == {2}
    assert _numbers(store) == _numbers(undisturbed)


def test_a_lane_that_does_not_fit_alone_ends_the_run(undisturbed, tmp_path):
    run = pack_run.PackRun(PACK, PACK.trial_ids, Destination(Store.open(tmp_path), ORIGIN), Device(holds=0).trainer)
    with pytest.raises(jax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED"):
        _finish(run)
    assert run.training.lanes == 1
