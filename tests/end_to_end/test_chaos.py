"""The fault suite in short: the faults that need no cluster, a few times each; `make chaos` has them all."""

import random

import pytest

from chaos import faults
from sweeper.store import compaction


@pytest.mark.parametrize(("fault", "times"), [(faults.files_damaged, 5), (faults.clock_jumped, 12)])
def test_no_promise_is_broken(fault, times, tmp_path, monkeypatch):
    monkeypatch.setattr(compaction, "TOGETHER", 5)
    monkeypatch.setattr(faults, "DAMAGED_TRIALS", 13)
    found = fault(tmp_path, tmp_path, times, random.Random(0))
    assert found.kept, found
    assert found.times == times
