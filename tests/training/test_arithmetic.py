"""The arithmetic of a process is measured: what chooses other kernels shows, and what does not decide bits does not."""

import os
import platform

import numpy as np
import pytest

from sweeper.training import arithmetic
from tests.processes import python

MEASURED = "from sweeper.training import arithmetic; print(arithmetic.own())"


def _elsewhere(first: str = "", **variables: str) -> str:
    done = python("-c", first + MEASURED, env=os.environ | variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow  # a process
@pytest.mark.parametrize(
    "variables", [{"OMP_NUM_THREADS": "7", "PYTHONHASHSEED": "3"}, {"OPENBLAS_CORETYPE": "Prescott"}]
)
def test_processes_of_one_machine_have_one_arithmetic(variables):
    assert _elsewhere(**variables) == arithmetic.own()


@pytest.mark.slow  # a process
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the kernels of these variables are for x86-64")
@pytest.mark.parametrize(
    "variables",
    [{"ONEDNN_MAX_CPU_ISA": "SSE41"}, {"OPENBLAS_CORETYPE": "Prescott"}, {"XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2"}],
)
def test_other_kernels_are_another_arithmetic(variables):
    """If the libraries are loaded before this package, which removes the variables."""
    assert _elsewhere("import jaxlib, numpy, scipy.linalg; ", **variables) != arithmetic.own()


def test_a_library_that_computes_otherwise_is_another_arithmetic(monkeypatch):
    """Whatever the cause: nobody has this one in a list."""
    of_this_process, exp = arithmetic.own(), np.exp
    assert arithmetic.own.__wrapped__() == of_this_process
    monkeypatch.setattr(np, "exp", lambda x: np.nextafter(exp(x), x.dtype.type(9)))
    assert arithmetic.own.__wrapped__() != of_this_process


def test_what_has_computed_for_this_process_is_part_of_it(monkeypatch):
    monkeypatch.setattr(arithmetic, "_others", {})
    arithmetic.note(["feedc0ffee", arithmetic.own()])
    assert arithmetic.used() == [arithmetic.own(), "feedc0ffee"]
