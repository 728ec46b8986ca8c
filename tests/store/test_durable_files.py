"""The operations on files mean the same on a disk and in a bucket; a disk may be full, or have links and crashes."""

import errno
import itertools
import os
import pickle
import time
from pathlib import Path

import obstore
import pytest

from sweeper.store import files as durable
from sweeper.store import local_files, object_files
from sweeper.store.files import StoreError, StoreTrouble, TooLargeError
from sweeper.store.local_files import LocalFiles
from sweeper.store.object_files import ObjectFiles
from tests.power_cuts import ON_A_DISK, power_cuts
from tests.store.meanwhile import before_next

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


def test_where_nothing_was_written_nothing_is_found_or_made(files):
    assert (files.listing("trials"), files.folders("trials")) == ({}, [])
    assert [files.read(NAME), files.opened(NAME), files.parsed(NAME, pytest.fail)] == [None] * 3
    files.delete(NAME)
    files.remove_leftovers()
    assert not files.exists()


def test_a_file_is_read_whole_and_in_parts_by_every_process(files):
    assert files.write(NAME, b"0123456789")
    assert files.exists()
    for each in (files, elsewhere(files)):
        assert each.url == files.url
        assert each.read(NAME) == b"0123456789"
        with each.opened(NAME) as part:
            assert (part.size(), part.read_at(2, 4), part.read_at(99, 8)) == (10, b"45", b"89")
        assert each.parsed(NAME, lambda file: file.read()) == b"0123456789"
        with each.filesystem.open_input_file(f"{each.root}/{NAME}") as whole:
            assert whole.read() == b"0123456789"
    assert files.write(NAME, b"")
    assert (files.read(NAME), files.parsed(NAME, lambda file: file.size())) == (b"", 0)


def test_parts_of_two_files_are_never_read_as_one(files):
    """A file is replaced between two readings of its parts, the end first."""
    old, new = (bytes([letter]) * 200_000 for letter in b"ab")
    files.write(NAME, old)

    def read(file):
        end = file.read_at(10, file.size() - 10)
        if files.read(NAME) == old:
            elsewhere(files).write(NAME, new)
        return end + file.read_at(10, 0)

    assert files.parsed(NAME, read) in (b"a" * 20, b"b" * 20)
    assert files.read(NAME) == new


def test_files_are_listed_at_any_depth_with_their_state_and_folders_one_by_one(files):
    for name in (NAME, "trials/task=b/x", "trials/y", "trials/.hidden/x", "trials/task=b/.x", "trials-more/x"):
        files.write(name, name.encode())
    listed = files.listing("trials")
    assert {name: state.size for name, state in listed.items()} == {
        name: len(name) for name in (NAME, "trials/task=b/x", "trials/y")
    }
    assert all(abs(state.modified - time.time_ns()) < 3600e9 for state in listed.values())
    assert [name for name in files.folders("trials") if "hidden" not in name] == [
        "trials/task=b", "trials/task=coloring",
    ]  # fmt: skip
    assert files.folders("trials/task=coloring") == ["trials/task=coloring/baseline=Aq_R"]
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


@pytest.mark.parametrize("earlier", [None, b"old"])
def test_the_look_at_a_file_and_its_replacement_are_one_step(files, monkeypatch, earlier):
    """A better file that comes at the last moment stays."""
    files.write("y" if earlier is None else "x", b"old")
    module, name = (local_files.os, "fsync") if isinstance(files, LocalFiles) else (obstore, "put")
    publish = getattr(module, name)

    def after_another(*arguments, **options):
        monkeypatch.undo()
        elsewhere(files).write("x", b"better")
        return publish(*arguments, **options)

    monkeypatch.setattr(module, name, after_another)
    assert not files.write("x", b"mine", keep=lambda now: now == b"better")
    assert files.read("x") == b"better"


def test_a_change_begins_again_if_another_came_first(files):
    files.update("sweeps/x", lambda now: b"one")
    before_next(files, "write", lambda: elsewhere(files).write("sweeps/x", b"two"))
    files.update("sweeps/x", lambda now: now + b" and three")
    assert files.read("sweeps/x") == b"two and three"
    before = files.listing("sweeps")
    for unchanged in (lambda now: None, lambda now: now):
        files.update("sweeps/x", unchanged)
    assert files.listing("sweeps") == before


def test_a_file_is_deleted_unless_it_is_to_stay(files):
    files.write("x", b"one")
    files.delete("x", keep=lambda: True)
    assert files.read("x") == b"one"
    files.delete("x", keep=lambda: False)
    files.delete("x")
    assert files.read("x") is None


def test_a_file_is_moved_beside_others_and_one_that_is_gone_moves_nothing(files):
    files.write(f"quarantine/{NAME}", b"old")
    for number in ("", "-2", "-3"):
        assert files.read(f"quarantine/{NAME.replace('.', f'{number}.')}")
        files.write(NAME, b"new")
        for _ in range(2):
            files.move(NAME, f"quarantine/{NAME}")
    assert files.read(NAME) is None
    assert [files.read(name) for name in sorted(files.listing("quarantine"))] == [b"new", b"new", b"new", b"old"]
    files.move(f"quarantine/{NAME}", "superseded/a/b")
    assert files.read("superseded/a/b") == b"old"


@pytest.mark.parametrize("hidden", [1, 3])
def test_a_file_that_is_not_seen_for_a_moment_is_not_replaced(files, monkeypatch, hidden):
    """As on a network disk, whose answers are a moment old, or behind a cache in front of a bucket."""
    files.write("x", b"finished")
    owner, name = (files, "_opened") if isinstance(files, LocalFiles) else (object_files.obstore, "get")
    look, seen = getattr(owner, name), itertools.count()

    def stale(*arguments, **options):
        if next(seen) < hidden:
            if owner is files:
                return None
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        return look(*arguments, **options)

    monkeypatch.setattr(owner, name, stale)
    assert not files.write("x", b"mine", keep=lambda now: now == b"finished")
    files.update("x", lambda now: b"first" if now is None else None)
    monkeypatch.undo()
    assert files.read("x") == b"finished"


def test_a_file_that_is_another_at_every_look_ends_in_trouble(files, monkeypatch):
    monkeypatch.setattr(durable, "FIRST_PAUSE", 0.0)
    files.write("x", b"")
    count = itertools.count(1)

    def keep(now):
        elsewhere(files).write("x", f"{next(count)}".encode())
        return True

    with pytest.raises(StoreTrouble, match="x"):
        files.update("x", lambda now: keep(now) and b"mine")
    assert next(count) == durable.LOOKS + 1


@pytest.mark.parametrize("name", ["annotations.json", "checkpoints/x.ckpt", "sweeps/a/b.txt", NAME])
def test_a_file_that_none_of_ours_can_be_is_not_read(disk, name):
    disk.write(name, b"")
    os.truncate(disk.path(name), 200 * 2**30)
    for read in (disk.read, lambda name: disk.update(name, lambda now: b"")):
        with pytest.raises(TooLargeError, match=name):
            read(name)
    assert disk.write(name, b"small", keep=lambda now: now is None)
    assert disk.read(name) == b"small"


def test_names_that_climb_out_are_refused_by_every_operation(files):
    files.write("x", b"")
    operations = {
        "read": (), "opened": (), "write": (b"",), "delete": (), "move": ("x",), "listing": (),
        "folders": (),
    }  # fmt: skip
    for (operation, arguments), name in itertools.product(
        operations.items(), ["../x", "/etc/x", "a/../../x", "", "a\0b"]
    ):
        with pytest.raises(StoreError):
            getattr(files, operation)(name, *arguments)
    with pytest.raises(StoreError):
        files.move("x", "../x")


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


def test_a_disk_whose_server_answers_twice_or_that_has_no_links_is_written(disk, monkeypatch):
    link = os.link

    def answered_twice(source, path):
        link(source, path)
        link(source, path)

    def refused(source, path):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    for name, of_this_disk in (("x", answered_twice), ("y", refused)):
        monkeypatch.setattr(os, "link", of_this_disk)
        assert disk.write(name, b"one", keep=lambda now: now is not None)
        assert not disk.write(name, b"two", keep=lambda now: now is not None)
        assert disk.read(name) == b"one"


def test_leftovers_of_crashes_are_swept_once_nobody_can_own_them(disk):
    disk.write(NAME, b"whole")
    root = Path(disk.root)
    old, young, held = (root / ".unfinished" / name for name in ("x.0", "x.1", "x.2"))
    foreign = (root / NAME).with_name(".keep")
    past = time.time() - 2 * durable.LEFTOVER_SECONDS
    for path in (old, young, held, foreign):
        path.write_bytes(b"half")
        if path is not young:
            os.utime(path, (past, past))
    with held.open() as file, local_files._locked(file.fileno()):
        disk.remove_leftovers()
    assert [path.exists() for path in (old, young, held, foreign)] == [False, True, True, True]
    assert disk.read(NAME) == b"whole"


def test_a_full_disk_and_a_root_that_is_a_file_are_errors_that_do_not_pass(disk, monkeypatch):
    disk.write(NAME, b"old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(local_files.os, "fsync", full)
        with pytest.raises(StoreError, match=NAME) as caught:
            disk.write(NAME, b"new")
    assert not isinstance(caught.value, StoreTrouble)
    assert disk.read(NAME) == b"old"
    assert os.listdir(Path(disk.root, ".unfinished")) == []
    assert disk.write(NAME, b"new")
    with pytest.raises(StoreError, match=NAME):  # which is no folder
        LocalFiles.at(disk.path(NAME)).write("x", b"")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no way to ask what a descriptor is of")
def test_every_folder_in_which_a_write_makes_an_entry_is_flushed(disk, monkeypatch):
    """Else a power cut may lose a new folder, and with it a file that was said to be kept."""
    flushed, fsync = set(), os.fsync

    def noted(descriptor):
        flushed.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(local_files.os, "fsync", noted)
    disk.write(NAME, b"kept")
    changed = [Path(disk.root).parent, *Path(disk.root, NAME).parents[:4]]
    assert {str(folder) for folder in changed} <= flushed


def test_a_disk_without_locks_is_written_all_the_same(disk, monkeypatch):
    for code in (errno.ENOLCK, errno.EPERM):

        def refused(descriptor, operation, code=code):
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(local_files.fcntl, "flock", refused)
        if code == errno.ENOLCK:
            assert disk.write(NAME, b"one")
            disk.delete(NAME)
            assert disk.read(NAME) is None
        else:
            with pytest.raises(StoreError, match=NAME):
                disk.write(NAME, b"one")


def test_links_below_the_root_are_neither_read_nor_written_through(disk, tmp_path, caplog):
    disk.write("trials/a/x", b"mine")
    root, outside = Path(disk.root), tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (root / "trials" / "a" / "y").symlink_to(outside / "secret")
    (root / "trials" / "b").symlink_to(outside)
    (root / "checkpoints").symlink_to(outside)

    assert disk.listing("trials").keys() == {"trials/a/x"}
    assert str(root / "trials" / "b") in caplog.text, "it is told"
    assert disk.listing("checkpoints") == {}
    assert disk.folders("trials") == ["trials/a"]
    for name in ("trials/a/y", "trials/b/secret", "checkpoints/secret"):
        assert [disk.read(name), disk.opened(name)] == [None] * 2
    disk.delete("checkpoints/secret")
    disk.move("checkpoints/secret", "trials/a/z")
    for name in ("checkpoints/new", "checkpoints/deeper/new", "trials/b/new"):
        with pytest.raises(StoreError):
            disk.write(name, b"x")
        with pytest.raises(StoreError):
            disk.move("trials/a/x", name)
    assert os.listdir(outside) == ["secret"]
    assert disk.listing("trials").keys() == {"trials/a/x"}


def test_what_is_no_plain_file_is_not_opened(disk):
    """A pipe would block for ever."""
    disk.write("trials/x", b"")
    os.mkfifo(Path(disk.root, "trials", "pipe"))
    assert [disk.read("trials/pipe"), disk.opened("trials/pipe"), disk.read("trials")] == [None] * 3
    assert disk.listing("trials").keys() == {"trials/x"}
