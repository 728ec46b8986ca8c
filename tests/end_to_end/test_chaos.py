"""The fault suite in short; `make chaos` injects every fault as often as docs/reliability.md says.

A fault that an end-to-end test also injects is `exhaustive`: a driver that is killed, and one beside another, are in
`test_run`. Two faults are left to `make chaos`. The death of a worker
loses seconds, which a busy machine cannot promise. A read-only disk ends a sweep as a full one does.
"""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from chaos import code_faults, process_faults, shared_stores, storage_faults, sweeps


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "times"), [(storage_faults.files_damaged, 5), (storage_faults.clock_jumped, 12)])
def test_no_promise_is_broken(fault, times, tmp_path, monkeypatch):
    monkeypatch.setattr(storage_faults, "DAMAGED_TRIALS", 13)
    finding = fault(tmp_path, tmp_path, times, random.Random(0))
    assert finding.kept, finding
    assert finding.times == times


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
        pytest.param(process_faults.driver_killed, 1, marks=pytest.mark.exhaustive),
        pytest.param(process_faults.driver_doubled, 1, marks=pytest.mark.exhaustive),
        (process_faults.terminated, 1),
        pytest.param(process_faults.nodes_killed, 3, marks=pytest.mark.exhaustive),
        pytest.param(storage_faults.results_moved, 1, marks=pytest.mark.exhaustive),
        pytest.param(storage_faults.checkpoints_damaged, 1, marks=pytest.mark.exhaustive),
        pytest.param(code_faults.code_changed, 2, marks=pytest.mark.exhaustive),
        pytest.param(code_faults.drivers_of_different_code, 1, marks=pytest.mark.exhaustive),
        (shared_stores.deletions_beside_everything, 1),
        pytest.param(shared_stores.halvings_that_share_trials, 1, marks=pytest.mark.exhaustive),
        pytest.param(storage_faults.disk_filled, 1, marks=[needs_mounts, pytest.mark.exhaustive]),
    ],
)
def test_no_promise_of_a_running_sweep_is_broken(fault, times, tmp_path: Path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    try:
        with sweeps.checkout(tmp_path) as copy:
            finding = fault(copy, scratch, times, random.Random(0))
    finally:
        sweeps.end_all()
    assert finding.kept, finding
