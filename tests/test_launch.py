"""What passes between driver and workers, and runs of `launch` on one small cluster."""

import math
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import ray
from ray import cloudpickle

from sweeper import launch, plan, provenance, search_space
from sweeper.interruption import Interruption
from sweeper.packing import Pack
from sweeper.search_space import Resources
from sweeper.spec import trial_id
from sweeper.store import Store
from tests.trials import coloring_trial

SPACE = """
trial:
  task: {name: coloring, vertices: 5}
  model: {name: transformer, width: 4, key_size: 4}
  baseline: Aq_R
  objective: {q: 2, m: 2}
  batch_size: 8
  evaluation: {seeds: 10, votes: [5]}
"""


class Notes:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.started_packs: list[str] = []
        self.ended_packs: list[str] = []

    def started(self, work: plan.Work) -> None:
        self.started_packs.append(work.pack.pack_id)

    def progress(self, pack_id: str, fields: dict[str, Any]) -> None:
        pass

    def ended(self, pack_id: str) -> None:
        self.ended_packs.append(pack_id)

    def note(self, text: str) -> None:
        self.lines.append(text)

    def tick(self) -> None:
        pass


@pytest.fixture
def signals() -> Iterator[None]:
    """Puts signal handlers back as they were."""
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


def test_work_survives_the_way_to_a_worker():
    pack = Pack((coloring_trial(objective={"q": math.inf, "m": 2}), coloring_trial(objective={"q": 1.1, "m": 2})))
    work = plan.Work(pack, pack.trial_ids[1:])
    config = launch.encoded(work)
    assert set(map(type, config.values())) == {str}
    assert plan.Work(*launch.decoded(config)) == work
    assert launch.decoded(config)[0].pack_id == pack.pack_id
    for sent in (provenance.capture(["sweeper/run.py", "x.yaml"]), Resources(lanes=3, gpus=0.5)):
        assert cloudpickle.loads(cloudpickle.dumps(sent)) == sent


def test_a_worker_gets_the_threads_of_its_cores_and_no_gpu_by_chance(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--some_flag")
    one, two, gpu = (launch.worker_environment(r) for r in (Resources(), Resources(cpus=2), Resources(gpus=0.5)))
    assert (one["PJRT_NPROC"], two["PJRT_NPROC"]) == ("1", "2")
    assert one["XLA_FLAGS"] == "--some_flag --xla_cpu_multi_thread_eigen=false"
    assert "XLA_FLAGS" not in two
    assert one["JAX_PLATFORMS"] == "cpu"
    assert "JAX_PLATFORMS" not in gpu
    assert gpu["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"


def test_addresses_that_lead_nowhere(monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert launch.running_cluster(None) is None
    assert launch.running_cluster("local") is None
    with pytest.raises(launch.LaunchError, match="no running Ray cluster"):
        launch.running_cluster("auto")
    with pytest.raises(launch.LaunchError, match="no Ray cluster answers"):
        launch.running_cluster("127.0.0.1:1")
    with pytest.raises(launch.LaunchError, match="Ray Client"):
        launch.running_cluster("ray://head:10001")
    # `ray start` leaves the address of its cluster behind, also after the cluster's death.
    (tmp_path / "ray_current_cluster").write_text("127.0.0.1:1")
    assert launch.running_cluster(None) is None
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(launch.LaunchError, match="no Ray cluster answers"):
        launch.running_cluster(None)


def test_the_compilation_cache_is_private(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = launch.private_folder("x")
    assert folder is not None
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    folder.parent.chmod(0o770)
    assert launch.private_folder("x") is None
    folder.parent.chmod(0o700)
    folder.parent.rename(tmp_path / "elsewhere")
    (tmp_path / folder.parent.name).symlink_to(tmp_path / "elsewhere")
    assert launch.private_folder("x") is None


def test_a_reason_is_one_line_with_its_place():
    with pytest.raises(Exception) as caught:
        search_space.read("x.yaml", ["=\nbad"]).expand()
    assert "\n" not in launch.reason(caught.value)
    assert "(sweeper/" in launch.reason(caught.value)
    assert launch.reason(OSError(28, "No space left on device")) == "[Errno 28] No space left on device"


def test_the_first_signal_waits_only_while_somebody_looks(signals):
    interruption = Interruption()
    interruption.listen()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    assert interruption.signum == signal.SIGTERM

    interruption = Interruption()
    interruption.listen()
    interruption.patient = True
    signal.raise_signal(signal.SIGINT)
    assert interruption.signum == signal.SIGINT
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    assert interruption.signum == signal.SIGINT

    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interruption.listen()
    signal.raise_signal(signal.SIGHUP)


@pytest.fixture(scope="module")
def interruption() -> Iterator[Interruption]:
    """A local cluster for all tests that follow."""
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    interruption = Interruption()
    with launch.cluster("local", Resources(), interruption):
        yield interruption
    for signum, handler in before.items():
        signal.signal(signum, handler)
    assert not ray.is_initialized()


def read(folder: Path, text: str) -> search_space.SweepSpec:
    path = folder / "space.yaml"
    path.write_text(SPACE + text)
    return search_space.read(path)


NotesT = TypeVar("NotesT", bound=Notes)


def run(
    source: plan.Source,
    store: Store,
    spec: search_space.SweepSpec,
    interruption: Interruption,
    notes: NotesT,
    concurrency: int | None = None,
) -> NotesT:
    origin = provenance.capture(["test"])
    losses = launch.launch(
        source, store, origin, spec.resources, spec.search.early_stopping, concurrency, notes, interruption
    )
    assert losses == []
    return notes


@pytest.mark.slow
def test_asha_stops_what_falls_behind_and_commits_it(interruption, tmp_path):
    spec = read(
        tmp_path,
        """
  steps: 20000
  optimizer: {warmup_steps: 0, learning_rate: {choice: [1.0e-2, 1.0e-9]}}
search: {early_stopping: {grace_steps: 500, reduction_factor: 2}}
""",
    )
    store = Store.open(tmp_path / "results")
    source = plan.Listed(plan.plan(spec.expand().trials, None, {}, False))
    notes = run(source, store, spec, interruption, Notes(), concurrency=1)
    rows = sorted(store.trials().to_pylist(), key=lambda row: -row["learning_rate"])
    assert [row["status"] for row in rows] == ["finished", "stopped"]
    assert 500 <= rows[1]["steps_done"] < 20000
    assert rows[1]["success"] is not None
    assert len(notes.ended_packs) == 2
    assert not list((tmp_path / "results" / "checkpoints").glob("*"))


class Threads(Notes):
    """Counts the threads of XLA in every worker."""

    def __init__(self) -> None:
        super().__init__()
        self.most: dict[int, int] = {}

    def tick(self) -> None:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if b"ResourceTrainable" in (process / "cmdline").read_bytes():
                    names = [(thread / "comm").read_text() for thread in process.glob("task/*")]
                    count = sum("XLAEigen" in name for name in names)
                    self.most[int(process.name)] = max(count, self.most.get(int(process.name), 0))
            except OSError:
                continue  # it has just ended


@pytest.mark.slow
def test_an_optuna_search_runs_and_resumes_on_one_thread_a_worker(interruption, tmp_path):
    spec = read(
        tmp_path,
        """
  steps: 100
  optimizer: {warmup_steps: 0, learning_rate: {log_uniform: [1.0e-5, 1.0e-1]}}
search: {method: optuna, trials: 10, metric: loss, mode: min}
""",
    )
    store = Store.open(tmp_path / "results")

    def values(trials: Any) -> list[float]:
        return store.trials(map(trial_id, trials))["loss"].to_pylist()

    source = plan.Study(spec, {}, False, values)
    notes = run(source, store, spec, interruption, Threads())
    assert set(notes.most.values()) == {1}, notes.most
    assert source.exhausted
    assert set(store.committed()) == set(source.planned)
    assert len(notes.ended_packs) == 10
    again = plan.Study(spec, store.committed(), False, values)
    assert again.exhausted
    assert list(again.planned) == list(source.planned)
