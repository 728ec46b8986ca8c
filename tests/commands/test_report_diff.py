"""`report --diff A B`: entries that differ, trials in both, and metrics with the spread between training seeds."""

import pytest

from sweeper.store.store import Store
from tests import processes
from tests.filled_stores import swept
from tests.results import failure, result


def trained(q, seed, success, steps=300):
    return result({"objective": {"q": q, "m": 2}, "seed": seed, "steps": steps}, metrics={"success": success})


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Sweeps of 300 and of 500 steps, and two that share a setting."""
    store = Store.open(tmp_path_factory.mktemp("diff"))
    short = [trained(2.0, 0, 0.5), trained(2.0, 1, 0.52), trained(3.0, 0, 0.4), trained(3.0, 1, 0.8)]
    long = [trained(2.0, 0, 0.6, 500), trained(2.0, 1, 0.64, 500), trained(3.0, 0, 0.75, 500)]
    swept(store, *short, name="short")
    swept(store, *long, name="long")
    swept(store, *short[2:], trained(4.0, 0, 0.9), trained(4.0, 1, 0.9), failure({"seed": 7}), name="more")
    return store


def told(store, *names):
    """The lines of a comparison."""
    done = processes.told("report", "--results", store.url, "--diff", *names)
    return done.stdout.replace(" ± ", "±").splitlines()


def test_settings_that_differ_everywhere_in_one_entry_are_compared(store):
    lines = told(store, "short", "long")
    assert lines[0] == "0 trials in both, 4 only in short, 3 only in long"
    assert ["steps", "300", "500"] in [line.split() for line in lines]
    assert not any(line.startswith("q ") for line in lines[: lines.index("How the metrics moved")])
    rows = [line.split() for line in lines]
    assert ["q", "metric", "short", "long", "moved", "seeds"] in rows
    assert ["2", "success", "0.510±0.014", "0.62±0.03", "+0.11±0.02", "*", "2"] in rows
    assert ["3", "success", "0.6±0.3", "0.75", "+0.15", "2,", "1"] in rows


def test_shared_trials_are_counted_and_settings_without_a_partner_named(store):
    lines = told(store, "short", "more")
    assert lines[0] == "2 trials in both, 2 only in short, 3 only in more"
    assert ["q", "2", "3", "4"] in [line.split() for line in lines]
    text = " ".join(" ".join(lines).split())
    assert "1 setting with the same trials and numbers in both" in text
    assert "1 setting of short, 1 of more" in text, "have no partner"


def test_two_stores_are_compared_trial_by_trial(store, tmp_path):
    other = Store.open(tmp_path / "other")
    swept(other, trained(2.0, 0, 0.5), trained(2.0, 1, 0.99), name="short")
    lines = told(store, "short", other.url)
    assert lines[0] == f"2 trials in both, 2 only in short, 0 only in {other.url}"
    assert lines[1].startswith("1 of the trials in both ")


def test_a_store_needs_no_other(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = processes.told("report", "--diff", store.url, store.url).stdout.splitlines()
    assert lines[0].startswith("10 trials in both, 0 only in ")


def test_a_name_that_is_neither_is_one_message(store):
    named = processes.refusal("report", "--results", store.url, "--diff", "shirt", "long")
    assert "'shirt'" in named
    assert "'short'" in named, "is proposed"
