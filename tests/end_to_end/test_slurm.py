"""The Slurm jobs on a real Slurm: a controller and three nodes, each on a host of its own (`tests/hosts.py`)."""

import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sweeper.store.store import Store
from tests.end_to_end.sweep_process import copy_checkout, write_held_task
from tests.hosts import Host, hosts_of, obstacle
from tests.processes import python
from tests.tiny_sweeps import with_seeds

# The list of skipped tests names the reason.
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        (found := obstacle("slurmctld", "slurmd", "munged", "runuser")) is not None,
        reason=f"NO REAL SLURM WAS TESTED HERE: {found}",
    ),
]

NODES = ("n1", "n2", "n3")
ENDED = {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT"}
"""The states in which a job stays; there are more of those that it passes, such as SIGNALING."""

CONFIGURATION = """\
ClusterName=test
SlurmctldHost=n1
SlurmUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MpiDefault=none
NodeName=n[1-3] CPUs=2 State=UNKNOWN
PartitionName=normal Nodes=n[1-3] Default=YES PriorityTier=1
PartitionName=urgent Nodes=n[2-3] PriorityTier=2
"""
"""Two cores a node, whatever the machine has. Preempted jobs wait two minutes, which no setting shortens."""


class Slurm:
    """A Slurm, and the checkout from which jobs are submitted."""

    def __init__(self, hosts: list[Host], folder: Path):
        """Start the daemons: the first of the hosts has the controller too, and all see the folder."""
        self.hosts, self.folder = hosts, folder
        self.checkout, self.results = folder / "checkout", folder / "results"
        (folder / "slurm.conf").write_text(CONFIGURATION.format(folder=folder))
        (folder / "state").mkdir()
        for host in hosts:
            (folder / f"spool-{host.name}").mkdir()
            host.run("sh", "-c", "mkdir /run/munge && chown munge /run/munge && runuser -u munge -- munged")
        self.run("slurmctld")
        for host in hosts:
            host.run("env", f"SLURM_CONF={folder}/slurm.conf", "slurmd", "-N", host.name)
        self.until(lambda: self.run("sinfo", "--noheader", "--format=%T", "--partition=normal").strip() == "idle")

    def run(self, *command: str, check: bool = True) -> str:
        """What a command on the first node prints, in the checkout."""
        inside = ["env", "--chdir", str(self.checkout), f"SLURM_CONF={self.folder}/slurm.conf", *command]
        return self.hosts[0].run(*inside, check=check)

    def submit(self, *arguments: str) -> str:
        """The id of a job."""
        return self.run("sbatch", "--parsable", "--output=job-%j.log", *arguments).strip()

    def sweep(self, *options: str, entries: tuple[str, ...] = ()) -> str:
        """The id of a job that runs the sweep; options of `sbatch`, and entries of the space."""
        own = [word for entry in entries for word in ("--set", entry)]
        return self.submit(*options, "--cpus-per-task=2", "slurm.sh", "space.yaml", str(self.results), *own)

    def worker(self, job: str, node: str, *options: str) -> str:
        """The id of a job on a node that works for such a job."""
        return self.submit(*options, "--cpus-per-task=2", f"--nodelist={node}", "slurm.sh", "worker", job)

    def state(self, job: str) -> str:
        """Such as RUNNING; waits while Slurm's controller is too busy to answer."""
        found: list[str] = []

        def answered() -> list[str]:
            found.extend(re.findall(r"JobState=(\w+)", self.run("scontrol", "show", "job", job, check=False)))
            return found

        self.until(answered)
        return found[0]

    def logs(self) -> str:
        """What all jobs have printed."""
        return "\n".join(f"{path.name}:\n{path.read_text()}" for path in sorted(self.checkout.glob("job-*.log")))

    def until(self, condition: Callable[[], object], seconds: float = 300) -> float:
        """Seconds until something is so."""
        began = time.monotonic()
        while not condition():
            assert time.monotonic() < began + seconds, self.logs()
            time.sleep(0.5)
        return time.monotonic() - began

    def ended(self, *jobs: str) -> list[str]:
        """The last states of jobs, once they have one."""
        self.until(lambda: {self.state(job) for job in jobs} <= ENDED)
        return [self.state(job) for job in jobs]


@pytest.fixture
def slurm() -> Iterator[Slurm]:
    """A Slurm of three nodes, and a checkout with the script, whose programs nothing has put into PATH."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made, hosts_of(NODES, Path(made)) as hosts:
        folder = Path(made)
        copy_checkout(folder / "checkout", "locks")
        python("-m", "sweeper", "new", "cluster", "slurm", cwd=folder / "checkout", check=True)
        (folder / "checkout" / "space.yaml").write_text(with_seeds(4).replace("name: coloring", "name: held"))
        write_held_task(folder / "checkout", folder / "training", f"not os.path.exists({str(folder / 'gate')!r})")
        yield Slurm(hosts, folder)


def trained_on(slurm: Slurm) -> set[str]:
    """The nodes on which packs train."""
    return {path.name for path in (slurm.folder / "training").iterdir()}


ONE_PACK_EACH = ("resources={lanes: 1, cpus: 2}",)
LONG = ("trial.steps=100000000", "resources.checkpoint_seconds=3600")


@pytest.mark.parametrize("nodes", [pytest.param(1, marks=pytest.mark.exhaustive), 3])
def test_one_job_trains_on_all_of_its_nodes(slurm, nodes):
    job = slurm.sweep(f"--nodes={nodes}", entries=ONE_PACK_EACH)
    slurm.until(lambda: len(trained_on(slurm)) == nodes or slurm.state(job) == "FAILED")
    (slurm.folder / "gate").touch()
    assert slurm.ended(job) == ["COMPLETED"], slurm.logs()
    assert set(Store.open(slurm.results).committed().values()) == {"finished"}
    assert "4 of 4 trials committed" in slurm.logs()


def test_two_jobs_of_a_user_on_one_node_do_not_meet_and_the_head_of_the_script_counts(slurm):
    """A container is a command before each program; the node has a core for each job."""
    script = slurm.checkout / "slurm.sh"
    text = script.read_text().replace("container=()", "container=(env IN_A_CONTAINER=1)")
    script.write_text(text.replace("##SBATCH --partition=PARTITION", "#SBATCH --partition=normal"))
    jobs = [
        slurm.submit("--cpus-per-task=1", "--nodelist=n1", "slurm.sh", "space.yaml", str(slurm.folder / name),
                     "--set", f"name={name}")
        for name in ("one", "other")
    ]  # fmt: skip
    slurm.until(lambda: all((slurm.folder / name / "drivers").exists() for name in ("one", "other")))
    assert [slurm.state(job) for job in jobs] == ["RUNNING"] * 2
    (slurm.folder / "gate").touch()
    assert slurm.ended(*jobs) == ["COMPLETED"] * 2, slurm.logs()
    for name in ("one", "other"):
        assert set(Store.open(slurm.folder / name).committed().values()) == {"finished"}


@pytest.mark.exhaustive
def test_a_job_at_the_end_of_its_time_leaves_checkpoints(slurm):
    """Slurm looks at limits every half minute or so, and so asks in the second or third minute."""
    (slurm.folder / "gate").touch()
    job = slurm.sweep("--time=4", "--signal=B:TERM@90", entries=LONG)
    assert slurm.ended(job) != ["TIMEOUT"], slurm.logs()
    assert "interrupted with 4 trials to go" in slurm.logs()
    assert Store.open(slurm.results).listing("checkpoints"), slurm.logs()


def test_workers_join_are_preempted_and_come_back_and_leave_with_their_job(slurm):
    job = slurm.sweep("--nodelist=n1", entries=ONE_PACK_EACH)
    slurm.until(lambda: trained_on(slurm) == {"n1"})
    assert (slurm.checkout / ".slurm" / job / "token").stat().st_mode & 0o077 == 0
    first = slurm.worker(job, "n2", "--array=1")
    slurm.until(lambda: trained_on(slurm) == {"n1", "n2"})
    urgent = slurm.submit("--partition=urgent", "--nodelist=n2", "--exclusive", "--wrap", "sleep 5")
    slurm.until(lambda: slurm.state(first) == "PENDING")  # Slurm has queued it again
    assert slurm.state(job) == "RUNNING"
    second = slurm.worker(job, "n3", "--array=2")
    slurm.until(lambda: trained_on(slurm) == {"n1", "n2", "n3"})
    (slurm.folder / "gate").touch()
    assert slurm.ended(job, urgent, second) == ["COMPLETED"] * 3, slurm.logs()
    assert set(Store.open(slurm.results).committed().values()) == {"finished"}
    slurm.run("scancel", first)


@pytest.mark.exhaustive
def test_a_job_that_is_cancelled_leaves_checkpoints_and_no_worker_waits_for_it(slurm):
    (slurm.folder / "gate").touch()
    job = slurm.sweep("--nodelist=n1", entries=(*LONG, *ONE_PACK_EACH))
    worker = slurm.worker(job, "n2")
    slurm.until(lambda: trained_on(slurm) == {"n1", "n2"})
    time.sleep(10)
    slurm.run("scancel", job)
    took = slurm.until(lambda: slurm.state(worker) != "RUNNING")
    print(f"{took:.0f} s after its job")
    assert took < 60
    assert Store.open(slurm.results).listing("checkpoints"), slurm.logs()
