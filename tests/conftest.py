"""Settings that every test shares; they must be in place before jax is first imported."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# One thread a process: tests share two cores, and a worker is held to its own in the same way. Most of what they do is
# compile, so LLVM is told to be quick.
os.environ.setdefault("PJRT_NPROC", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false --xla_backend_optimization_level=0")

import hypothesis

hypothesis.settings.register_profile("deterministic", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("deterministic")
