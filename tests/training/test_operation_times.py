"""Which events of a profile are operations. No GPU can be profiled here, so its planes are written by hand."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import pytest

from benchmarks.gpu.profiles import operation_times, operations_of


def _plane(name, **lines):
    events = {
        line: [SimpleNamespace(name=name, duration_ns=duration) for name, duration in named]
        for line, named in lines.items()
    }
    return SimpleNamespace(name=name, lines=[SimpleNamespace(name=line, events=made) for line, made in events.items()])


def test_of_a_gpu_only_the_kernels_of_its_streams_count():
    """The other lines of its plane show the same time by module, and the host's plane waits for it."""
    gpu = _plane(
        "/device:GPU:0",
        **{"Stream #13(Compute)": [("gemm", 4000), ("fusion.2", 1000)], "Stream #14(MemcpyH2D)": [("Memcpy", 500)]},
        **{"XLA Modules": [("jit_step", 9000)], "XLA Ops": [("gemm", 4000)]},
    )
    host = _plane("/host:CPU", python=[("$ main.py", 10**9)], tf_XLAEigen=[("dot.3", 7000)])
    assert list(operations_of([host, gpu])) == [("gemm", 4e-6), ("fusion.2", 1e-6), ("Memcpy", 5e-7)]


@pytest.mark.slow
def test_a_real_profile_of_a_product_has_one_operation():
    factors, product = jnp.ones((256, 256)), jax.jit(lambda x: x @ x)
    (seconds,) = operation_times(lambda: product(factors)).values()
    assert seconds > 0
