"""Benchmarks, each run as `python -m benchmarks.NAME`."""

import sweeper  # noqa: F401  before numpy, so that variables which choose its kernels have no effect
