"""The arithmetic of a process is measured: what chooses other kernels shows, and what does not decide bits does not."""

import os
import platform

import jax
import numpy as np
import pytest

from sweeper.training import arithmetic, compilation
from sweeper.trial import plugins
from tests.processes import python

MEASURED = "from sweeper.training import arithmetic; print(arithmetic.own())"


def _elsewhere(**variables: str) -> str:
    done = python("-c", MEASURED, env=os.environ | variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow  # a process
def test_processes_of_one_machine_have_one_arithmetic():
    assert _elsewhere(OMP_NUM_THREADS="7", PYTHONHASHSEED="3") == arithmetic.own()


@pytest.mark.slow  # a process
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the kernels of these variables are for x86-64")
@pytest.mark.parametrize(
    "variables",
    [{"ONEDNN_MAX_CPU_ISA": "SSE41"}, {"OPENBLAS_CORETYPE": "Prescott"}, {"XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2"}],
)
def test_other_kernels_are_another_arithmetic(variables):
    assert _elsewhere(**variables) != arithmetic.own()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("jax_enable_x64", True),  # the default type
        ("jax_default_prng_impl", "rbg"),
        ("jax_threefry_partitionable", False),
        ("jax_random_seed_offset", 1),  # which no list names
    ],
)
def test_another_setting_of_jax_is_another_arithmetic(setting, value):
    before, usual = arithmetic.own(), jax.config.values[setting]
    jax.config.update(setting, value)
    try:
        assert arithmetic.own() != before
    finally:
        jax.config.update(setting, usual)
    assert arithmetic.own() == before


def test_what_the_import_of_a_plug_in_has_changed_is_measured(coloring_like, monkeypatch):
    """Whatever it is: nobody has this in a list."""
    before = arithmetic.own()
    coloring_like("harmless")
    plugins.load("task", "harmless")
    compiled = len(compilation._fixed)
    assert arithmetic.own() == before
    assert len(compilation._fixed) == compiled, "the same program is not compiled again"
    monkeypatch.setattr(np, "exp", np.exp)  # put back after the test
    monkeypatch.setattr(jax.nn, "softmax", jax.nn.softmax)
    digests = [before]
    for library, change in (("numpy", "numpy.exp = numpy.exp2"), ("jax", "jax.nn.softmax = jax.nn.sigmoid")):
        coloring_like(f"changes_{library}", at_import=f"import numpy\n{change}")
        plugins.load("task", f"changes_{library}")
        digests.append(arithmetic.own())
    assert len(set(digests)) == 3


def test_what_has_computed_for_this_process_is_part_of_it(monkeypatch):
    monkeypatch.setattr(arithmetic, "_others", {})
    arithmetic.note(["feedc0ffee", arithmetic.own()])
    assert arithmetic.used() == [arithmetic.own(), "feedc0ffee"]
