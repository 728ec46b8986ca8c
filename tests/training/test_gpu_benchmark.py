"""The benchmark for a GPU runs at toy size on a CPU, so that the day with a GPU is not spent on mending it."""

import re
import subprocess
import sys
from collections import Counter

import jax
import pytest

from benchmarks.gpu import __main__, agreement, lanes, profiles
from benchmarks.shipped_trials import SPACES, shipped_trial
from sweeper.trial import plugins


@pytest.mark.long
def test_every_part_of_the_benchmark_runs_on_a_cpu():
    # In a process of its own: the profiler has crashed a process that had compiled hundreds of other programs.
    command = [sys.executable, "-m", "benchmarks.gpu", "--toy", "--lanes", "1,2", "--seconds", "inf"]
    report = subprocess.run(command, cwd=plugins.ROOT, check=True, capture_output=True, text=True).stdout
    agreeing = re.findall(r"^\| ([a-z ]+) \| .* \| yes \|$", report, re.MULTILINE)
    assert Counter(agreeing) == dict.fromkeys(SPACES, 4)
    assert {shipped_trial(name).task.name for name in SPACES} == set(plugins.modules("task"))
    rows = re.findall(r"^\| ([12]) \| ([a-z ]+), A\S+ \| ([\d,.]+) \| ", report, re.MULTILINE)
    kinds = ["colouring", "colouring", "recall", "grid world"]
    assert [(lanes, name) for lanes, name, _ in rows] == [(lanes, name) for lanes in "12" for name in kinds]
    assert all(float(rate.replace(",", "")) > 0 for *_, rate in rows)
    assert "The 110 trials of coloring.yaml" in report
    packs = re.findall(r"(\d+) lanes with ([a-z ]+) r at the rate of (\d+)", report)
    assert sorted(packs) == [("55", "a single seed", "2"), ("55", "fresh seeds", "2")]
    assert len(re.findall(r"^\| .* \| [\d.e-]+ \| \d+% \|$", report, re.MULTILINE)) >= 10


@pytest.mark.slow
def test_numbers_beyond_their_bound_are_an_error(capsys, monkeypatch):
    numbers = agreement.numbers_of
    factors = iter([1.0 + 1e-4, 1.0])  # the accelerator, then the CPU
    monkeypatch.setattr(agreement, "SPACES", {"ski rental": "ski_rental"})

    def shifted(trial):
        factor = next(factors)
        return {name: factor * values for name, values in numbers(trial).items()}

    monkeypatch.setattr(agreement, "numbers_of", shifted)
    assert not agreement.print_agreement(toy=True, until=float("inf"))
    assert "| NO |" in capsys.readouterr().out


@pytest.mark.long
def test_a_training_that_does_not_move_is_an_error(capsys, monkeypatch):
    """Ten steps of warm-up move no weight far, so what is compared is how far."""
    monkeypatch.setattr(agreement, "SPACES", {"colouring": "coloring"})
    advance, standing = agreement.gradient.advance, iter([True, False])  # the accelerator, then the CPU
    numbers = agreement.numbers_of

    def of_one_device(trial):
        if next(standing):
            with monkeypatch.context() as patch:
                patch.setattr(agreement.gradient, "advance", lambda *arguments: (arguments[1], advance(*arguments)[1]))
                return numbers(trial)
        return numbers(trial)

    monkeypatch.setattr(agreement, "numbers_of", of_one_device)
    assert not agreement.print_agreement(toy=True, until=float("inf"))
    wrong = re.findall(r"^\| colouring \| ([a-z0-9 ,]+) \| .* \| NO \|$", capsys.readouterr().out, re.MULTILINE)
    assert wrong == ["gradients of 10 steps, running means", "changes of weights by 10 steps"]


@pytest.mark.slow
def test_what_fails_is_told_and_the_rest_goes_on(capsys, monkeypatch):
    monkeypatch.setattr(agreement, "SPACES", {name: SPACES[name] for name in ("colouring", "ski rental")})
    monkeypatch.setattr(lanes, "KINDS", lanes.KINDS[:2])
    numbers = agreement.numbers_of

    def failing(trial):
        if trial.task.name == "coloring":
            raise RuntimeError("a kernel\nfailed")
        return numbers(trial)

    def row(title, kind, number, *_, **__):
        if kind.single_seed:
            raise RuntimeError("no such row")
        return lanes.Row(100.0 * number, 1.0, 1.0)

    monkeypatch.setattr(agreement, "numbers_of", failing)
    monkeypatch.setattr(lanes, "print_row", row)
    assert not agreement.print_agreement(toy=True, until=float("inf"))
    rates, right = lanes.print_lanes([1, 2], toy=True, until=float("inf"))
    assert not right
    assert list(rates.values()) == [{1: 100.0, 2: 200.0}, {}]
    out = capsys.readouterr().out
    assert "agreement of colouring FAILED: RuntimeError: a kernel\n" in out
    assert "1 lanes of colouring FAILED: RuntimeError: no such row\n" in out
    assert "| ski rental | changes of weights" not in out, "ski rental is trained by evolution"
    assert "| ski rental | losses of individuals" in out


def test_a_cpu_is_refused_unless_it_runs_the_toy(capsys, monkeypatch):
    monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", "0.5")  # which the benchmark would set for this process
    assert __main__.main([]) == 2
    assert "JAX has no accelerator here" in capsys.readouterr().err


def test_nothing_begins_after_the_time_is_over(capsys):
    assert not agreement.print_agreement(toy=True, until=0.0), "what was not compared is not right"
    assert capsys.readouterr().out.count("no time left") == len(SPACES)
    assert not profiles.print_profiles(toy=True, until=0.0)
    rates, right = lanes.print_lanes([1, 2], toy=True, until=0.0)
    assert not right
    assert not any(rates.values())
    assert not lanes.print_whole_space(rates, toy=True, until=float("inf"))
    assert not lanes.print_whole_space({kind: {1: 1.0} for kind in lanes.KINDS}, toy=True, until=0.0)
    assert capsys.readouterr().out.count("no time left") == 5


def test_what_does_not_come_back_ends_with_the_process():
    hanging = (
        "import threading; from benchmarks.gpu import __main__\n"
        "with __main__.ended_after(0.01): threading.Event().wait()"
    )
    ended = subprocess.run([sys.executable, "-c", hanging], cwd=plugins.ROOT, capture_output=True, text=True)
    assert ended.returncode == 1
    assert re.search(r"Timeout.*File .*threading.py.* in wait", ended.stderr, re.DOTALL)


def test_rows_go_from_coarse_to_fine_and_end_with_the_time_and_the_memory(capsys, monkeypatch):
    """On a clock that only the rows move: a second to prepare a row, and a hundredth for each lane."""
    now = [0.0]
    monkeypatch.setattr(lanes.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(lanes, "measured_peaks", lambda _: lanes.DevicePeaks(1.0, 1.0, 1.0))

    def row(title, kind, number, *_, **__):
        now[0] += 1 + 0.01 * number
        if kind.name == "recall" and number > 100:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory")
        return lanes.Row(1.0, 1.0, 0.01)

    monkeypatch.setattr(lanes, "print_row", row)
    rates, right = lanes.print_lanes([1, 64, 512, 8, 256, 16], toy=True, until=42.0)
    assert right
    colouring, single, recall, grid = (list(rate) for rate in rates.values())
    assert colouring == single == [1, 64, 512, 8, 16], "256 lanes would have ended too late, 16 did not"
    assert recall == [1, 64, 8], "more than 512 lanes are too many, fewer are not"
    assert grid == [1, 64, 512, 8]
    out = capsys.readouterr().out
    assert out.count("out of memory") == 1
    assert out.count("no time left") == 2
