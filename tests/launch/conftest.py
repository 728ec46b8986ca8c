"""Fixtures of the tests of launch."""

import pytest

from sweeper.launch import tune_worker


@pytest.fixture
def strides(monkeypatch) -> None:
    """Workers report after every stride."""
    monkeypatch.setattr(tune_worker, "REPORT_SECONDS", 0.0)
    monkeypatch.setattr(tune_worker, "_keep_compilations", lambda cpus: None)
