"""`ray up`, a sweep from outside, `ray down`: for real, over SSH, between hosts of one machine (`tests/hosts.py`).

The machine that commands the cluster is one more host.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweeper.store.store import Store
from sweeper.trial import plugins
from tests.end_to_end.sweep_process import copy_checkout, until, write_held_task
from tests.hosts import PATH, Host, hosts_of, obstacle

# The list of skipped tests names the reason.
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        (found := obstacle("rsync", "ssh", "ssh-keygen", "sshd")) is not None,
        reason=f"NO REAL `ray up` WAS TESTED HERE: {found}",
    ),
]


def _admit(host: Host, key: Path, folder: Path) -> None:
    """Start sshd on a host."""
    shutil.copyfile(key.with_suffix(".pub"), host.home / ".ssh" / "authorized_keys")
    settings = {
        "ListenAddress": host.address, "HostKey": folder / "host_key",
        "AuthorizedKeysFile": host.home / ".ssh" / "authorized_keys", "PermitRootLogin": "prohibit-password",
        "PasswordAuthentication": "no", "StrictModes": "no", "UsePAM": "no", "PidFile": "none",
        # Ray's processes on this host look for changes every second, and miss their head after five.
        "SetEnv": "AUTOSCALER_UPDATE_INTERVAL_S=1 RAY_gcs_rpc_server_reconnect_timeout_s=5",
    }  # fmt: skip
    (host.home / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    host.run(str(shutil.which("sshd", path=PATH)), "-f", str(host.home / "sshd_config"))


@pytest.fixture
def folder() -> Iterator[Path]:
    """What all hosts see: on the disk, as pytest's folders may lie in /dev/shm, of which every host has its own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        yield Path(made)


@pytest.fixture
def hosts(folder: Path) -> Iterator[list[Host]]:
    """Who commands the cluster, its head, its workers; all but the first can be reached by SSH."""
    for name in ("key", "host_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    with hosts_of(("outside", "head", "worker"), folder) as made:
        for host in made[1:]:
            _admit(host, folder / "key", folder)
            # What `pip install` would have made of the lock: no packet leaves, not even to a registry.
            (host.home / "environment").symlink_to(plugins.ROOT / ".venv")
        yield made


def _cluster_file(hosts: list[Host], checkout: Path, key: Path) -> Path:
    """clusters/local.yaml for these hosts, unchanged but for what must be replaced."""
    config: dict[str, Any] = yaml.safe_load((plugins.ROOT / "clusters" / "local.yaml").read_text())
    config["provider"] |= {"head_ip": hosts[1].address, "worker_ips": [host.address for host in hosts[2:]]}
    config["auth"] = {"ssh_user": "root", "ssh_private_key": str(key)}
    config["setup_commands"] = [command for command in config["setup_commands"] if "pip install" not in command]
    path = checkout / "local.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


SWEEP = (
    "search_spaces/quickstart.yaml --set trial.task.name=held --set trial.task.vertices=5"
    " --set trial.model.width=4 --set trial.model.key_size=4"
    " --set 'trial.baseline={choice: [Aq_R, AE_R]}' --set trial.steps=200 --set trial.batch_size=8"
    " --set trial.optimizer.warmup_steps=10 --set trial.evaluation.seeds=10 --set trial.evaluation.votes=[5]"
    " --set resources.cpus=2"
)
"""The quickstart, cut down to two packs, each of which takes a whole host of two cores."""


def test_a_cluster_comes_up_runs_a_sweep_and_goes_down(hosts, folder):
    outside, head, worker = hosts
    checkout, results = folder / "checkout", folder / "results"
    copy_checkout(checkout, "search_spaces", "locks")
    place = folder / "nodes"
    write_held_task(checkout, place, f"len(os.listdir({str(place)!r})) < 2")
    file = str(_cluster_file(hosts, checkout, folder / "key"))
    program = str(plugins.ROOT / ".venv" / "bin" / "ray")

    def ray(*arguments: str) -> str:
        """A command of Ray, typed in the checkout by the user of the cluster."""
        return outside.run("sh", "-c", f'cd {checkout} && exec "$0" "$@"', program, *arguments)

    ray("get-auth-token", "--generate")
    ray("up", "--yes", "--disable-usage-stats", file)
    assert head.ray_processes() == 2  # raylet and GCS
    until(lambda: worker.ray_processes() == 1)
    # Its own token and nobody else's; a dashboard for the head's own users.
    assert (worker.home / ".ray" / "auth_token").read_text() == (outside.home / ".ray" / "auth_token").read_text()
    assert "refused" in outside.run("bash", "-c", f"exec 3<>/dev/tcp/{head.address}/8265", check=False)
    until(lambda: _resources(ray("exec", file, "ray status")) == "4.0 CPU")

    run = f"XLA_FLAGS=--xla_backend_optimization_level=0 python -m sweeper.run {SWEEP} --results {results}"
    said = ray("exec", file, f"cd ~/sweep && {run}")
    assert "4 of 4 trials committed" in said, said
    assert set(Store.open(results).committed().values()) == {"finished"}
    # Both packs trained at the same time, as each waited for the other. Each had two of the cluster's four cores.
    assert len(list(place.iterdir())) == 2
    assert len(set(Store.open(results).trials()["pack_id"].to_pylist())) == 2
    asked = "SELECT baseline, count(*) AS trials FROM trials GROUP BY baseline ORDER BY baseline"
    said = ray("exec", file, f'cd ~/sweep && python -m sweeper query "{asked}" --format csv --results {results}')
    assert "AE_R,2\nAq_R,2\n" in said, said
    # From outside the token opens the cluster, and nothing else does.
    for mode, known, refusal in (("token", "4.0 CPU", ""), ("disabled", "", "InvalidAuthToken")):
        asking = f"RAY_AUTH_MODE={mode} {program} status --address {head.address}:6379"
        answer = outside.run("sh", "-c", asking, check=False)
        assert _resources(answer) == known
        assert refusal in answer

    ray("down", "--yes", file)
    assert not head.ray_processes(), head.run("ps", "-eo", "pid,ppid,stat,etime,args")
    # `ray down` asks nobody but the head; a raylet that misses it ends itself, by default after a minute.
    until(lambda: not worker.ray_processes())


def _resources(status: str) -> str:
    """The cores of a cluster in the answer of `ray status`."""
    cpus = re.search(r"/(\S+ CPU)", status)
    return cpus[1] if cpus else ""
