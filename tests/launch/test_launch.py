"""How a launch starts: the environment of workers, addresses, signals; whole runs are in end_to_end/test_run."""

import contextlib
import os
import py_compile
import re
import signal
import socket
import time

import pytest

from sweeper import events, launch
from sweeper.interruption import SIGNALS, Interruption, starting_deaf_processes
from sweeper.launch import cluster, ray_internals
from sweeper.launch.code_snapshot import CodeSnapshot, code_snapshot
from sweeper.launch.environment import worker_environment
from sweeper.launch.job import LaunchError, SetupError
from sweeper.listeners.heartbeats import HeartbeatWriter
from sweeper.packs import plan, rehearsal
from sweeper.packs.failures import reason
from sweeper.packs.rehearsal import Rehearsal
from sweeper.space import search_space
from sweeper.space.resources import Resources
from sweeper.store.store import Store
from sweeper.sweeps import on_cluster
from sweeper.sweeps.output import Output
from sweeper.trial import jax_settings, plugins
from sweeper.trial.contract_checks import ContractError
from sweeper.trial.project_files import git
from sweeper.trial.trial import Trial
from tests.experiments.toy import TOY, toy_trial
from tests.experiments.toy import project as toy_project
from tests.processes import python
from tests.results import PROVENANCE
from tests.trials import coloring_trial

pytestmark = pytest.mark.slow

AS_USER = [] if os.geteuid() else ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
"""Before a command: root may then read no more than other users."""


@pytest.mark.long
@pytest.mark.parametrize("name", ["quickstart", "gridworld_small", "recall", "classification"])
def test_the_driver_never_starts_jax(name):
    """Jax in the driver would hold a GPU that a trial needs, and warn of its threads when the driver starts Ray.

    So the driver asks for the names of metrics, and what plug-ins compute, without asking JAX for its platform. Only
    the private `jax._src` says whether JAX has started: every public question starts it.
    """
    code = (
        "from pathlib import Path\n"
        "import jax._src.xla_bridge as bridge\n"
        "from sweeper import launch\n"
        "from sweeper.commands import run\n"
        "from sweeper.sweeps import training\n"
        "from sweeper.packs import conformance, plan\n"
        "from sweeper.space import search_space\n"
        "from tests.trials import coloring_trial\n"
        f"space = search_space.read(Path('search_spaces/{name}.yaml'))\n"
        "space.expand()\n"
        "space.names.metrics\n"
        "conformance.check_values([coloring_trial()])\n"
        "assert not bridge.backends_are_initialized()"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr


def test_a_worker_gets_one_thread_the_flags_of_the_driver_and_no_gpu_by_chance(monkeypatch):
    monkeypatch.setitem(jax_settings.environment, "XLA_FLAGS", "--some_flag")
    one, two, gpu = (worker_environment(r) for r in (Resources(), Resources(cpus=2), Resources(gpus=0.5)))
    assert one == two
    assert (one["PJRT_NPROC"], one["OPENBLAS_NUM_THREADS"], one["XLA_FLAGS"]) == ("1", "1", "--some_flag")
    assert (one["JAX_PLATFORMS"], one["CUDA_VISIBLE_DEVICES"]) == ("cpu", "")
    assert not {"JAX_PLATFORMS", "CUDA_VISIBLE_DEVICES"} & gpu.keys()
    assert (gpu["XLA_PYTHON_CLIENT_PREALLOCATE"], gpu["XLA_CLIENT_MEM_FRACTION"]) == ("false", "0.95")
    assert "XLA_CLIENT_MEM_FRACTION" not in one
    # JAX refuses to start where both names are set.
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.5")
    assert "XLA_CLIENT_MEM_FRACTION" not in worker_environment(Resources(gpus=1))


def test_addresses_that_lead_nowhere(monkeypatch, tmp_path):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert cluster.running_cluster(None) is None
    assert cluster.running_cluster("local") is None
    with pytest.raises(LaunchError):
        cluster.running_cluster("auto")
    # Ray replaces the address of the loopback by that of the machine.
    for address, place in (("127.0.0.1:1", r"\S:1: "), ("ray://head:10001", "ray://head:10001")):
        with pytest.raises(LaunchError, match=place):
            cluster.running_cluster(address)
    # `ray start` leaves the address of its cluster behind, also after the cluster's death.
    (tmp_path / "ray_current_cluster").write_text("127.0.0.1:1")
    assert cluster.running_cluster(None) is None
    for address in ("127.0.0.1:1", "ray://head:10001", "head", "http://127.0.0.1:1", "auto"):
        monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(LaunchError, match=rf"{re.escape(address)} .*RAY_ADDRESS"):
            cluster.running_cluster(None)


def test_auto_is_not_the_private_cluster_of_another_driver(monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as private:
        address = f"127.0.0.1:{private.getsockname()[1]}"
        monkeypatch.setattr(ray_internals.services, "find_gcs_addresses", lambda: {address})
        for variable, named in (("auto", None), ("auto", "auto"), ("", "auto")):
            monkeypatch.setenv("RAY_ADDRESS", variable)
            with pytest.raises(LaunchError, match="no running cluster"):
                cluster.running_cluster(named)


def test_a_token_sets_the_mode_in_which_ray_is_imported():
    program = "from sweeper.launch import environment; import os; print(os.environ['RAY_AUTH_MODE'])"
    assert python("-c", program, RAY_AUTH_TOKEN="ab" * 32, check=True).stdout.strip() == "token"


def test_a_worker_has_no_settings_of_jax_that_its_node_has():
    program = (
        "from sweeper.launch import environment; import jax, os;"
        "print(jax.config.jax_enable_x64, os.environ.get('JAX_PLATFORMS'), os.environ.get('JAX_COMPILATION_CACHE_DIR'))"
    )
    node = {"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu", "JAX_COMPILATION_CACHE_DIR": "/scratch"}
    done = python("-c", program, SWEEPER_WORKER="1", check=True, **node)
    assert done.stdout.split() == ["False", "cpu", "/scratch"]


def test_the_cores_of_a_local_cluster_are_those_of_this_process(monkeypatch):
    monkeypatch.setattr(ray_internals.utils, "get_num_cpus", lambda **options: 64)
    assert ray_internals.cores() <= os.cpu_count()
    monkeypatch.setattr(ray_internals.utils, "get_num_cpus", lambda **options: 1.5)  # the quota of a container
    assert ray_internals.cores() == 1


@pytest.mark.parametrize("answer", ["note", "exit"])
def test_a_process_that_waits_for_ever_is_gone_in_time(answer):
    code = (
        "import signal, time\n"
        "from sweeper.interruption import Interruption\n"
        "interruption = Interruption()\n"
        "interruption.listen()\n"
        "interruption.leave_within(0.5)\n"
        f"with interruption.answered_by('{answer}'):\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "    time.sleep(300)"
    )
    done = python("-c", code)
    assert done.returncode == 143
    assert "the same command carries on" in done.stderr


def test_a_reason_is_one_line_with_its_place():
    with pytest.raises(Exception) as caught:
        search_space.read("x.yaml", ["=\nbad"]).expand()
    assert "\n" not in reason(caught.value)
    assert "(sweeper/" in reason(caught.value)
    assert reason(OSError(28, "No space left on device")) == "[Errno 28] No space left on device"


def test_what_nohup_ignores_stays_ignored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    Interruption().listen()
    signal.raise_signal(signal.SIGHUP)


@pytest.mark.parametrize("signum", SIGNALS)
def test_every_signal_that_asks_to_stop_is_noted_while_packs_run(signum):
    interruption = Interruption()
    interruption.listen()
    with interruption.answered_by("note"):
        signal.raise_signal(signum)
        assert interruption.signum == interruption.arrived() == signum
        again = pytest.raises(KeyboardInterrupt) if signum != signal.SIGXCPU else contextlib.nullcontext()
        with again:  # a limit of CPU time is told every second
            signal.raise_signal(signum)


def test_tune_leaves_the_signals_to_the_driver(monkeypatch):
    from ray.tune import tune

    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    monkeypatch.setenv("TUNE_DISABLE_SIGINT_HANDLER", "1")
    with ray_internals.own_signals():
        assert not tune._setup_signal_catching().is_set()
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN


def test_what_a_start_has_started_does_not_hear_batch_systems_until_a_plug_in_wants_to(tmp_path):
    """Ray's processes, and the workers that they start; a plug-in may set a timer."""
    worker = (
        "import signal, time\n"
        "from sweeper.interruption import OF_BATCH_SYSTEMS, ignore_batch_systems\n"
        "for deaf in (lambda: None, ignore_batch_systems):\n"
        "    deaf()\n"
        "    for signum in OF_BATCH_SYSTEMS:\n"
        "        signal.raise_signal(signum)\n"
        "rang = []\n"
        "signal.signal(signal.SIGALRM, lambda *given: rang.append(given))\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.01)\n"
        "time.sleep(0.2)\n"
        "print(len(rang))"
    )
    with starting_deaf_processes():
        assert python("-c", worker).stdout == "1\n"


def rehearse(snapshot: CodeSnapshot, *trials: Trial) -> None:
    programs = list(map(rehearsal.programs, trials))
    with Rehearsal(trials, programs, [None] * len(trials)).elsewhere(snapshot.environment(), snapshot.project):
        pass


def test_no_process_compiles_a_module_again():
    py_compile.compile(str(plugins.PACKAGE / "messages.py"))
    with code_snapshot([]) as snapshot:
        ran = python("-P", "-v", "-c", "import sweeper.messages", cwd=snapshot.project, **snapshot.environment())
    assert re.search(rf"code object from '{snapshot.packages}/sweeper/__pycache__/messages\.", ran.stderr)


def test_a_start_that_fails_meanwhile_ends_the_rehearsal():
    with code_snapshot([]) as snapshot:
        (snapshot.packages / "sweeper" / "packs" / "rehearsal.py").write_text("import time; time.sleep(20)")
        begun, trials = time.monotonic(), [coloring_trial()]
        meanwhile = Rehearsal(trials, [{}], [None]).elsewhere(snapshot.environment(), snapshot.project)
        with pytest.raises(ZeroDivisionError), meanwhile:
            raise ZeroDivisionError
    assert time.monotonic() - begun < 20


MINE = """from typing import Literal
from plain.sizes import CYCLE
from tasks import coloring

class Task(coloring.Task):
    name: Literal["mine"] = "mine"
    vertices: int = CYCLE
"""


def test_what_workers_would_not_have_ends_the_start_with_file_and_line(project, monkeypatch):
    monkeypatch.syspath_prepend(project)
    files = {
        "tasks/mine.py": MINE, ".gitignore": "/plain/\n",
        "plain/__init__.py": "", "plain/sizes.py": "CYCLE = 5\n",
    }  # fmt: skip
    git(project, "init", "-q")
    (project / "plain").mkdir()
    for name, text in files.items():
        (project / name).write_text(text)
    complaint = re.escape(f"{project / 'tasks' / 'mine.py'}, line 2: ModuleNotFoundError: No module named 'plain'")
    with code_snapshot([]) as snapshot, pytest.raises(ContractError, match=complaint):
        rehearse(snapshot, coloring_trial(task={"name": "mine"}))


@pytest.mark.parametrize(
    ("expression", "space", "copied"),
    [
        ("'data/named.npy'", "", {"data/named.npy"}),
        ("f'data/level{self.points}.npz'", "", {"data/level3.npz"}),
        ("'data/part_%d.csv' % self.points", "", {"data/part_3.csv"}),
        ("Path('data').glob('part*.csv')", "", {"data/part_3.csv"}),
        ("self.name", "experiment: {name: toy, path: ./data/big.bin}", {"data/big.bin"}),
        ("self.name", "folder=data/images", {"data/images/1", "data/images/2"}),
        ("'other.npy'", "data: {name: toy}", set()),
    ],
)
def test_the_copy_has_code_and_what_plug_ins_or_the_space_name(tmp_path, expression, space, copied):
    data = ["named.npy", "level3.npz", "part_3.csv", "big.bin", "images/1", "images/2"]
    for name in ["sub/helpers.py", "tasks/mine.py", *(f"data/{name}" for name in data)]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    text = TOY.replace("return jnp.linspace", f"_ = {expression}; return jnp.linspace")
    with toy_project(tmp_path, toy=text), code_snapshot([toy_trial()], space) as snapshot:
        every = [path.relative_to(snapshot.project) for path in snapshot.project.rglob("*") if path.is_file()]
    files = {str(path) for path in every if path.suffix != ".pyc"}
    assert files == {"experiments/toy.py", "sub/helpers.py", "tasks/mine.py", *copied}


def test_a_project_that_cannot_be_copied_is_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(plugins, "PROJECT", tmp_path)
    (tmp_path / "task.py").touch()
    monkeypatch.setattr("shutil.copy", lambda *_: os.read(os.open(tmp_path, os.O_RDONLY), 1))
    with pytest.raises(SetupError, match=r"^the project cannot be copied [^\n]*$"), code_snapshot([]):
        pass


def test_a_copy_too_large_for_a_cluster_is_refused_with_the_way_out(monkeypatch, tmp_path):
    def refused(**_):
        raise ValueError("Package size (700MiB) exceeds the maximum size of 512MiB. To exclude")

    monkeypatch.setattr(cluster.ray, "init", refused)
    with pytest.raises(SetupError, match=r"700MiB.*full paths"):
        cluster._connect("127.0.0.1:1", {}, CodeSnapshot(tmp_path, tmp_path))


def test_a_pack_too_large_for_this_machine_is_refused(monkeypatch):
    monkeypatch.setattr(cluster.ray, "cluster_resources", lambda: {"CPU": 2.0})
    for fits in (Resources(cpus=2), Resources(population_workers=2)):
        cluster.refuse_too_large(fits)
    for resources, named in (
        (Resources(cpus=4096), "4096 CPUs"), (Resources(gpus=1.0), "1 GPU"), (Resources(population_workers=3), "3 CPUs")
    ):  # fmt: skip
        with pytest.raises(SetupError, match=f"takes {named}"):
            cluster.refuse_too_large(resources)


@pytest.mark.parametrize(("error", "code"), [(SetupError("no room"), 2), (LaunchError("no answer"), 1)])
def test_a_start_that_gets_no_cluster_ends_with_the_reason_unless_a_signal_came(monkeypatch, tmp_path, error, code):
    def refused(*_):
        raise error

    monkeypatch.setattr(launch, "connected", refused)
    store = Store.open(tmp_path / "results")
    planned = events.SweepPlanned("quick", trials=0, done=0, failed=0, steps={}, programs=0)
    source = plan.ListedWork(plan.plan({}, None, {}, frozenset()))
    job = launch.Job(source, lambda: planned, store, PROVENANCE, Resources(), launch.Training())
    heartbeats = HeartbeatWriter(store, "", lambda: None)
    with pytest.raises(on_cluster.SweepError, match=str(error)) as ended:
        on_cluster.launched(job, None, [heartbeats], Output(), Interruption(), Rehearsal())
    assert ended.value.code == code
    interruption = Interruption()
    interruption.ask()
    with pytest.raises(KeyboardInterrupt):
        on_cluster.launched(job, None, [heartbeats], Output(), interruption, Rehearsal())
    assert store.listing("drivers") == [], "no heartbeat is left behind"
