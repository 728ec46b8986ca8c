"""Settings that every test shares; they must be in place before jax is first imported."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# One thread a process: tests share two cores, and a trial's worker is held to its own cores in the same way.
os.environ.setdefault("PJRT_NPROC", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import hypothesis

hypothesis.settings.register_profile("deterministic", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("deterministic")
