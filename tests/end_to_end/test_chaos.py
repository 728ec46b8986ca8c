"""The fault suite in short; `make chaos` injects every fault as often as docs/reliability.md says.

A fault that an end-to-end test also injects is `exhaustive`; two drivers are in `test_run`.
"""

import shutil
import subprocess

import pytest

from chaos.__main__ import attacked


def _mounts() -> bool:
    """Whether this process may mount file systems."""
    command = ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return (
        shutil.which("unshare") is not None and not subprocess.run(command, capture_output=True, check=False).returncode
    )


needs_mounts = pytest.mark.skipif(not _mounts(), reason="a file system that is full needs root")


@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "times"),
    [
        ("killed", 2),
        pytest.param("two-drivers", 1, marks=pytest.mark.exhaustive),
        ("terminated", 1),
        pytest.param("arithmetic-changed", 2, marks=pytest.mark.exhaustive),
        pytest.param("nodes-killed", 3, marks=pytest.mark.exhaustive),
        pytest.param("results-moved", 1, marks=pytest.mark.exhaustive),
        pytest.param("checkpoints-damaged", 1, marks=pytest.mark.exhaustive),
        pytest.param("code-changed", 2, marks=pytest.mark.exhaustive),
        pytest.param("drivers-of-different-code", 1, marks=pytest.mark.exhaustive),
        ("deletions-beside-everything", 1),
        pytest.param("disk-full", 1, marks=[needs_mounts, pytest.mark.exhaustive]),
    ],
)
def test_no_promise_of_a_running_sweep_is_broken(fault, times):
    finding = attacked(fault, times)
    assert finding.kept, finding
