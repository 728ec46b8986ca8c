"""Fixtures of the tests of launch."""

import math

import pytest

from sweeper.launch import tune_worker


@pytest.fixture
def strides(monkeypatch) -> None:
    """Workers without Ray around them report after every stride."""
    monkeypatch.setattr(tune_worker, "REPORT_SECONDS", 0.0)
    monkeypatch.setattr(tune_worker, "IDLE_SHARE", math.inf)
    monkeypatch.setattr(tune_worker, "keep_programs", lambda: None)
    monkeypatch.setattr(tune_worker, "_own_log", lambda: "worker.err")  # which would start a Ray
