"""The status command tells how far each sweep is, and why trials failed."""

import io
import math
import os
import shutil
import socket
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from sweeper.__main__ import app
from sweeper.commands import ask
from sweeper.listeners import heartbeats
from sweeper.store.store import Store
from sweeper.trial.trial import trial_id
from tests.heartbeats import DEAD, ELSEWHERE, PACK, heartbeat
from tests.processes import refusal, told
from tests.results import PROVENANCE, failure, record, result
from tests.trials import coloring_trial

IDS = [trial_id(coloring_trial(seed=seed)) for seed in range(6)]


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    store = Store.open(tmp_path_factory.mktemp("status"))
    store.record_sweep(record("quick", IDS[:1]))
    store.record_sweep(record("quick", IDS[:5], captured="2026-02-03T04:05:06+00:00", dirty=True))
    store.record_sweep(record("other", IDS[:1], commit=None, dirty=None))
    store.commit(result())
    store.commit(result({"seed": 1}, status="stopped"))
    store.commit(failure({"seed": 2}))
    store.commit(failure({"seed": 3}, kind="crash", message="[bold]odd[/bold]\nsecond line"))
    store.commit(result({"seed": 5}))
    return store


@pytest.fixture
def results(filled, tmp_path):
    shutil.copytree(filled.root, tmp_path / "results")
    return Store.open(tmp_path / "results")


def lines(store):
    return told("status", "--results", store.url).stdout.splitlines()


def beat(store, **changes):
    """The file of a heartbeat of a driver of quick."""
    written = heartbeat(**changes)
    heartbeats.write_heartbeat(store.files, "quick", written)
    return Path(store.root, f"drivers/quick/{written.driver}.json")


def hours_later(path, hours):
    later = path.stat().st_mtime_ns + hours * 3600 * 10**9
    os.utime(path, ns=(later, later))


def test_each_sweep_is_as_far_as_its_latest_start(filled):
    heads, other, quick = (line.split() for line in lines(filled)[1:4])
    assert " ".join(heads) == "sweep planned finished stopped failed pending starts last start commit"
    assert other == ["other", "1", "1", "0", "0", "0", "1", "2026-01-02", "03:04", "UTC", "unknown"]
    assert quick == ["quick", *"511212", "2026-02-03", "04:05", "UTC", PROVENANCE.commit[:10], "+", "changes"]


def test_failures_are_counted_by_reason(results):
    results.commit(failure({"seed": 4}))
    reasons = lines(results)[4:]
    assert reasons[:2] == ["quick: 2 failed: divergence", "quick: 1 failed: crash: [bold]odd[/bold]; second line"]
    assert reasons[2].startswith("1 "), "a trial that no sweep plans"


def test_the_environment_may_name_the_store_and_is_told_unless_an_option_does(filled, tmp_path):
    Store.open(tmp_path / "empty").files.write("drivers/x", b"")
    environment = {"SWEEPER_RESULTS": filled.url}
    named = CliRunner().invoke(app, ["status"], env=environment)
    assert named.stderr.split()[2:] == [filled.url, "(SWEEPER_RESULTS)"]
    assert "quick" in named.stdout
    other = CliRunner().invoke(app, ["status", "--results", str(tmp_path / "empty")], env=environment)
    assert (other.stderr, "quick" in other.stdout) == ("", False)


@pytest.mark.parametrize(
    ("arithmetics", "told"),
    [
        ((None, "c0ffee", "c0ffee"), []),
        (("c0ffee", "feed", "feed"), ["1 trial by c0ffee", "2 trials by feed"]),
        (("c0ffee feed", None, None), ["1 trial by c0ffee, then feed"]),
    ],
)
def test_trials_of_several_arithmetics_are_told(tmp_path, arithmetics, told):
    store = Store.open(tmp_path)
    store.record_sweep(record("quick", IDS))
    for seed, arithmetic in enumerate(arithmetics):
        store.commit(result({"seed": seed}, arithmetic=arithmetic))
    said = " ".join(lines(store))
    assert ("quick: computed" in said) == bool(told)
    assert all(" ".join(words.split()) in said for words in told), said


def test_metrics_that_were_not_finite_are_told(tmp_path):
    store = Store.open(tmp_path)
    store.record_sweep(record("quick", IDS))
    for seed, value in enumerate((0.5, math.nan, math.inf)):
        store.commit(result({"seed": seed}, metrics={"success": 0.5, "regret": value}))
    said = " ".join(lines(store))
    assert "quick: regret" in said
    assert "2 trials" in said
    assert IDS[1] in said


def test_an_empty_store_and_none_at_all(tmp_path):
    assert len(lines(Store.open(tmp_path))) == 2
    assert "nowhere" in refusal("status", "--results", tmp_path / "nowhere")


def test_running_packs_are_shown(results):
    beat(results, packs=[PACK, PACK | {"does": "compiling", "nothing new for": 1800.0}])
    driver, heads, *rows = lines(results)[:4]
    assert driver.startswith(
        f"quick: running on {socket.gethostname()} (process {os.getpid()}) · 3/8 done · 4 running ("
    )
    assert heads.split() == ["sweep", "pack", "lanes", "does", "step", "of", "loss", "node", "nothing", "new", "for"]
    training, compiling = (row.split() for row in rows)
    assert training == ["quick", "coloring", "Aq_R", "4", "training", "100", "250", "0.25", "seven"]
    assert compiling[-3:] == ["seven", "30", "min"]


def test_a_driver_that_died_on_this_machine_is_dead_at_once(results):
    beat(results, **DEAD)
    first = lines(results)[0]
    assert "has died" in first
    assert first.endswith("this command carries on: python -m sweeper.run x.yaml")


def test_a_driver_elsewhere_whose_heartbeat_is_old_has_died(results):
    beat(results, **ELSEWHERE)
    hours_later(beat(results, **ELSEWHERE), hours=-1)
    assert sorted(driver.lives for driver in heartbeats.drivers(results.files)) == [False, True]
    shown = lines(results)
    assert sum(line.startswith("quick: running on far ") for line in shown) == 1
    (old,) = (line for line in shown if "60 min" in line)
    assert old.endswith("python -m sweeper.run x.yaml")


def test_watching_looks_again_until_ctrl_c(results):
    looks = []

    def pause(seconds):
        looks.append(seconds)
        if len(looks) == 2:
            beat(results)
        if len(looks) == 3:
            raise KeyboardInterrupt

    screen = Console(file=io.StringIO(), width=200)
    with pytest.raises(KeyboardInterrupt):
        ask.follow(results, screen, pause)
    assert "quick: running on" in screen.file.getvalue()
    assert len(looks) == 3
