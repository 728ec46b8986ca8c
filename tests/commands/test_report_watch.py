"""`report --watch` writes the page again until Ctrl-C, makes figures only for new trials, and leaves a quiet page."""

import itertools
import re
import shutil

import pytest

from sweeper.analysis import report
from sweeper.analysis.report import ReportOptions
from sweeper.store.store import Store
from sweeper.trial.trial import trial_id
from tests.processes import ctrl_c, refusal, told
from tests.results import record, result

pytestmark = pytest.mark.usefixtures("vega")


@pytest.fixture
def store(tmp_path):
    store = Store.open(tmp_path / "store")
    ids = [trial_id(result({"seed": seed}).trial) for seed in range(3)]
    store.record_sweep(record("ours", ids))
    return store


@pytest.fixture
def page(tmp_path):
    return tmp_path / "page.html"


def followed(store, page, *rounds, clock=lambda: 0.0):
    """Follow the store, and call one function in each pause, until Ctrl-C in the last; how long the pauses were."""
    rounds, pauses = iter(rounds), []

    def pause(seconds):
        pauses.append(seconds)
        action = next(rounds, None)
        if action is None:
            raise KeyboardInterrupt
        action()

    report.follow(ReportOptions(store.url, html=page), 7, pause, clock)
    return pauses


def finished(page):
    return page.read_text().count('<td class="finished">')


@pytest.mark.slow  # writes the page six times
def test_the_page_follows_the_store(store, page, monkeypatch, capsys):
    seen, drawn = [], []
    whole = report.write_report
    monkeypatch.setattr(report, "write_report", lambda *given, **keys: drawn.append(given) or whole(*given, **keys))

    def look():
        seen.append(finished(page))
        assert '<html lang="en" data-every="7">' in page.read_text()
        assert '<noscript><meta http-equiv="refresh" content="7"></noscript>' in page.read_text()

    def commit():
        look()
        store.commit(result({"seed": len(seen)}))

    def start():
        store.record_sweep(store.sweeps()[0].model_copy(update={"name": "theirs", "trial_ids": ()}))

    assert followed(store, page, look, commit, look, start) == [7] * 5
    assert seen == [0, 0, 1]
    assert len(drawn) == 4, "at first, for the new trial, for the new start, and at the end"
    assert capsys.readouterr().out.count(str(page)) == 1
    assert not re.search('data-every|http-equiv="refresh"', page.read_text())
    assert finished(page) == 1
    assert [path.name for path in page.parent.iterdir() if path.name.startswith(".page")] == []


@pytest.mark.slow  # writes three pages
def test_a_page_that_takes_long_to_write_is_written_less_often(store, page):
    moments = itertools.count(step=10)
    assert followed(store, page, lambda: None, lambda: None, clock=lambda: next(moments)) == [7, 90, 90]


@pytest.mark.slow  # writes three pages
def test_a_store_in_trouble_is_tried_again(store, page, tmp_path, capsys):
    away = tmp_path / "away"

    def back():
        shutil.move(away, store.root)
        store.commit(result())

    followed(store, page, lambda: shutil.move(store.root, away), back, lambda: None)
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert finished(page) == 1


def test_ctrl_c_is_an_exit_code(store, page):
    written = []

    def again():
        """The page was written a second time."""
        if page.exists() and (state := page.stat().st_mtime_ns) not in written:
            written.append(state)
        return len(written) > 1

    with ctrl_c(when=again):
        told("report", "--results", store.url, "--html", page, "--watch", "1", code=130)
    assert "data-every" not in page.read_text()


def test_what_cannot_be_followed_is_refused(tmp_path, page):
    assert "nowhere" in refusal("report", "--results", tmp_path / "nowhere", "--html", page, "--watch", "7")
