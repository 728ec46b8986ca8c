"""`report --watch` writes the page again until Ctrl-C, makes figures only for new trials, and leaves a quiet page."""

import itertools

import pytest
from typer.testing import CliRunner

from sweeper.analysis import report
from sweeper.report import app
from sweeper.store.store import Store, StoreError
from sweeper.trial.trial_spec import trial_id
from tests.results import record, result


@pytest.fixture
def store(tmp_path):
    store = Store.open(tmp_path / "store")
    ids = [trial_id(result({"seed": seed}).trial) for seed in range(3)]
    store.record_sweep(record("ours", ids))
    return store


def watched(store, monkeypatch, *rounds, waits=None):
    """Let the command run, and call one function in each of its pauses, until Ctrl-C in the last."""
    pauses = iter(rounds)

    def sleep(seconds):
        assert seconds >= 7
        if waits is not None:
            waits.append(seconds)
        action = next(pauses, None)
        if action is None:
            raise KeyboardInterrupt
        action()

    monkeypatch.setattr(report, "sleep", sleep)
    page = store.root + "/page.html"
    return CliRunner().invoke(app, ["--results", store.root, "--html", page, "--watch", "7"])


def test_the_page_follows_the_store(store, monkeypatch, tmp_path):
    path = tmp_path / "store" / "page.html"
    seen, drawn = [], []
    whole = report.write_report
    monkeypatch.setattr(report, "write_report", lambda *given, **keys: drawn.append(given) or whole(*given, **keys))

    def look():
        text = path.read_text()
        seen.append(text.count('data-status="finished"'))
        assert '<html lang="en" data-every="7">' in text
        assert '<noscript><meta http-equiv="refresh" content="7"></noscript>' in text

    def commit():
        look()
        store.commit(result({"seed": len(seen)}))

    def start():
        store.record_sweep(store.sweeps()[0].model_copy(update={"name": "theirs", "trial_ids": ()}))

    done = watched(store, monkeypatch, look, commit, look, look, start)
    assert done.exit_code == 130
    assert seen == [0, 0, 1, 1]
    assert len(drawn) == 4, "at first, for the new trial, for the new start, and at the end"
    assert done.output.count("page:") == 1
    text = path.read_text()
    assert "data-every" not in text
    assert 'http-equiv="refresh"' not in text
    assert text.count('data-status="finished"') == 1
    assert [file.name for file in path.parent.iterdir() if file.name.startswith(".page")] == []


def test_a_page_that_takes_long_to_write_is_written_less_often(store, monkeypatch):
    moments, waits = itertools.count(step=10), []
    monkeypatch.setattr(report, "monotonic", lambda: next(moments))
    watched(store, monkeypatch, lambda: None, lambda: None, waits=waits)
    assert waits == [7, 90, 90]


def test_a_store_in_trouble_is_tried_again(store, monkeypatch):
    def trouble():
        def away(store):
            monkeypatch.setattr(report, "_state", lambda store: None)
            raise StoreError("the server is away")

        monkeypatch.setattr(report, "_state", away)

    done = watched(store, monkeypatch, trouble, lambda: None, lambda: None)
    assert done.exit_code == 130
    assert done.stderr.count("the server is away") == 1


def test_what_cannot_be_followed_is_refused(tmp_path):
    missing = CliRunner().invoke(
        app, ["--results", str(tmp_path / "no"), "--html", str(tmp_path / "p"), "--watch", "7"]
    )
    assert missing.exit_code == 2
    assert "no results store" in missing.stderr
    alone = CliRunner().invoke(app, ["--results", str(tmp_path), "--watch", "7"])
    assert alone.exit_code == 2
    assert "--html" in alone.stderr
