"""What passes between driver and worker, and what a worker does with it, without Ray."""

import math
from typing import Any

import jax
import pytest
from ray import cloudpickle

from sweeper.events import PackProgressed
from sweeper.launch.job import SHORT, Report, Training, decoded, encoded
from sweeper.launch.tune_worker import Pace
from sweeper.packs import pack_run, plan
from sweeper.packs.failures import Failed, Lost
from sweeper.packs.packing import Pack
from sweeper.space.early_stopping import EarlyStopping
from sweeper.space.resources import Resources
from sweeper.store.store import Store, StoreError
from sweeper.trial import provenance
from tests.launch.workers import EVALUATION, PAIR, Worker, ended, whole
from tests.trials import coloring_trial

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("programs")]


def test_work_survives_the_way_to_a_worker():
    pack = Pack((coloring_trial(objective={"q": math.inf, "m": 2}), coloring_trial(objective={"q": 1.1, "m": 2})))
    work = plan.Work(pack, pack.trial_ids[1:])
    config = encoded(work)
    assert set(map(type, config.values())) == {str}
    assert decoded(config) == work
    assert decoded(config).pack.pack_id == pack.pack_id
    origin = provenance.capture("python -m sweeper.run x.yaml")
    for sent in (origin, Resources(lanes=3, gpus=0.5), Training(EarlyStopping(grace_steps=5)), EVALUATION):
        assert cloudpickle.loads(cloudpickle.dumps(sent)) == sent


def test_a_worker_reports_every_evaluation_at_once(tmp_path):
    stopping = EarlyStopping(metric="success", mode="max", every=100, grace_steps=100)
    slow = Pace(seconds=1000.0, longest_seconds=1000.0)
    worker = Worker(PAIR, tmp_path, work_kind=Training(stopping), pace=slow)
    evaluated = [worker.report().progress.evaluated for _ in range(2)]
    assert [step for step, _ in evaluated] == [100, 200]
    assert all(0 <= value <= 1 for _, value in evaluated)


def test_a_worker_told_to_leave_goes_on_where_it_was(tmp_path):
    leaving = Worker(PAIR, tmp_path, ["carry on", "leave"])
    assert leaving.report().progress.step == 100
    assert leaving.report().done
    assert list(tmp_path.glob("checkpoints/*"))
    successor = Worker(PAIR, tmp_path)
    assert [successor.report().progress.step for _ in range(2)] == [200, 300]
    ended(successor)
    assert Store.open(tmp_path).committed() == dict.fromkeys(PAIR.pending, "finished")
    # A pack that has not begun leaves nothing.
    assert Worker(PAIR, tmp_path, ["leave"]).report() == Report(done=True)


class _Quarters:
    """A run of which every stride takes a quarter of a second of a clock of its own."""

    def __init__(self):
        self.now, self.strides = 0.0, 0

    def monotonic(self) -> float:
        return self.now

    def progress(self) -> PackProgressed:
        return PackProgressed("pack", "training", self.strides, 10**9, 1, {}, 0.0, 4.0)

    def advance(self) -> PackProgressed:
        self.strides += 1
        self.now += 0.25
        print("stride", self.strides)
        return self.progress()


def test_a_worker_that_waits_for_the_driver_reports_less_often(tmp_path):
    run = _Quarters()

    class Running(Worker):
        def _started(self, work: plan.Work) -> Any:
            return run

    worker = Running(PAIR, tmp_path, pace=Pace(clock=run.monotonic))
    assert worker.step()["reports"][0].progress.phase == "compiling"
    strides = []
    for waited in (0.0, 0.05, 0.3, 60.0, 0.0):
        run.now += waited
        before = run.strides
        worker.step()
        strides.append(run.strides - before)
    assert strides == [4, 4, 12, 20, 4]
    assert worker.step()["reports"][0].printed == tuple(f"stride {number}" for number in range(45, 49))
    run.now += 60
    assert worker.step()["reports"][0].printed[:2] == ("stride 49", "stride 50")


def test_a_worker_runs_short_packs_on_end_and_asks_for_more(tmp_path):
    more = [whole(coloring_trial(seed=seed), coloring_trial(seed=seed + 1)) for seed in (2, 4, 6)]
    endless = Pace(seconds=1000.0, longest_seconds=1000.0)
    worker = Worker(PAIR, tmp_path, ["carry on", "carry on", "leave"], pace=endless)
    (compiling,) = worker.step()["reports"]
    assert compiling.progress.phase == "compiling"
    asked = worker.step()
    assert ([report.done for report in asked["reports"]], asked["done"]) == ([True], False)
    worker.take(map(encoded, more[:2]))
    told = worker.step()
    assert [report.progress.pack_id for report in told["reports"]] == [work.pack.pack_id for work in more[:2]]
    assert all(report.done and 0 < report.seconds < SHORT for report in told["reports"])
    assert (told["done"], len(Store.open(tmp_path).committed())) == (False, 6)
    worker.take(map(encoded, more[2:]))
    left = worker.step()
    assert (left["done"], left["reports"][0].progress) == (True, None)
    worker.reset_config(encoded(more[2]))
    assert worker.step()["reports"][0].done
    assert worker.step() == {"reports": [], "done": True}, "the driver had no more"


def test_a_tune_trial_ends_with_a_long_pack(tmp_path):
    now = [0.0]

    class Running(Worker):
        def _started(self, work: plan.Work) -> Any:
            now[0] += SHORT
            return super()._started(work)

    worker = Running(PAIR, tmp_path, pace=Pace(seconds=1000.0, longest_seconds=1000.0, clock=lambda: now[0]))
    assert not worker.step()["done"]
    assert worker.step()["done"]


def test_a_worker_says_that_it_makes_data_before_the_first_pack_of_a_cell(tmp_path):
    worker = Worker(PAIR, tmp_path)
    worker._cell = ()
    assert [worker.step()["reports"][0].progress.phase for _ in range(2)] == ["preparing", "compiling"]
    worker.reset_config(encoded(PAIR))
    assert worker.step()["reports"][0].progress.phase == "compiling"


def test_a_worker_told_to_stop_early_commits_what_it_has(tmp_path):
    ended(Worker(PAIR, tmp_path, ["carry on", "stop early"]))
    assert Store.open(tmp_path).trials()["steps_done"].to_pylist() == [100, 100]
    assert Store.open(tmp_path).committed() == dict.fromkeys(PAIR.pending, "stopped")


def test_a_broken_store_is_nobodys_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(pack_run, "SHORT", 0.0)

    def full(store: Store, result: Any) -> bool:
        raise StoreError("no space left")

    worker = Worker(PAIR, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "commit", full)
        report = ended(worker)
    assert report.trouble == Lost("no space left")
    assert Store.open(tmp_path).committed() == {}
    # Nothing is trained again once there is space.
    worker = Worker(PAIR, tmp_path)
    assert worker.report().progress.step == 300
    assert ended(worker).progress.rows == dict.fromkeys(PAIR.pending, "finished")


def test_an_exception_becomes_failed_rows_of_the_trials_without_a_row(tmp_path, monkeypatch):
    work = PAIR
    worker = Worker(work, tmp_path)
    while not worker.report().progress.rows:
        pass

    def broken(*arguments: Any) -> Any:
        raise ValueError("the wheel came off")

    monkeypatch.setattr("sweeper.learned_algorithms.evaluation.evaluate", broken)
    report = worker.report()
    assert report.done
    assert isinstance(report.trouble, Failed)
    assert report.trouble.trial_ids == work.pending[1:]
    assert report.trouble.reason.startswith("ValueError: the wheel came off")
    assert Store.open(tmp_path).committed() == {work.pending[0]: "finished", work.pending[1]: "failed"}


def test_a_device_with_too_little_memory_for_the_evaluation_fails_no_trial(tmp_path, monkeypatch):
    work = PAIR
    monkeypatch.setattr(pack_run, "SHORT", 0.0)

    def too_large(*arguments: Any) -> Any:
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 17 bytes")

    worker = Worker(work, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("sweeper.learned_algorithms.evaluation.evaluate", too_large)
        report = ended(worker)
    assert isinstance(report.trouble, Lost)
    assert report.trouble.reason.startswith("the device has too little memory: RESOURCE_EXHAUSTED")
    assert Store.open(tmp_path).committed() == {}


def test_a_worker_of_other_code_trains_nothing(tmp_path):
    origin = provenance.capture("test")
    always = origin.code.always
    other = origin.model_copy(update={"code": origin.code.model_copy(update={"always": always | {"jax": "0.1"}})})
    worker = Worker(PAIR, tmp_path, origin=other)
    sentence = f"the worker runs other code than this start; what differs: jax ({always['jax']} instead of 0.1)"
    assert worker.report() == Report(done=True, trouble=Lost(sentence, of_store=False))
    assert Store.open(tmp_path).committed() == {}


def test_a_worker_undoes_the_settings_of_its_node_and_of_an_earlier_pack(tmp_path):
    work = PAIR
    jax.config.update("jax_threefry_partitionable", False)  # of the node
    worker = Worker(work, tmp_path)
    assert jax.config.values["jax_threefry_partitionable"]
    jax.config.update("jax_enable_x64", True)  # of an earlier pack
    worker.reset_config(encoded(work))
    assert not jax.config.values["jax_enable_x64"]


def test_a_worker_evaluates_stored_networks(tmp_path):
    work, store = PAIR, Store.open(tmp_path)
    ended(Worker(work, tmp_path))
    store.write_bytes(f"checkpoints/{work.pack.pack_id}.ckpt", b"of another start")
    rows = store.trials()
    worker = Worker(work, tmp_path, work_kind=EVALUATION)
    reports = [worker.report()]
    while not reports[-1].done:
        reports.append(worker.report())
    assert [len(report.progress.rows) for report in reports] == [1, 2]
    assert len(store.listing("evaluations")) == 2
    assert store.trials() == rows
    assert Worker(plan.Work(work.pack, ()), tmp_path, work_kind=EVALUATION).report() == Report(done=True)
    assert len(store.listing("checkpoints")) == 1, "an evaluation has nothing to do with checkpoints"
