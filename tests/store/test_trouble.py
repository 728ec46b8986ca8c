"""Commits wait for a store in trouble, for some minutes; commands for which a person waits do not."""

import errno
import os
import re

import pytest
from obstore.exceptions import GenericError, PermissionDeniedError

from sweeper.packs import checkpoint
from sweeper.store import object_files
from sweeper.store.files import Retries, StoreError, StoreTrouble
from sweeper.store.store import Store
from tests.results import outcomes, result


class Waiting:
    """A clock that only waiting moves, and what happens while one waits."""

    def __init__(self, meanwhile=lambda waits: None):
        self.waits, self._meanwhile = [], meanwhile

    def sleep(self, seconds):
        self.waits.append(seconds)
        self._meanwhile(len(self.waits))

    def retries(self, seconds=300.0):
        return Retries(seconds, self.sleep, lambda: sum(self.waits))


def refused(times, value="done"):
    """An operation that the store refuses so many times, and the list of its calls."""
    calls = []

    def operation():
        calls.append(None)
        if len(calls) <= times:
            raise StoreTrouble("HTTP status 503")
        return value

    return operation, calls


def test_waits_double_with_jitter_up_to_half_a_minute(caplog):
    waiting = Waiting()
    operation, calls = refused(8)
    assert waiting.retries().until_done(operation) == "done"
    assert len(calls) == 9
    for wait, longest in zip(waiting.waits, [1, 2, 4, 8, 16, 30, 30, 30], strict=True):
        assert longest / 2 <= wait <= longest
    assert len(caplog.records) == 1, "told once"


def test_after_some_minutes_the_trouble_is_an_error():
    waiting = Waiting()
    with pytest.raises(StoreTrouble):
        waiting.retries().until_done(refused(1000)[0])
    assert 240 < sum(waiting.waits) <= 300


def test_a_network_disk_that_is_away_is_waited_for(tmp_path, monkeypatch):
    fsync = os.fsync

    def stale(descriptor):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    waiting = Waiting(lambda count: monkeypatch.setattr("sweeper.store.local_files.os.fsync", fsync))
    store = Store.open(tmp_path, waiting.retries())
    monkeypatch.setattr("sweeper.store.local_files.os.fsync", stale)
    assert store.commit(result())
    assert len(waiting.waits) == 1
    assert list(store.committed().values()) == ["finished"]


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (GenericError("Server returned non-2xx status code: 503 Service Unavailable"), True),
        (GenericError("Error after 3 retries: HTTP error: error sending request"), True),
        (GenericError("Client error with status code: 429 Too Many Requests"), True),
        (GenericError("Client error with status code: 400 Bad Request"), False),
        (PermissionDeniedError("not yours"), False),
        (FileNotFoundError("no such bucket"), False),
    ],
)
def test_answers_of_an_object_store(error, passing):
    with pytest.raises(StoreError) as caught, object_files._explained("write", "it"):
        raise error
    assert isinstance(caught.value, StoreTrouble) == passing


@pytest.mark.long  # every operation waits for the client's own attempts first
def test_a_bucket_that_answers_503_for_a_while_gets_the_commit_and_the_checkpoint(s3, tmp_path):
    def over(count):
        if count % 2 == 0:
            s3.busy.unlink()

    waiting = Waiting(over)
    store = Store.open(s3.url(tmp_path.name), waiting.retries())
    try:
        s3.busy.touch()
        assert store.commit(result(outcomes=outcomes(4)))
        assert len(waiting.waits) == 2
        s3.busy.touch()
        checkpoint.save(store, "0" * 20, ["a"], None, {"x": 1.0}, {})
        assert len(waiting.waits) == 4
        s3.busy.touch()
        with pytest.raises(StoreTrouble):
            store.committed()
        assert len(waiting.waits) == 4, "a person waits for this"
    finally:
        s3.busy.unlink(missing_ok=True)
    assert list(store.committed().values()) == ["finished"]
    saved = checkpoint.load(store, "0" * 20)
    assert saved is not None
    assert saved.trial_ids == ("a",)
    puts = [path for method, path in s3.requests() if method == "PUT" and re.search(f"{tmp_path.name}/trials/", path)]
    assert len(puts) == 1
