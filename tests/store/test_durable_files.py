"""The operations on files mean the same on a disk and in a bucket; a disk may be full, a server busy, a writer dead."""

import errno
import fcntl
import os
import pickle
import threading
import time
from pathlib import Path

import obstore
import pytest

from sweeper.store import files as durable
from sweeper.store import local_files
from sweeper.store.files import StoreError
from sweeper.store.local_files import LocalFiles
from sweeper.store.object_files import ObjectFiles
from sweeper.store.store import Store
from tests.power_cuts import ON_A_DISK, power_cuts
from tests.results import result

NAME = "trials/task=coloring/baseline=Aq_R/0.parquet"


@pytest.fixture
def disk(tmp_path):
    return LocalFiles.at(tmp_path / "root")


@pytest.fixture(params=["disk", pytest.param("bucket", marks=pytest.mark.slow)])
def files(request, tmp_path):
    if request.param == "disk":
        return request.getfixturevalue("disk")
    return ObjectFiles.at(request.getfixturevalue("s3").url(tmp_path.name))


def elsewhere(files):
    """The same files for another process."""
    return pickle.loads(pickle.dumps(files))


def test_a_file_is_read_whole_and_in_parts_by_every_process(files):
    data = bytes(range(256)) * 1000
    assert files.write(NAME, data)
    assert files.exists()
    for each in (files, elsewhere(files)):
        assert each.url == files.url
        assert each.read(NAME) == data
        parts = each.parsed(NAME, lambda file: (file.size(), file.read_at(2, 200_004), file.read_at(99, 255_998)))
        assert parts == (256_000, data[200_004:200_006], data[-2:])
        with each.filesystem.open_input_file(f"{each.root}/{NAME}") as whole:
            assert whole.read() == data
    assert files.write(NAME, b"")
    assert (files.read(NAME), files.parsed(NAME, lambda file: file.size())) == (b"", 0)


def test_files_are_listed_at_any_depth_with_their_state(files):
    for name in (NAME, "trials/task=b/x", "trials/y", "trials/.hidden/x", "trials/task=b/.x", "trials-more/x"):
        files.write(name, name.encode())
    listed = files.listing("trials")
    assert {name: state.size for name, state in listed.items()} == {
        name: len(name) for name in (NAME, "trials/task=b/x", "trials/y")
    }
    assert all(abs(state.modified - time.time_ns()) < 3600e9 for state in listed.values())
    files.write(NAME, b"another")
    assert files.listing("trials")[NAME].version != listed[NAME].version
    assert files.listing("trials")["trials/y"].version == listed["trials/y"].version


def test_who_writes_may_keep_what_is_there(files):
    seen = []
    assert files.write("x", b"one", keep=lambda now: bool(seen.append(now)))
    assert not files.write("x", b"two", keep=lambda now: not seen.append(now))
    assert seen == [None, b"one"]
    assert files.read("x") == b"one"
    assert files.write("x", b"three", keep=lambda now: now != b"one")
    assert files.read("x") == b"three"


def test_no_writer_comes_between_the_look_at_a_file_and_its_replacement(disk, monkeypatch):
    """Another one, which comes after the look, waits for the lock of the folder; without it, it would be done before.

    Else a failure that has looked replaces the finished result that comes then.
    """
    flock, waits_or_done = fcntl.flock, threading.Event()

    def noted(descriptor, operation):
        try:
            flock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            waits_or_done.set()
            flock(descriptor, operation)

    def finish():
        disk.write("x", b"finished")
        waits_or_done.set()

    other = threading.Thread(target=finish)

    def look(now):
        other.start()
        waits_or_done.wait()
        return now == b"finished"

    monkeypatch.setattr(fcntl, "flock", noted)
    disk.write("x", b"failed", keep=look)
    other.join()
    assert disk.read("x") == b"finished"


@pytest.mark.slow
@pytest.mark.parametrize("earlier", [None, b"old"])
def test_a_better_object_that_comes_at_the_last_moment_stays(s3, tmp_path, monkeypatch, earlier):
    bucket, put = ObjectFiles.at(s3.url(tmp_path.name)), obstore.put
    bucket.write("y" if earlier is None else "x", b"old")

    def after_another(*arguments, **options):
        monkeypatch.undo()
        elsewhere(bucket).write("x", b"better")
        return put(*arguments, **options)

    monkeypatch.setattr(obstore, "put", after_another)
    assert not bucket.write("x", b"mine", keep=lambda now: now == b"better")
    assert bucket.read("x") == b"better"


def test_a_file_is_moved_beside_others_and_one_that_is_gone_moves_nothing(files):
    files.write(f"quarantine/{NAME}", b"old")
    for _ in range(3):
        files.write(NAME, b"new")
        for _ in range(2):
            files.move(NAME, f"quarantine/{NAME}")
    assert files.read(NAME) is None
    assert files.read(f"quarantine/{NAME}") == b"old"
    assert sorted(files.read(name) for name in files.listing("quarantine")) == [b"new", b"new", b"new", b"old"]
    files.move(f"quarantine/{NAME}", "superseded/a/b")
    assert files.read("superseded/a/b") == b"old"


# A disk


@pytest.mark.parametrize("earlier", [None, b"old"])
def test_a_crash_at_any_moment_of_a_write_leaves_the_old_file_or_the_new_one(tmp_path, earlier):
    for folder, cut in power_cuts(tmp_path, least=9, operations=ON_A_DISK):
        files = LocalFiles.at(folder)
        files.write("trials/a/other", b"other")
        if earlier is not None:
            files.write("trials/b/x", earlier)
        ended = cut(files.write, "trials/b/x", b"new")
        now = files.read("trials/b/x")
        assert now == b"new" or (now == earlier and not ended), folder
        assert files.listing("trials").keys() == {"trials/a/other"} | ({"trials/b/x"} if now else set())
        assert files.write("trials/b/x", b"newer")
        assert (files.read("trials/b/x"), files.read("trials/a/other")) == (b"newer", b"other")


def test_leftovers_of_crashes_are_swept_once_nobody_can_own_them(disk):
    disk.write(NAME, b"whole")
    root = Path(disk.root)
    old, young = (root / ".unfinished" / name for name in ("x.0", "x.1"))
    past = time.time() - 2 * durable.LEFTOVER_SECONDS
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (past, past))
    disk.remove_leftovers()
    assert [path.exists() for path in (old, young)] == [False, True]
    assert disk.read(NAME) == b"whole"


def test_a_full_disk_and_a_root_that_is_a_file_are_errors_in_words(disk, monkeypatch):
    disk.write(NAME, b"old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(local_files.os, "fsync", full)
        with pytest.raises(StoreError, match=NAME):
            disk.write(NAME, b"new")
    assert disk.read(NAME) == b"old"
    assert os.listdir(Path(disk.root, ".unfinished")) == []
    assert disk.write(NAME, b"new")
    with pytest.raises(StoreError, match=NAME):  # which is no folder
        LocalFiles.at(disk.path(NAME)).write("x", b"")


def test_a_disk_without_locks_is_written_all_the_same(disk, monkeypatch):
    def refused(descriptor, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refused)
    assert disk.write(NAME, b"one")
    assert disk.read(NAME) == b"one"


# A bucket


@pytest.mark.slow
def test_a_server_that_is_busy_for_a_while_gets_the_commit_and_the_checkpoint(s3, tmp_path):
    store = Store.open(s3.url(tmp_path.name))
    for write in (lambda: store.commit(result()), lambda: store.write_bytes("checkpoints/x", b"one")):
        asked = len(s3.requests())
        s3.busy.touch()
        writing = threading.Thread(target=write)
        try:
            writing.start()
            while len(s3.requests()) < asked + 3:
                assert writing.is_alive()
        finally:
            s3.busy.unlink()
        writing.join()
    assert list(store.committed().values()) == ["finished"]
    assert store.read_bytes("checkpoints/x") == b"one"
