"""What passes between driver and workers, and what a worker does with it; whole runs are in test_run."""

import contextlib
import math
import pickle
import signal
import stat
import subprocess
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import cloudpickle
from ray.tune.experiment import Trial

from sweeper.interruption import Interruption
from sweeper.launch import cluster, failures, tune_driver, tune_worker
from sweeper.packs import plan
from sweeper.packs.packing import Pack
from sweeper.space import search_space
from sweeper.space.resources import Resources
from sweeper.store.store import Store, StoreError
from sweeper.trial import plugins, provenance
from sweeper.trial.trial_spec import TrialSpec
from tests.trials import coloring_trial


@pytest.fixture
def signals() -> Iterator[None]:
    """Puts signal handlers back as they were."""
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


def test_the_driver_never_starts_jax():
    """It would hold a GPU that a trial needs, and warn of its threads when it starts Ray."""
    code = (
        "from pathlib import Path\n"
        "import jax._src.xla_bridge as bridge\n"
        "from sweeper import launch, run, sweep\n"
        "from sweeper.packs import plan\n"
        "from sweeper.space import search_space\n"
        "for path in Path('search_spaces').glob('gridworld_*.yaml'):\n"
        "    search_space.read(path).expand()\n"
        "assert not bridge.backends_are_initialized()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=plugins.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_work_survives_the_way_to_a_worker():
    pack = Pack((coloring_trial(objective={"q": math.inf, "m": 2}), coloring_trial(objective={"q": 1.1, "m": 2})))
    work = plan.Work(pack, pack.trial_ids[1:])
    config = tune_worker.encoded(work)
    assert set(map(type, config.values())) == {str}
    assert plan.Work(*tune_worker.decoded(config)) == work
    assert tune_worker.decoded(config)[0].pack_id == pack.pack_id
    for sent in (provenance.capture(["sweeper/run.py", "x.yaml"]), Resources(lanes=3, gpus=0.5)):
        assert cloudpickle.loads(cloudpickle.dumps(sent)) == sent


def test_a_worker_gets_the_threads_of_its_cores_and_no_gpu_by_chance(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--some_flag")
    one, two, gpu = (cluster.worker_environment(r) for r in (Resources(), Resources(cpus=2), Resources(gpus=0.5)))
    assert (one["PJRT_NPROC"], two["PJRT_NPROC"]) == ("1", "2")
    assert one["XLA_FLAGS"] == "--some_flag --xla_cpu_multi_thread_eigen=false"
    assert "XLA_FLAGS" not in two
    assert (one["JAX_PLATFORMS"], one["CUDA_VISIBLE_DEVICES"]) == ("cpu", "")
    assert not {"JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES"} & gpu.keys()
    assert gpu["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"


def test_addresses_that_lead_nowhere(monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert cluster.running_cluster(None) is None
    assert cluster.running_cluster("local") is None
    with pytest.raises(failures.LaunchError, match="no running Ray cluster"):
        cluster.running_cluster("auto")
    with pytest.raises(failures.LaunchError, match="no Ray cluster answers"):
        cluster.running_cluster("127.0.0.1:1")
    with pytest.raises(failures.LaunchError, match="Ray Client"):
        cluster.running_cluster("ray://head:10001")
    # `ray start` leaves the address of its cluster behind, also after the cluster's death.
    (tmp_path / "ray_current_cluster").write_text("127.0.0.1:1")
    assert cluster.running_cluster(None) is None
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(failures.LaunchError, match="no Ray cluster answers"):
        cluster.running_cluster(None)


def test_a_process_that_waits_for_ever_is_gone_in_time():
    code = (
        "import signal, time\n"
        "from sweeper.interruption import Interruption\n"
        "interruption = Interruption()\n"
        "interruption.listen()\n"
        "interruption.leave_within(0.5)\n"
        "with interruption.answered_by('note'):\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "    time.sleep(300)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=plugins.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 143
    assert "the same command carries on" in done.stderr


def test_the_compilation_cache_is_private(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tune_worker.private_folder("x")
    assert folder is not None
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    folder.parent.chmod(0o770)
    assert tune_worker.private_folder("x") is None
    folder.parent.chmod(0o700)
    folder.parent.rename(tmp_path / "elsewhere")
    (tmp_path / folder.parent.name).symlink_to(tmp_path / "elsewhere")
    assert tune_worker.private_folder("x") is None


def test_a_reason_is_one_line_with_its_place():
    with pytest.raises(Exception) as caught:
        search_space.read("x.yaml", ["=\nbad"]).expand()
    assert "\n" not in failures.reason(caught.value)
    assert "(sweeper/" in failures.reason(caught.value)
    assert failures.reason(OSError(28, "No space left on device")) == "[Errno 28] No space left on device"


def test_signals_are_answered_as_the_moment_demands(signals, monkeypatch):
    interruption = Interruption()
    interruption.listen()
    with interruption.answered_by("note"):
        signal.raise_signal(signal.SIGINT)
        assert interruption.signum == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert interruption.signum == signal.SIGINT
    with pytest.raises(KeyboardInterrupt):
        interruption.check()
    with interruption.answered_by("ignore"):
        signal.raise_signal(signal.SIGINT)

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr("os._exit", leave)
    for answer, outcome in (("raise", KeyboardInterrupt), (None, SystemExit)):
        interruption = Interruption()
        interruption.listen()
        with interruption.answered_by(answer) if answer else contextlib.nullcontext(), pytest.raises(outcome) as caught:
            signal.raise_signal(signal.SIGTERM)
        assert interruption.signum == signal.SIGTERM
    assert caught.value.code == 143

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interruption.listen()
    signal.raise_signal(signal.SIGHUP)


class Worker(tune_worker.PackTrainable):
    """A worker without Ray around it, which is given its orders beforehand."""

    def __init__(self, work: plan.Work, store: Path, orders: Iterable[tune_worker.Order] = ()):
        self.given = iter(orders)
        context = {"orders": None, "store": str(store), "provenance": provenance.capture(["test"])}
        self.setup(tune_worker.encoded(work), **context, resources=Resources(checkpoint_seconds=1e9))

    def _order(self, pack_id: str) -> tune_worker.Order:
        return next(self.given, "carry on")


@pytest.fixture
def strides(monkeypatch) -> None:
    """Workers report after every stride."""
    monkeypatch.setattr(tune_worker, "REPORT_SECONDS", 0.0)
    monkeypatch.setattr(tune_worker, "_keep_compilations", lambda cpus: None)


def whole(*trials: TrialSpec) -> plan.Work:
    pack = Pack(trials)
    return plan.Work(pack, pack.trial_ids)


@pytest.mark.slow
def test_a_worker_told_to_leave_goes_on_where_it_was(strides, tmp_path):
    work = whole(coloring_trial())
    leaving = Worker(work, tmp_path, ["carry on", "leave"])
    assert leaving.step()["step"] == 100
    assert leaving.step()["done"]
    assert list(tmp_path.glob("checkpoints/*"))
    successor = Worker(work, tmp_path)
    assert [successor.step()["step"] for _ in range(2)] == [200, 250]
    assert successor.step()["done"]
    assert Store.open(tmp_path).committed() == {work.pending[0]: "finished"}
    # A pack that has not begun leaves nothing.
    assert Worker(work, tmp_path, ["leave"]).step() == {"done": True}


def test_a_worker_told_to_stop_early_commits_what_it_has(strides, tmp_path):
    work = whole(coloring_trial())
    worker = Worker(work, tmp_path, ["carry on", "stop early"])
    while not worker.step()["done"]:
        pass
    assert Store.open(tmp_path).trials()["steps_done"].to_pylist() == [100]
    assert Store.open(tmp_path).committed() == {work.pending[0]: "stopped"}


def test_a_broken_store_is_nobodys_failure(strides, tmp_path, monkeypatch):
    def full(store: Store, result: Any) -> bool:
        raise StoreError("no space left")

    work = whole(coloring_trial())
    worker = Worker(work, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "commit", full)
        while not (report := worker.step())["done"]:
            pass
    assert report["lost"] == "no space left"
    assert Store.open(tmp_path).committed() == {}
    # Nothing is trained again once there is space.
    report = Worker(work, tmp_path).step()
    assert (report["step"], report["committed"], report["done"]) == (250, 1, True)


def test_a_pack_too_large_for_this_machine_is_refused(monkeypatch):
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0})
    cluster.refuse_too_large(Resources(cpus=2))
    with pytest.raises(failures.TooLarge, match=r"resources\.cpus: a pack takes 4096 CPUs, this machine has 2"):
        cluster.refuse_too_large(Resources(cpus=4096))
    with pytest.raises(failures.TooLarge, match=r"resources\.gpus: a pack takes 1 GPU, this machine has 0"):
        cluster.refuse_too_large(Resources(gpus=1.0))
    cluster.refuse_too_large(Resources(population_workers=2))
    with pytest.raises(
        failures.TooLarge, match=r"resources\.population_workers: a pack takes 3 CPUs, this machine has"
    ):
        cluster.refuse_too_large(Resources(population_workers=3))


class Told:
    """Notes what a conductor tells the user."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def started(self, work: plan.Work) -> None: ...

    def progress(self, pack_id: str, fields: dict[str, Any]) -> None: ...

    def ended(self, pack_id: str) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)

    def tick(self) -> None: ...


class TuneTrial(Trial):
    """A trial of Tune whose worker has died; a whole one cannot be had without a cluster."""

    last_result = types.MappingProxyType({"step": 100})
    pickled_error_file = ""

    def __init__(self, work: plan.Work, folder: Path):
        self.trial_id, self.config = "0001", tune_worker.encoded(work)
        self.pickled_error_file = str(folder / "error")
        Path(self.pickled_error_file).write_bytes(pickle.dumps(ray.exceptions.ActorDiedError()))

    @property
    def pending(self) -> tuple[str, ...]:
        return tune_worker.decoded(self.config)[1]


@pytest.fixture
def dying(strides, tmp_path):
    """A pack of two under way: the conductor, what it tells, Tune's trial and a worker."""
    work = whole(coloring_trial(), coloring_trial(seed=1))
    store, told = Store.open(tmp_path / "results"), Told()
    source = plan.Listed(
        plan.plan(work.pack.trials, None, {}, plan.done_statuses(early_stopping=False, retry_failed=False))
    )
    assert source.next() == work
    made = tune_driver._Conductor(source, store, provenance.capture(["test"]), told, Interruption(), None)
    return made, told, TuneTrial(work, tmp_path), Worker(work, tmp_path / "results"), source, store


@pytest.mark.slow
def test_after_a_death_committed_trials_are_not_run_again(dying):
    made, told, trial, worker, _, store = dying
    first, second = trial.pending
    while not store.committed():
        worker.step()
    made.on_trial_recover(0, [], trial)
    assert trial.pending == (second,)
    while len(store.committed()) < 2:
        worker.step()
    # The last worker died between its last commit and its report, and so does the one that takes its place.
    for _ in range(2):
        made.on_trial_recover(0, [], trial)
        assert trial.pending == ()
    assert Worker(plan.Work(*tune_worker.decoded(trial.config)), Path(store.root)).step() == {"done": True}
    assert told.notes[0].startswith(f"a worker died with trial {first} and 1 more of its pack")
    assert not list(Path(store.root).glob("checkpoints/*"))


def test_a_worker_that_dies_between_two_packs_fails_neither(dying):
    made, told, trial, _, source, store = dying
    for _ in range(tune_driver.MAX_WORKER_DEATHS):
        made.on_trial_error(0, [], trial)
        assert source.next() == plan.Work(*tune_worker.decoded(trial.config))
    assert told.notes[-1].endswith("the pack is started again")
    made.on_trial_error(0, [], trial)
    assert source.exhausted
    assert set(store.trials()["error_message"].to_pylist()) == {"its worker died 4 times"}
