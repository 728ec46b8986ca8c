"""A local cluster belongs to its user: another user of the machine finds no folder, no token and no open door.

And its workers run a copy of the code, in an environment of their own.
"""

import contextlib
import os
import re
import signal
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import ray

from sweeper.launch.cluster import start_local
from sweeper.launch.job import LaunchError
from sweeper.launch.ray_internals import QUICK_START
from sweeper.trial import fingerprint, plugins

pytestmark = pytest.mark.slow


def _descendants(pid: int) -> list[int]:
    listing = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    children = [int(line) for line in listing.stdout.split()]
    return children + [below for child in children for below in _descendants(child)]


def _listening(pids: list[int]) -> set[str]:
    """The addresses at which the processes accept TCP connections, as the kernel writes them."""
    sockets = set()
    for pid in pids:
        descriptors: list[Path] = []
        with contextlib.suppress(FileNotFoundError):  # Ray ends idle workers
            descriptors += Path(f"/proc/{pid}/fd").iterdir()
        for descriptor in descriptors:
            with contextlib.suppress(FileNotFoundError):  # closed since
                if (target := os.readlink(descriptor)).startswith("socket:["):
                    sockets.add(target.removeprefix("socket:[").removesuffix("]"))
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in sockets:
                addresses.add(fields[1].partition(":")[0])
    return addresses


@pytest.fixture(scope="module")
def processes(cluster) -> list[int]:
    """The processes that Ray has started for the cluster, the first of them a worker."""
    worker = ray.get(ray.remote(lambda: os.getpid()).remote())
    listing = subprocess.run(["ps", "-o", "pid=", "--ppid", str(os.getpid())], capture_output=True, text=True)
    heads = [int(pid) for pid in listing.stdout.split() if str(cluster.session) in _command(int(pid))]
    return [worker, *heads, *(below for pid in heads for below in _descendants(pid))]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except FileNotFoundError:  # Ray ends idle workers
        return ""


def test_the_session_folder_keeps_other_users_out(cluster):
    assert stat.S_IMODE(cluster.session.parent.parent.stat().st_mode) == 0o700


def test_ports_are_open_on_the_loopback_address_only(processes):
    addresses = _listening(processes)
    assert addresses
    assert addresses <= {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def test_a_closed_terminal_ends_no_process_of_ray(processes):
    blocked = {}
    for pid in (os.getpid(), *processes):
        with contextlib.suppress(FileNotFoundError):  # Ray ends idle workers
            (mask,) = re.findall(r"SigBlk:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
            blocked[pid] = bool(int(mask, 16) >> (signal.SIGHUP - 1) & 1)
    assert not blocked.pop(os.getpid())
    assert len(blocked) > 2
    assert all(blocked.values())


def test_the_token_is_in_no_file(cluster):
    """Where Ray would put it, and in nothing that Ray writes."""
    token = os.environ["RAY_AUTH_TOKEN"].encode()
    assert len(token) == 64
    assert not (cluster.home / ".ray").exists()
    files = [path for path in cluster.session.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if token in path.read_bytes()]


def test_workers_import_a_copy_of_the_code_in_an_environment_of_their_own(cluster):
    """Neither the working tree nor the working directory is where workers find modules."""

    @ray.remote
    def found() -> tuple[str, str, fingerprint.Code, dict[str, str]]:
        from sweeper.trial import fingerprint, plugins
        from tasks import bad

        return str(plugins.ROOT), str(bad.__file__), fingerprint.captured(), dict(os.environ)

    root, task, code, environment = ray.get(found.remote())
    assert Path(root) != plugins.ROOT
    assert Path(task) == Path(root, "project", "tasks", "bad.py")
    assert stat.S_IMODE(Path(root).stat().st_mode) == 0o700
    assert code.always == fingerprint.captured().always
    assert (environment["SWEEPER_WORKER"], os.environ.get("SWEEPER_WORKER")) == ("1", None)
    # The environment of the cluster has asked for two threads.
    assert (environment["PJRT_NPROC"], environment["OPENBLAS_NUM_THREADS"]) == ("1", "1")


def test_only_what_packs_need_is_started(processes):
    commands = [_command(pid) for pid in processes]
    assert any("raylet" in command for command in commands)
    assert not [command for command in commands if "dashboard/dashboard.py" in command or "monitor.py" in command]


def test_a_start_that_fails_is_tried_once_more_without_private_options(monkeypatch, tmp_path):
    quick, ended = [], []

    def failing(**options: Any) -> None:
        quick.append(bool(options.keys() & QUICK_START.keys()))
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray, "init", failing)
    monkeypatch.setattr(ray, "shutdown", lambda: ended.append("ended"))
    with pytest.raises(LaunchError, match=r"The current node timed out.*the same command"):
        start_local({}, tmp_path)
    assert quick == [True, False]
    assert len(ended) == 2, "nothing of a start that failed is left"
