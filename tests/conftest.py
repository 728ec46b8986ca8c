"""Settings that every test shares; they must be in place before jax is first imported."""
# ruff: noqa: E402

import os
import shutil
import signal
import sys
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Ray's native part reads this once, at the first import of Ray in a process, and `sweeper.launch` may come after it.
os.environ.setdefault("RAY_AUTH_MODE", "token")
# Ray makes its workers nice, and beside a test that computes they would get a thirtieth of a core.
os.environ.setdefault("RAY_worker_niceness", "0")
# One thread a process: tests share two cores, and a worker is held to its own in the same way. Most of what they do is
# compile, so LLVM is told to be quick, and XLA to write loops in its older way (`compilation.EMITTERS`).
os.environ.setdefault("PJRT_NPROC", "1")
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_cpu_multi_thread_eigen=false --xla_backend_optimization_level=0"
    + " --xla_cpu_use_fusion_emitters=false" * version("jaxlib").startswith("0.10."),
)

import hypothesis
import jax
import jaxtyping
import pytest

# Shapes and types of arguments are checked at run time in these modules.
LEARNED = "contracts evaluation evolution gradient kind objective objective_contract policy_gradient trained_weights"
jaxtyping.install_import_hook(
    [
        *(f"sweeper.learned_algorithms.{name}" for name in f"{LEARNED} trainers trial_spec voting".split()),
        *("sweeper.training", "sweeper.trial.contract_checks", "tasks", "models", "objectives"),
    ],
    "beartype.beartype",
)

import sweeper.trial.jax_settings  # noqa: F401  XLA's flags are those of now, also if a test imports evosax first
from sweeper.interruption import SIGNALS
from sweeper.store.store import Store
from tests import s3_server
from tests.projects import in_project

# A shell makes its background processes ignore Ctrl-C, and their children inherit this; tests send Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Stores write through to the disk, thousands of times in these tests, which would wait minutes for it. No test cuts the
# power, so what reaches the disk is the same to them: they use a file system in memory where there is one with room.
IN_MEMORY = Path("/dev/shm")
if IN_MEMORY.is_dir() and os.access(IN_MEMORY, os.W_OK):
    room = os.statvfs(IN_MEMORY)
    if room.f_bavail * room.f_frsize >= 4 * 2**30 and not room.f_flag & os.ST_NOEXEC:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))

# What was compiled is kept between runs; jax does not compile the same twice then. It locks a folder whose size has a
# bound, so all processes of `make test` can share this one.
if jax.config.jax_compilation_cache_dir is None:
    jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parents[1] / ".jax_cache"))
    jax.config.update("jax_compilation_cache_max_size", 2**30)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)

hypothesis.settings.register_profile("deterministic", derandomize=True, deadline=None, database=None)
# Two thousand mutated search spaces: pytest tests/space/test_search_space.py -k traceback --hypothesis-profile thorough
hypothesis.settings.register_profile("thorough", hypothesis.settings.get_profile("deterministic"), max_examples=2000)
hypothesis.settings.load_profile("deterministic")


WITH_RAY = (
    "launch",
    *(f"end_to_end/test_{name}.py" for name in ("chaos", "cluster_files", "nodes", "other_code", "project")),
)
"""What imports Ray when it is collected, which takes seconds."""


def pytest_addoption(parser):
    parser.addoption("--without-ray", action="store_true", help="Collect no file that imports Ray; refuse the import.")


def pytest_configure(config):
    if config.getoption("--without-ray"):
        sys.modules["ray"] = None


def pytest_ignore_collect(collection_path, config):
    ignored = [Path(__file__).parent / name for name in WITH_RAY]
    return True if config.getoption("--without-ray") and collection_path in ignored else None


SLOW_FIXTURES = {"undisturbed", "vega"}
"""A trained pack, and a process that makes JavaScript: a test that asks for one of them is slow."""


LONGEST = ("end_to_end/", "test_adding_", "test_notebook.py")
"""Where the longest tests are, which start sweeps on Ray one after the other."""


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items):
    """The longest come first and then the slow ones, so that all processes of a run end together."""
    for item in items:
        if not SLOW_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)

    def place(item):
        longest = str(item.path.relative_to(Path(__file__).parent)).startswith(LONGEST)
        return not longest, item.get_closest_marker("slow") is None

    items.sort(key=place)


@pytest.fixture(autouse=True)
def signals():
    """Puts the answers to signals back as they were: a command keeps its own until its process ends.

    What `nohup` or a worker of an earlier test left ignored is heard: a command would go on ignoring it.
    """
    before = {signum: signal.getsignal(signum) for signum in SIGNALS}
    for signum, handler in before.items():
        if handler == signal.SIG_IGN:
            signal.signal(signum, signal.SIG_DFL)
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    yield
    signal.set_wakeup_fd(wakeup)
    for signum, handler in before.items():
        signal.signal(signum, handler)


@pytest.fixture(scope="session")
def vega():
    """The JavaScript in the pages of reports, which takes a process seconds to make."""
    from sweeper.analysis import page

    page.bundle()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """The working folder is a project without tasks; modules imported from it are forgotten after the test."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks").mkdir()
    with in_project(tmp_path):
        yield tmp_path


COLORING_LIKE = """
from typing import Literal

import jax

from tasks import coloring

{at_import}


class Task(coloring.Task):
    name: Literal["{name}"] = "{name}"

    def sample_inputs(self, key, count):
        {in_trace}
        return super().sample_inputs(key, count)
"""


@pytest.fixture
def coloring_like(project):
    """Writes a task into a project: colouring that runs code when it is imported, and when it is traced."""

    def write(name: str, at_import: str = "", in_trace: str = "pass") -> None:
        text = COLORING_LIKE.format(name=name, at_import=at_import, in_trace=in_trace)
        (project / "tasks" / f"{name}.py").write_text(text)

    return write


@pytest.fixture(scope="module", autouse=True)
def few_programs():
    """Forget compiled programs in time: Linux kills a process with more than 65,530 memory mappings.

    A program has dozens or hundreds of them, and the tests of one process compile thousands of programs.
    """
    yield
    mappings = Path("/proc/self/maps")
    if mappings.exists() and mappings.read_bytes().count(b"\n") > 20_000:
        jax.clear_caches()


@pytest.fixture(scope="session")
def s3(tmp_path_factory):
    """An S3 server, and the environment that its clients need."""
    with pytest.MonkeyPatch.context() as patch, s3_server.serving(tmp_path_factory.mktemp("s3")) as server:
        for name, value in s3_server.ENVIRONMENT.items():
            patch.setenv(name, value)
        yield server


@pytest.fixture
def local(tmp_path):
    """A store on a disk."""
    return Store.open(tmp_path / "results")


@pytest.fixture
def store(made, tmp_path):
    """A copy, which a test may change, of the store that a folder of tests has made."""
    return Store.open(shutil.copytree(made.root, tmp_path / "results"))
