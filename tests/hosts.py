"""Hosts of one machine, each a shell of Linux namespaces.

A host has a network of its own, so that every host has its own ports and address; processes of its own, so that
`ray stop` ends its own and sees no others; mounts of its own, so that /tmp/ray and the home folder differ. Nothing of
this has a name outside, and no packet leaves: a host lives as long as the pipe to its first process, and with that
process the kernel ends all others.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"


def obstacle(*needed: str) -> str | None:
    """Why hosts with these programs cannot be made here."""
    missing = [name for name in ("ip", "nsenter", "unshare", *needed) if shutil.which(name, path=PATH) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    if os.getuid() != 0:
        return "namespaces need root"
    tried = subprocess.run(
        ["unshare", "--net", "--pid", "--fork", "--mount", "--uts", "mount", "-t", "tmpfs", "tmpfs", "/run"],
        env={"PATH": PATH}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return f"the kernel refuses namespaces: {tried.stderr.strip()}" if tried.returncode else None


SETUP = r"""
set -e
mount --make-rprivate /
mkdir -p /tmp/ray
for folder in /tmp/ray /dev/shm /run; do mount -t tmpfs tmpfs $folder; done
mkdir /run/sshd
for file in passwd hosts; do mount --bind "$FOLDER/$file" /etc/$file; done
hostname "$NAME"
ip link set lo up
# First processes of a host must bury the dead, whoever their parents were: the kernel does it where nobody listens.
echo ready
exec env --ignore-signal=CHLD cat
"""


class Host:
    """A machine, as far as SSH and Ray can tell."""

    def __init__(self, name: str, address: str, folder: Path, everyone: str):
        """Start its first process; the folder keeps its home and its own files of /etc, with `everyone` in hosts."""
        self.name, self.address, self.home = name, address, folder / "home"
        (self.home / ".ssh").mkdir(parents=True)
        (folder / "hosts").write_text(everyone)
        users = [line for line in Path("/etc/passwd").read_text().splitlines() if not line.startswith("root:")]
        # A home of its own, and a user who logs in with a key, as `*` is no password.
        (folder / "passwd").write_text("\n".join([f"root:*:0:0:root:{self.home}:/bin/bash", *users, ""]))
        self._first = subprocess.Popen(
            ["unshare", "--net", "--pid", "--mount", "--uts", "--fork", "--kill-child", "--mount-proc",
             "sh", "-c", SETUP],
            env={"PATH": PATH, "FOLDER": str(folder), "NAME": name},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert self._first.stdout is not None
        said = self._first.stdout.readline()
        if said != b"ready\n":
            said += self._first.stdout.read()
            self.end()
            pytest.fail(f"{name} did not start: {said.decode()}")
        children = Path(f"/proc/{self._first.pid}/task/{self._first.pid}/children").read_text().split()
        self.pid = int(children[0])
        """Of its first process, as seen from outside."""

    def run(self, *command: str, check: bool = True) -> str:
        """What a command on this host prints."""
        inside = ["nsenter", f"--target={self.pid}", "--net", "--pid", "--mount", "--uts", f"--wd={self.home}"]
        home = str(self.home)
        environment = {"PATH": PATH, "HOME": home, "USER": "root", "TMPDIR": home, "LANG": "C.UTF-8"}
        done = subprocess.run(
            [*inside, *command], env=environment, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert done.returncode == 0 or not check, f"{command} on {self.name}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def ray_processes(self) -> int:
        """How many of Ray's own services run."""
        return len(self.run("pgrep", "--full", "raylet/raylet|gcs_server", check=False).split())

    def end(self) -> None:
        """End its first process, and so all others."""
        assert self._first.stdin is not None
        assert self._first.stdout is not None
        self._first.stdin.close()
        self._first.wait()
        self._first.stdout.close()


def _connect(hosts: list[Host]) -> None:
    """Join the hosts by a bridge, which stands on the first."""
    inside = ["nsenter", f"--target={hosts[0].pid}", "--net"]

    def on_first(*arguments: str) -> None:
        # In the mounts of outside, where /proc knows the processes by the numbers used here.
        subprocess.run([*inside, "ip", *arguments], env={"PATH": PATH}, check=True)

    on_first("link", "add", "eth0", "type", "bridge")
    for index, host in enumerate(hosts[1:], start=1):
        on_first("link", "add", f"port{index}", "type", "veth", "peer", "name", "eth0", "netns", str(host.pid))
        on_first("link", "set", f"port{index}", "master", "eth0", "up")
    for host in hosts:
        host.run("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")
        # Ray asks the routes which address is its own. Nobody forwards what goes this way.
        host.run("ip", "route", "add", "default", "dev", "eth0")


@contextlib.contextmanager
def hosts_of(names: Sequence[str], folder: Path) -> Iterator[list[Host]]:
    """Connected hosts, whose own files are kept in a folder that all see."""
    addresses = {name: f"10.213.0.{index}" for index, name in enumerate(names, start=1)}
    everyone = "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in addresses.items())
    with contextlib.ExitStack() as cleanup:
        made: list[Host] = []
        for name, address in addresses.items():
            made.append(Host(name, address, folder / name, everyone))
            cleanup.callback(made[-1].end)
        _connect(made)
        yield made
