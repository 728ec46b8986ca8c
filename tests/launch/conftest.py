"""One Ray cluster for all tests of launch."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import ray

from sweeper.interruption import SIGNALS, Interruption
from sweeper.launch.cluster import connected
from sweeper.launch.job import Training
from sweeper.packs.rehearsal import Rehearsal
from sweeper.space.resources import Resources
from sweeper.trial import plugins
from tests.launch import bad_task
from tests.launch.workers import EVALUATION, PAIR, Worker, ended
from tests.projects import in_project


class LocalCluster(NamedTuple):
    project: Path  # with the task `bad`
    home: Path  # the home folder of the user who started it
    hung: Path  # where every process that hangs in the task `bad` leaves a file
    session: Path  # Ray's folder


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """The local cluster of a start whose project has the task `bad`; of four cores, on any machine.

    The environment asks for more threads than workers may have.
    """
    project, home, hung = (tmp_path_factory.mktemp(name) for name in ("project", "home", "hung"))
    (project / "tasks").mkdir()
    (project / "tasks" / "bad.py").write_text(bad_task.text(hung))
    handlers = {signum: signal.getsignal(signum) for signum in SIGNALS}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "PROJECT", project)
        patch.setenv("HOME", str(home))
        patch.setenv("RAY_OVERRIDE_RESOURCES", '{"CPU": 4}')
        for name in ("PJRT_NPROC", "OPENBLAS_NUM_THREADS"):
            patch.setenv(name, "2")
        with connected("local", Resources(), Interruption(), Rehearsal()):
            patch.undo()
            signal.set_wakeup_fd(-1)
            for signum, handler in handlers.items():
                signal.signal(signum, handler)
            context = ray.get_runtime_context()
            yield LocalCluster(project, home, hung, Path(context.get_temp_dir(), context.get_session_name()))


@pytest.fixture
def bad(cluster: LocalCluster) -> Iterator[None]:
    """The project of the cluster is that of this process."""
    with in_project(cluster.project):
        yield


@pytest.fixture(scope="package")
def programs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compiles what workers without Ray run: training, evaluation, and evaluation of stored networks."""
    folder = tmp_path_factory.mktemp("programs")
    for work_kind in (Training(), EVALUATION):
        ended(Worker(PAIR, folder, work_kind=work_kind))
