"""Commits wait for a store in trouble, for some minutes; commands for which a person waits do not."""

import errno
import io
import itertools
import os

import numpy as np
import obstore
import pytest
from obstore.exceptions import (
    AlreadyExistsError,
    GenericError,
    NotSupportedError,
    PermissionDeniedError,
    PreconditionError,
)

from sweeper.store import files, local_files, object_files
from sweeper.store.files import Retries, StoreError, StoreTrouble
from sweeper.store.object_files import ObjectFiles
from sweeper.store.store import Store
from tests.results import outcomes, result


class Waiting:
    """A clock that only waiting moves, and what happens while one waits."""

    def __init__(self, meanwhile=lambda waits: None):
        self.waits, self._meanwhile = [], meanwhile

    def sleep(self, seconds):
        self.waits.append(seconds)
        self._meanwhile(len(self.waits))

    @property
    def retries(self):
        return Retries(300.0, self.sleep, lambda: sum(self.waits))


def refused(times):
    """An operation that the store refuses so many times."""
    calls = iter(range(times))

    def operation():
        if next(calls, None) is not None:
            raise StoreTrouble("HTTP status 503")
        return "done"

    return operation


def test_waits_double_with_jitter_up_to_half_a_minute_and_end_after_some_minutes(caplog):
    waiting = Waiting()
    assert waiting.retries.until_done(refused(8)) == "done"
    for wait, longest in zip(waiting.waits, [1, 2, 4, 8, 16, 30, 30, 30], strict=True):
        assert longest / 2 <= wait <= longest
    assert len(caplog.records) == 1, "told once"
    waiting = Waiting()
    with pytest.raises(StoreTrouble):
        waiting.retries.until_done(refused(1000))
    assert 240 < sum(waiting.waits) <= 300


def test_a_network_disk_that_is_away_is_waited_for(tmp_path, monkeypatch):
    def stale(descriptor):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    waiting = Waiting(lambda count: monkeypatch.undo())
    store = Store.open(tmp_path, waiting.retries)
    monkeypatch.setattr(os, "fsync", stale)
    assert store.commit(result())
    assert len(waiting.waits) == 1
    assert list(store.committed().values()) == ["finished"]


@pytest.mark.parametrize("reads", range(3))
def test_a_disk_in_trouble_is_not_taken_for_a_damaged_file(tmp_path, monkeypatch, reads):
    """Wherever the parts of a file are read: for its seal, and by pyarrow for its columns."""
    store = Store.open(tmp_path)
    store.commit(result(outcomes=outcomes(100_000, loss=np.random.default_rng(0).random(100_000))))
    count = itertools.count()

    class Stale(io.FileIO):
        def readinto(self, buffer):
            if next(count) >= reads:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
            return super().readinto(buffer)

    with monkeypatch.context() as patch:
        patch.setattr(local_files, "_File", type("_File", (local_files._File, Stale), {}))
        with pytest.raises(StoreTrouble):
            store.verify()
    assert store.verify() == []
    assert store.listing("quarantine") == []


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (GenericError("Server returned non-2xx status code: 503 Service Unavailable"), True),
        (GenericError("Error after 3 retries: HTTP error: error sending request"), True),
        (GenericError("Client error with status code: 429 Too Many Requests"), True),
        (AlreadyExistsError("status code: 409 Conflict"), True),
        (PreconditionError("status code: 412 Precondition Failed"), True),
        (NotSupportedError("status code: 501 Not Implemented"), False),
        (GenericError("Client error with status code: 400 Bad Request"), False),
        (PermissionDeniedError("not yours"), False),
        (FileNotFoundError("no such bucket"), False),
    ],
)
def test_answers_of_an_object_store(error, passing):
    with pytest.raises(StoreError) as caught, object_files._explained("write", "it"):
        raise error
    assert isinstance(caught.value, StoreTrouble) == passing


@pytest.fixture
def bucket(monkeypatch):
    """A bucket with one object, of which no later request needs a server."""
    monkeypatch.setattr(files, "FIRST_PAUSE", 0.0)
    store = obstore.store.MemoryStore()
    monkeypatch.setattr(obstore.store, "from_url", lambda url, **options: store)
    made = ObjectFiles.at("s3://bucket/results?region=us-east-1")
    made.write("x", b"old" * 100_000)
    return made


@pytest.mark.parametrize("conflict", [AlreadyExistsError, PreconditionError])
def test_a_conflict_in_any_operation_of_a_bucket_is_trouble_with_an_end(bucket, monkeypatch, conflict):
    """A gateway whose ETags never fit, and one that answers 409 to whatever comes."""
    calls, get = [], obstore.get

    def refused(*arguments, **options):
        calls.append(arguments)
        raise conflict("status code: 409 or 412")

    def get_the_end_only(*arguments, **options):
        parts = isinstance(options.get("options", {}).get("range"), tuple)
        return (refused if parts else get)(*arguments, **options)

    operations = {
        "put": (lambda: bucket.write("x", b"new"), lambda: bucket.write("x", b"new", keep=lambda now: False)),
        "get": (lambda: bucket.parsed("x", lambda file: file.read_at(10, 0)), lambda: bucket.read("x")),
        "list": (lambda: bucket.listing("trials"), bucket.exists),
        "delete": (lambda: bucket.delete("x"),),
        "rename": (lambda: bucket.move("x", "y"),),
    }
    for name, uses in operations.items():
        for number, use in enumerate(uses):
            with monkeypatch.context() as patch:
                patch.setattr(obstore, name, get_the_end_only if (name, number) == ("get", 0) else refused)
                calls.clear()
                with pytest.raises(StoreTrouble):
                    use()
                assert 1 <= len(calls) <= files.LOOKS
    assert bucket.read("x") == b"old" * 100_000


@pytest.mark.long  # every operation waits for the client's own attempts first
def test_a_bucket_that_answers_503_for_a_while_gets_the_commit_and_the_checkpoint(s3, tmp_path):
    waiting = Waiting(lambda count: s3.busy.unlink() if count % 2 == 0 else None)
    store = Store.open(s3.url(tmp_path.name), waiting.retries)
    try:
        for write in (lambda: store.commit(result()), lambda: store.write_bytes("checkpoints/x", b"one")):
            s3.busy.touch()
            write()
        assert len(waiting.waits) == 4
        s3.busy.touch()
        with pytest.raises(StoreTrouble):
            store.committed()
        assert len(waiting.waits) == 4, "a person waits for this"
    finally:
        s3.busy.unlink(missing_ok=True)
    assert list(store.committed().values()) == ["finished"]
    assert store.read_bytes("checkpoints/x") == b"one"
    assert len([path for method, path in s3.requests() if method == "PUT" and f"{tmp_path.name}/trials/" in path]) == 1
