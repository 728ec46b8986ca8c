"""The benchmark for a GPU runs at toy size on a CPU, so that the day with a GPU is not spent on mending it."""

import re
import subprocess
import sys
from collections import Counter

import pytest

from benchmarks import gpu
from sweeper.trial import plugins


@pytest.mark.long
def test_every_part_of_the_benchmark_runs_on_a_cpu():
    # In a process of its own: the profiler has crashed a process that had compiled hundreds of other programs.
    command = [sys.executable, "-m", "benchmarks.gpu", "--toy", "--lanes", "1,2"]
    report = subprocess.run(command, cwd=plugins.ROOT, check=True, capture_output=True, text=True).stdout
    agreement = re.findall(r"^\| ([a-z ]+) \| .* \| yes \|$", report, re.MULTILINE)
    numbers = {"colouring": 3, "grid world": 4, "imitation": 3, "recall": 3, "ski rental": 4}
    assert Counter(agreement) == numbers
    assert {gpu.shipped_trial(name).task.name for name in gpu.SPACES} == set(plugins.modules("task"))
    rows = re.findall(r"^\| ([12]) \| ([\d,]+) \| ", report, re.MULTILINE)
    assert [lanes for lanes, _ in rows] == ["1", "2"] * 2
    assert all(int(rate.replace(",", "")) > 0 for _, rate in rows)
    assert "The 110 trials of coloring.yaml" in report
    assert len(re.findall(r"^\| .* \| [\d.e-]+ \| \d+% \|$", report, re.MULTILINE)) >= 5


@pytest.mark.slow
def test_numbers_beyond_their_bound_are_an_error(capsys, monkeypatch):
    numbers = gpu._numbers
    factors = iter([1.0 + 1e-4, 1.0])  # the accelerator, then the CPU
    monkeypatch.setattr(gpu, "SPACES", {"grid world": "gridworld_compact"})

    def shifted(trial):
        factor = next(factors)
        return {name: factor * values for name, values in numbers(trial).items()}

    monkeypatch.setattr(gpu, "_numbers", shifted)
    assert not gpu._print_agreement(toy=True, until=float("inf"))
    assert "| NO |" in capsys.readouterr().out


def test_nothing_begins_after_the_time_is_over(capsys):
    assert not gpu._print_agreement(toy=True, until=0.0), "what was not compared is not right"
    assert capsys.readouterr().out.count("no time left") == len(gpu.SPACES)
    gpu._print_profile(toy=True, until=0.0)
    rates = gpu._print_lanes([1, 2], toy=True, until=0.0)
    assert rates == {}
    gpu._print_whole_space(rates, toy=True, until=float("inf"))
    gpu._print_whole_space({False: 1.0, True: 1.0}, toy=True, until=0.0)
    assert capsys.readouterr().out.count("no time left") == 4
