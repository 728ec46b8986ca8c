"""The status command tells how far each sweep is, and why trials failed."""

import os
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sweeper.analysis import sweeps
from sweeper.commands import status
from sweeper.listeners import heartbeats
from sweeper.store.store import Store
from sweeper.trial.trial_spec import trial_id
from tests.heartbeats import DEAD, ELSEWHERE, PACK, heartbeat
from tests.results import PROVENANCE, failure, record, result
from tests.trials import coloring_trial

IDS = [trial_id(coloring_trial(seed=seed)) for seed in range(6)]


@pytest.fixture
def results(tmp_path):
    filled = Store.open(tmp_path / "results")
    filled.record_sweep(record("quick", IDS[:1]))
    filled.record_sweep(record("quick", IDS[:5], captured="2026-02-03T04:05:06+00:00", dirty=True))
    filled.record_sweep(record("other", IDS[:1], commit=None, dirty=None))
    filled.commit(result())
    filled.commit(result({"seed": 1}, status="stopped"))
    filled.commit(failure({"seed": 2}))
    filled.commit(failure({"seed": 3}, kind="crash", message="[bold]odd[/bold]\nsecond line"))
    filled.commit(result({"seed": 5}))
    return filled


def shown(url):
    return CliRunner().invoke(status.app, ["--results", url])


def test_each_sweep_is_as_far_as_its_latest_start(results):
    done = shown(results.url)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert " ".join(lines[0].split()) == "sweep planned finished stopped failed pending starts last start commit"
    assert lines[1].split() == ["other", "1", "1", "0", "0", "0", "1", "2026-01-02", "03:04", "UTC", "unknown"]
    commit = PROVENANCE.commit[:10]
    assert lines[2].split() == ["quick", *"511212", "2026-02-03", "04:05", "UTC", commit, "+", "changes"]


def test_failures_are_counted_by_reason(results):
    results.commit(failure({"seed": 4}))
    lines = shown(results.url).stdout.splitlines()
    assert "quick: 2 failed: divergence" in lines
    assert "quick: 1 failed: crash: [bold]odd[/bold]; second line" in lines
    assert "1 committed trial is not, or no longer, planned by a sweep" in lines


def test_an_empty_store_and_none_at_all(tmp_path):
    assert "empty" in shown(str(tmp_path)).stdout
    absent = shown(str(tmp_path / "nowhere"))
    assert absent.exit_code == 2
    assert "there is no results store" in absent.stderr


def test_running_packs_are_shown(results):
    heartbeats.write_heartbeat(results.files, "quick", heartbeat())
    out = shown(results.url).output
    process = heartbeat().process
    assert (
        f"quick: running on {process.host} (process {process.pid}) · 3/8 done · 1 pack running · 1,234 steps/s · "
        "60 s so far · 5 min left"
    ) in out
    heads, row = (line.split() for line in out.splitlines()[-2:])
    assert heads == ["sweep", "pack", "lanes", "does", "step", "of", "loss", "node"]
    assert row == ["quick", "coloring", "Aq_R", "4", "training", "100", "250", "0.25", "seven"]


def test_a_pack_without_news_says_since_when(results):
    packs = (PACK, PACK.model_copy(update={"phase": "compiling", "still": 1800.0}))
    heartbeats.write_heartbeat(results.files, "quick", heartbeat(packs=packs, running=2))
    heads, moving, still = (line.split() for line in shown(results.url).output.splitlines()[-3:])
    assert heads[-4:] == ["node", "nothing", "new", "for"]
    assert (moving[-1], still[-3:]) == ("seven", ["seven", "30", "min"])


def test_before_the_first_pack_there_is_no_speed(results):
    heartbeats.write_heartbeat(results.files, "quick", heartbeat(running=0, packs=()))
    assert "3/8 done · 0 packs running · 60 s so far\n" in shown(results.url).output


def test_a_driver_that_died_on_this_machine_is_dead_for_certain(results):
    heartbeats.write_heartbeat(results.files, "quick", heartbeat(process=DEAD))
    out = shown(results.url).output
    assert "has died; what it has committed stays; this command carries on: python -m sweeper.run" in out
    assert "seven" not in out, "its packs do not run"


@pytest.mark.parametrize("skew", [-86400, 0, 86400])
def test_of_a_driver_elsewhere_the_store_tells_how_old_its_heartbeat_is(results, monkeypatch, skew):
    fresh, old = heartbeat(process=ELSEWHERE), heartbeat(process=ELSEWHERE)
    for each in (fresh, old):
        heartbeats.write_heartbeat(results.files, "quick", each)
    path = Path(results.root, f"drivers/quick/{old.driver}.json")
    hour_ago = path.stat().st_mtime_ns - 3600 * 10**9
    os.utime(path, ns=(hour_ago, hour_ago))
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + skew)  # a machine whose clock is wrong
    out = shown(results.url).output
    assert out.count("quick: running on far") == 1
    assert "no heartbeat of the driver on far" in out
    assert "the last came 60 min ago by the clock of the store; if it is dead, what it has committed stays" in out


def test_a_heartbeat_from_the_future_is_none(results):
    ahead = heartbeat(process=ELSEWHERE)
    heartbeats.write_heartbeat(results.files, "quick", ahead)
    path = Path(results.root, f"drivers/quick/{ahead.driver}.json")
    later = path.stat().st_mtime_ns + 3600 * 10**9
    os.utime(path, ns=(later, later))
    assert not any(driver.lives for driver in sweeps.drivers(results))
    assert "its time lies 60 min ahead of the clock of the store" in shown(results.url).output


def test_a_store_that_cannot_be_written_tells_no_age(results, monkeypatch):
    heartbeats.write_heartbeat(results.files, "quick", heartbeat(process=ELSEWHERE))
    monkeypatch.setattr(sweeps, "store_clock", lambda files: None)
    assert "its age is unknown, as the store cannot be written" in shown(results.url).output


def test_what_a_driver_says_cannot_steer_the_terminal(results):
    pack = heartbeats.PackProgress.model_validate(
        {"label": "\x1b[2J", "phase": "", "step": 0, "steps": 1, "lanes": 1, "train_loss": None, "node": "\x07"}
    )
    heartbeats.write_heartbeat(results.files, "quick", heartbeat(command="\x1b[2J", state="\x1b[2J", packs=(pack,)))
    assert not {"\x1b", "\x07"} & set(shown(results.url).output)


def test_watching_looks_again_until_ctrl_c(results, monkeypatch):
    looks = []

    def sleep(seconds):
        looks.append(seconds)
        if len(looks) == 2:
            heartbeats.write_heartbeat(results.files, "quick", heartbeat())
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(status.time, "sleep", sleep)
    done = CliRunner().invoke(status.app, ["--results", results.url, "--watch"])
    assert done.exit_code == 130
    assert "quick: running on" in done.output
    assert len(looks) == 3
