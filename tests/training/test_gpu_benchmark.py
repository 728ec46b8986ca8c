"""The benchmark for a GPU runs at toy size on a CPU, so that the day with a GPU is not spent on mending it."""

import re
import sys
from collections import Counter

import pytest

from benchmarks.gpu import __main__, agreement, part
from benchmarks.gpu.part import Order
from benchmarks.gpu.profiles import PROFILED
from benchmarks.shipped_trials import EXPERIMENTS, SPACES, shipped_trial
from sweeper.trial import plugins
from tests.processes import python

INF = float("inf")
ORDER = Order("agreement", "colouring", True, [1, 2], until=INF, ends=INF)


@pytest.mark.long
@pytest.mark.exhaustive
def test_every_part_of_the_benchmark_runs_on_a_cpu():
    report = python("-m", "benchmarks.gpu", "--toy", "--lanes", "1,2", "--seconds", "inf", check=True).stdout
    agreeing = re.findall(r"^\| ([a-z_ ]+) \| .* \| yes \|$", report, re.MULTILINE)
    assert Counter(agreeing) == dict.fromkeys(SPACES, 4) | dict.fromkeys(EXPERIMENTS, 2)
    assert {shipped_trial(name).task.name for name in SPACES} == set(plugins.modules("task"))
    assert set(EXPERIMENTS) == set(plugins.modules("experiment"))
    rows = re.findall(r"^\| ([12]) \| ([a-z_ ]+)(?:, A\S+)? \| ([\d,.]+) \| ", report, re.MULTILINE)
    kinds = ["colouring", "colouring", "recall", "grid world", *EXPERIMENTS]
    assert [(lanes, name) for lanes, name, _ in rows] == [(lanes, name) for lanes in "12" for name in kinds]
    assert all(float(rate.replace(",", "")) > 0 for *_, rate in rows)
    assert "coloring.yaml: 12 of 12 trials" in report
    assert len(re.findall(r"^\| .* \| [\d.e-]+ \| \d+% \|$", report, re.MULTILINE)) == 12 * len(PROFILED)


@pytest.mark.long
@pytest.mark.exhaustive
def test_numbers_beyond_their_bound_are_an_error(capsys, monkeypatch):
    numbers = agreement.numbers_of
    factors = iter([1.0 + 1e-4, 1.0])  # the accelerator, then the CPU

    def shifted(trial):
        factor = next(factors)
        return {name: factor * values for name, values in numbers(trial).items()}

    monkeypatch.setattr(agreement, "numbers_of", shifted)
    assert not agreement.print_item("ski rental", toy=True)
    assert "| NO |" in capsys.readouterr().out


def test_a_cpu_is_refused_unless_it_runs_the_toy(capsys):
    assert part.main(ORDER._replace(toy=False)) == part.NO_ACCELERATOR
    assert "JAX has no accelerator here" in capsys.readouterr().err


BEHAVIOUR = {
    "dying": "import os, signal; print('dying', flush=True); os.kill(os.getpid(), signal.SIGKILL)",
    "failing": "print('failing'); raise SystemExit(1)",
    "hanging": "import threading; threading.Event().wait()",
    "right": "print('right')",
}


def test_a_process_that_dies_or_hangs_ends_nothing_else(capfd):
    """Whatever the machine does besides: what hangs has no time, and what does not has as much as it wants."""
    now = [0.0]

    def process(command, variables, ends):
        hangs = command[-1] == BEHAVIOUR["hanging"]
        now[0] = ends + 1 if hangs else now[0]
        return __main__.exit_code(command, variables, -INF if hangs else INF, grace=0.0)

    parts = {
        "agreement": __main__.Part(("dying", "failing", "right"), until=INF),
        "lanes": __main__.Part(("hanging",), until=1.0),
        "profile": __main__.Part(("right",), until=INF),
    }
    code = __main__.main(
        ["--seconds", "1"],
        parts=parts,
        command=lambda order: [sys.executable, "-c", BEHAVIOUR[order.item]],
        exit_code=process,
        clock=lambda: now[0],
    )
    assert code == 1
    printed = re.findall(r"^(dying|failing|right|.* FAILED: .*)$", capfd.readouterr().out, re.MULTILINE)
    assert printed == [
        "dying", "agreement of dying FAILED: ended by SIGKILL", "failing",
        "agreement of failing FAILED: ended with exit code 1", "right",
        "lanes of hanging FAILED: did not return in time, ended by SIGKILL", "right",
    ]  # fmt: skip
