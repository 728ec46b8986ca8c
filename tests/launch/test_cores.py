"""A local cluster has the cores of this process, not of the machine."""

import os

import pytest

from sweeper.launch.cores import cores

OWN = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


@pytest.fixture
def on_a_large_machine(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(128)), raising=False)


def process(folder, version, group, root="/", **files):
    """The folder of a process in a group, of which some files are written; `__` stands for a folder in a name."""
    mount, own = folder / "cgroup of mine", folder / "self"
    own.mkdir()
    system = "cgroup2 cgroup rw" if version == 2 else "cgroup cgroup rw,cpu,cpuacct"
    (own / "cgroup").write_text(f"5:pids:/x\n0::{group}\n" if version == 2 else f"3:cpu,cpuacct:{group}\n0::/\n")
    spelt = str(mount).replace(" ", "\\040")
    (own / "mountinfo").write_text(
        f"1 0 0:1 / / rw - tmpfs tmpfs rw\n36 31 0:32 {root} {spelt} rw shared:9 - {system}\n"
    )
    for name, text in files.items():
        *folders, file = name.split("__")
        place = mount.joinpath(*folders)
        place.mkdir(parents=True, exist_ok=True)
        (place / file.replace("_", ".", 1)).write_text(text)
    return own


@pytest.mark.usefixtures("on_a_large_machine")
@pytest.mark.parametrize(
    ("version", "group", "root", "files", "expected"),
    [
        (2, "/job/step", "/", {"job__step__cpu_max": "400000 100000\n"}, 4),
        (2, "/job/step", "/", {"job__cpu_max": "350000 100000\n", "job__step__cpu_max": "max 100000\n"}, 3),
        (2, "/job", "/", {"job__cpu_max": "max 100000\n"}, 128),
        (2, "/", "/", {"cpu_max": "50000 100000\n"}, 1),
        (2, "/", "/", {"cpuset_cpus.effective": "0-3,8,10-11\n"}, 7),
        (2, "/host/pod/inside", "/host/pod", {"inside__cpu_max": "200000 100000"}, 2),
        (2, "/of/the/host", "/else", {"cpu_max": "200000 100000"}, 2),
        (1, "/job/step", "/", {"job__step__cpu_cfs_quota_us": "-1\n", "job__step__cpu_cfs_period_us": "100000\n"}, 128),
        (1, "/job/step", "/", {"job__cpu_cfs_quota_us": "600000\n", "job__cpu_cfs_period_us": "100000\n"}, 6),
        (1, "/job", "/", {"job__cpuset_cpus": "5\n"}, 1),
        (1, "/", "/", {"cpuset_cpus": "\n"}, 128),
    ],
)
def test_a_quota_and_a_set_of_cores_of_any_group_around_it_count(tmp_path, version, group, root, files, expected):
    assert cores(process(tmp_path, version, group, root, **files)) == expected


@pytest.mark.skipif(not OWN, reason="nobody can choose cores here")
def test_the_cores_of_the_affinity_count():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_without_proc_there_is_the_affinity(tmp_path):
    assert cores(tmp_path) == (OWN or os.cpu_count())
