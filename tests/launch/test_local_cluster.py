"""A local cluster belongs to its user: another user of the machine finds no folder, no token and no open door."""

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from sweeper.launch.cluster import start_local
from sweeper.launch.failures import LaunchError
from sweeper.launch.ray_internals import QUICK_START
from sweeper.trial import plugins
from tests.processes import python

pytestmark = pytest.mark.slow

CLUSTER = """
import json, os, sys
from sweeper import launch
from sweeper.interruption import Interruption
from sweeper.space.resources import Resources
with launch.connected("local", Resources(), Interruption()):
    import ray
    imported = "ray.tune" in sys.modules
    from sweeper.launch import tune_driver
    from ray.train._internal.storage import StorageContext  # no public name says where Tune stages what it reads back
    context = ray.get_runtime_context()
    with tune_driver.scratch() as scratch:
        storage = StorageContext(str(scratch), scratch.name)
        said = {
            "session": f"{context.get_temp_dir()}/{context.get_session_name()}",
            "scratch": str(scratch),
            "staging": storage.experiment_driver_staging_path,
            "authentication": os.environ["RAY_AUTH_MODE"],
            "worker": ray.get(ray.remote(lambda: os.getpid()).remote()),
            "worker_variable": ray.get(ray.remote(lambda: os.environ.get("SWEEPER_WORKER")).remote()),
            "driver_variable": os.environ.get("SWEEPER_WORKER"),
            "has_imported_tune": imported,
        }
        print(json.dumps(said), flush=True)
        sys.stdin.readline()
"""

STRANGER = """
import json, os, pathlib, sys
said, pids = json.loads(sys.argv[1]), json.loads(sys.argv[2])
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
entered = []
for name in ("session", "scratch", "staging"):
    path = pathlib.Path(said[name])
    moved = path.with_name("moved")
    for attempt in (lambda: os.listdir(path), lambda: (path / "planted").write_text("x"), lambda: path.rename(moved)):
        try:
            attempt()
            entered.append(name)
        except PermissionError:
            pass
for pid in pids:
    try:
        entered.append(pathlib.Path(f"/proc/{pid}/environ").read_text())
    except (PermissionError, FileNotFoundError):  # Ray ends idle workers
        pass
print(json.dumps(entered))
"""


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
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Any], list[int], Path]]:
    """What a local cluster says of itself, its processes, and the home folder of its user."""
    home = tmp_path_factory.mktemp("home")
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER], cwd=plugins.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | {"HOME": str(home)},
    )  # fmt: skip
    assert process.stdout is not None
    said = json.loads(process.stdout.readline())
    yield said, [process.pid, *_descendants(process.pid)], home
    process.communicate("\n")
    assert process.returncode == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_finds_nothing(cluster):
    said, pids, _ = cluster
    assert said["worker"] in pids
    done = python("-c", STRANGER, json.dumps(said), json.dumps(pids), check=True)
    assert json.loads(done.stdout) == []


def test_ports_are_open_on_the_loopback_address_only(cluster):
    _, pids, _ = cluster
    addresses = _listening(pids)
    assert addresses
    assert addresses <= {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def test_a_closed_terminal_ends_no_process_of_ray(cluster):
    _, (driver, *pids), _ = cluster
    blocked = {}
    for pid in (driver, *pids):
        with contextlib.suppress(FileNotFoundError):  # Ray ends idle workers
            (mask,) = re.findall(r"SigBlk:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
            blocked[pid] = bool(int(mask, 16) >> (signal.SIGHUP - 1) & 1)
    assert not blocked.pop(driver)
    assert len(blocked) > 2
    assert all(blocked.values())


def test_the_token_is_in_no_file(cluster):
    said, _, home = cluster
    assert said["authentication"] == "token"
    assert not (home / ".ray").exists()


def test_what_tune_reads_back_lies_in_its_own_private_folder(cluster):
    said, _, _ = cluster
    assert Path(said["staging"]).is_relative_to(said["scratch"])
    assert Path(said["scratch"]).stat().st_mode & 0o077 == 0


def test_workers_inherit_their_environment_and_the_driver_keeps_its_own(cluster):
    said, _, _ = cluster
    assert said["worker_variable"] == "1"
    assert said["driver_variable"] is None


def test_only_what_packs_need_is_started(cluster):
    said, pids, _ = cluster
    commands = []
    for pid in pids:
        with contextlib.suppress(FileNotFoundError):  # Ray ends idle workers
            commands.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
    assert any("raylet" in command for command in commands)
    for helper in ("dashboard/dashboard.py", "monitor.py"):
        assert not [command for command in commands if helper in command]
    assert said["has_imported_tune"], "it is imported while Ray starts"


def test_a_start_that_fails_is_tried_once_more_without_private_options(monkeypatch):
    quick = []

    def failing(**options: Any) -> None:
        quick.append(bool(options.keys() & QUICK_START.keys()))
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray, "init", failing)
    with pytest.raises(LaunchError, match=r"Ray did not start on this machine: The current node timed out"):
        start_local({})
    assert quick == [True, False]


def test_too_little_address_space_is_one_sentence(monkeypatch):
    monkeypatch.setattr(ray, "init", pytest.fail)
    monkeypatch.setattr(resource, "getrlimit", lambda what: (2 * 2**30, 2 * 2**30))
    with pytest.raises(LaunchError, match=r"limits the address space of a process to 2\.0 GiB.*ulimit -v unlimited"):
        start_local({})


@pytest.mark.parametrize(("imports", "mode"), [("", "token"), ("import ray", None)], ids=["before Ray", "after Ray"])
def test_a_token_changes_the_mode_only_before_ray_is_imported(tmp_path, imports, mode):
    """Afterwards only Ray's own processes would hear of the mode, and refuse the driver."""
    text = f"{imports}\nfrom sweeper.launch import environment\nimport os; print(os.environ.get('RAY_AUTH_MODE'))"
    environment = {key: value for key, value in os.environ.items() if key != "RAY_AUTH_MODE"}
    done = python("-c", text, env=environment, RAY_AUTH_TOKEN="ab" * 32, check=True)
    assert done.stdout.strip() == str(mode)
