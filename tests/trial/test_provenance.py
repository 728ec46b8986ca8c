"""Provenance tells code, lock and command, and nothing of the machine."""

import datetime
import hashlib
import json
import pickle
import subprocess

import pytest

import sweeper
from sweeper.store.store import Store
from sweeper.trial import plugins, provenance
from tests.results import record, result


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with one commit."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "locks").mkdir()
    (folder / "locks" / "runtime.lock").write_text("jax==0.10.2\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_a_clean_checkout_is_its_commit(checkout):
    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    origin = provenance.capture("python -m sweeper.run", checkout)
    assert origin.commit == git(checkout, "rev-parse", "HEAD")
    assert origin.dirty is False
    assert origin.lock_hash == hashlib.sha256(b"jax==0.10.2\n").hexdigest()
    assert {"python", "jax", "pyarrow", "ray"} <= origin.versions.keys()
    assert before <= datetime.datetime.fromisoformat(origin.captured) <= datetime.datetime.now(datetime.UTC)


@pytest.mark.parametrize("name", ["locks/runtime.lock", "new_task.py"])
def test_a_changed_or_new_file_makes_it_dirty(checkout, name):
    (checkout / name).write_text("changed")
    assert provenance.capture("", checkout).dirty is True


@pytest.mark.parametrize("name", ["two\nlines", "next\x85line", "form\ffeed", "the end\n"])
def test_a_folder_may_have_any_name(checkout, name):
    commit = git(checkout, "rev-parse", "HEAD")
    odd = checkout.rename(checkout.parent / name)
    assert (provenance.capture("", odd).commit, provenance.capture("", odd).dirty) == (commit, False)


def _overlooked(flag):
    def edit(checkout):
        git(checkout, "update-index", flag, "locks/runtime.lock")
        (checkout / "locks" / "runtime.lock").write_text("changed")

    return edit


def _in_a_submodule(checkout):
    git(checkout, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(checkout), "inner")
    git(checkout, "config", "-f", ".gitmodules", "submodule.inner.ignore", "all")
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "inner")
    (checkout / "inner" / "locks" / "runtime.lock").write_text("changed")


def _ignored(checkout):
    (checkout / ".git" / "info" / "exclude").write_text("mine.py\n")
    (checkout / "tasks").mkdir()
    (checkout / "tasks" / "mine.py").touch()


def _in_its_own_store(checkout):
    Store.open(checkout).commit(result())
    (checkout / "locks" / "runtime.lock").write_text("changed")


@pytest.mark.slow  # some processes of git
@pytest.mark.parametrize(
    "edit",
    [_overlooked("--assume-unchanged"), _overlooked("--skip-worktree"), _in_a_submodule, _ignored, _in_its_own_store],
)
def test_what_git_was_told_to_overlook_makes_it_dirty_too(checkout, edit):
    edit(checkout)
    assert provenance.capture("", checkout).dirty is True


@pytest.mark.slow
def test_what_is_overlooked_and_as_in_the_commit_makes_nothing_dirty(checkout):
    git(checkout, "update-index", "--assume-unchanged", "locks/runtime.lock")
    Store.open(checkout).commit(result())
    assert provenance.capture("", checkout).dirty is False
    git(checkout, "update-index", "--skip-worktree", "locks/runtime.lock")
    (checkout / "locks" / "runtime.lock").unlink()  # as in a sparse checkout
    assert provenance.capture("", checkout).dirty is False


@pytest.mark.slow
def test_the_environment_of_a_hook_names_no_other_repository_and_no_other_index(checkout, tmp_path, monkeypatch):
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", checkout, other)
    (other / "more").touch()
    git(other, "add", "more")
    git(other, "commit", "-q", "-m", "second")
    before = provenance.capture("", checkout)
    for environment in (
        {"GIT_DIR": str(other / ".git"), "GIT_WORK_TREE": str(other)},
        {"GIT_INDEX_FILE": str(tmp_path / "no-index")},
        {"GIT_OBJECT_DIRECTORY": str(tmp_path)},
        {"GIT_CONFIG_PARAMETERS": f"'core.worktree={other}'"},
    ):
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            origin = provenance.capture("", checkout)
        assert (origin.commit, origin.dirty) == (before.commit, False), environment


def test_where_git_refuses_that_is_said(checkout, monkeypatch, caplog):
    assert provenance.capture("", checkout).commit is not None
    assert not caplog.records
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    origin = provenance.capture("", checkout)
    assert (origin.commit, origin.dirty) == (None, None)
    (record,) = (each for each in caplog.records if str(checkout) in each.getMessage())
    assert "detected dubious ownership" in record.getMessage()


def test_where_git_takes_too_long_that_is_said(checkout, monkeypatch, caplog):
    def slow(*arguments):
        raise subprocess.TimeoutExpired("git", 30, stderr=b"still looking")

    monkeypatch.setattr(provenance, "git", slow)
    assert provenance.capture("", checkout).commit is None
    assert "timed out after 30 seconds" in caplog.text


@pytest.mark.slow  # thirty processes of git
def test_results_make_nothing_dirty(checkout):
    for place in ("results", "runs/first", "locks/inner"):
        Store.open(checkout / place).commit(result())
    Store.open(checkout / "begun").record_sweep(record("quick", []))
    assert provenance.capture("", checkout).dirty is False
    git(checkout, "add", "results")
    git(checkout, "commit", "-q", "-m", "results")
    Store.open(checkout / "results").commit(result({"seed": 1}))
    next((checkout / "results").rglob("*.parquet")).write_bytes(b"")
    assert provenance.capture("", checkout).dirty is False
    (checkout / "runs" / "notes.txt").touch()
    assert provenance.capture("", checkout).dirty is True


def test_a_copy_without_history_borrows_none(checkout):
    inner = checkout / "inner"
    inner.mkdir()
    origin = provenance.capture("", inner)
    assert (origin.commit, origin.dirty, origin.lock_hash) == (None, None, None)


def test_git_need_not_be_there(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert provenance.capture("", checkout).commit is None


def test_the_project_and_this_package_each_have_a_commit_of_their_own(checkout):
    origin, own = provenance.capture("", checkout), plugins.ROOT
    assert origin.commit == git(checkout, "rev-parse", "HEAD") != origin.sources["sweeper"].commit
    platform = origin.sources["sweeper"]
    assert platform.version == sweeper.__version__
    lock = own / "locks" / "runtime.lock"
    assert platform.lock_hash == (hashlib.sha256(lock.read_bytes()).hexdigest() if lock.exists() else None)
    if (own / ".git").exists():
        assert platform.commit == git(own, "rev-parse", "HEAD")
    (checkout / "task.py").touch()
    assert (provenance.capture("", checkout).dirty, provenance.capture("", checkout).sources["sweeper"]) == (
        True,
        platform,
    )


def test_a_project_in_a_folder_of_a_repository_has_its_commit_and_its_own_lock(checkout):
    project = checkout / "studies" / "maze"
    (project / "tasks").mkdir(parents=True)
    (project / "tasks" / "maze.py").touch()
    (project / "uv.lock").write_text("jax")
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "maze")
    origin = provenance.capture("", project)
    assert (origin.commit, origin.dirty) == (git(checkout, "rev-parse", "HEAD"), False)
    assert origin.lock_hash == hashlib.sha256(b"jax").hexdigest()
    (checkout / "shared.py").touch()
    assert provenance.capture("", project).dirty is True


@pytest.mark.parametrize("editable", [True, False])
def test_a_package_that_brings_plug_ins_has_its_version_and_if_it_is_edited_here_its_commit(
    checkout, tmp_path, monkeypatch, editable
):
    info = tmp_path / "installed" / "mazes-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mazes\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[sweeper.tasks]\nlarge_maze = mazes:Task\n")
    if editable:
        (info / "direct_url.json").write_text(json.dumps({"url": checkout.as_uri(), "dir_info": {"editable": True}}))
    monkeypatch.syspath_prepend(str(info.parent))
    source = provenance.capture("", tmp_path).sources["mazes"]
    commit = git(checkout, "rev-parse", "HEAD")
    assert (source.version, source.commit, source.dirty) == ("1.2", *((commit, False) if editable else (None, None)))


@pytest.mark.slow
def test_a_row_has_all_of_them(checkout, tmp_path):
    store = Store.open(tmp_path / "results")
    origin = provenance.capture("", checkout)
    store.commit(result(provenance=origin))
    (row,) = store.trials().to_pylist()
    assert (row["commit"], row["dirty"]) == (origin.commit, False)
    assert json.loads(row["sources"])["sweeper"]["version"] == sweeper.__version__


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["/home/me/repo/sweeper/run.py", "a b.yaml"], "python -m sweeper.run 'a b.yaml'"),
        (["/home/me/repo/sweeper/__main__.py", "run", "a.yaml"], "python -m sweeper run a.yaml"),
        (["/home/me/.venv/bin/sweeper", "run", "a.yaml"], "sweeper run a.yaml"),
        (["/home/me/.venv/bin/pytest", "-x"], "pytest -x"),
        (["-c"], "-c"),
        (["/bin/sweeper", "--results", "r\udcff"], r"sweeper --results 'r\udcff'"),
        ([], ""),
        (["sweeper/run.py", "--results=s3://key:secret@bucket/x"], "python -m sweeper.run --results=s3://bucket/x"),
    ],
)
def test_the_command_can_be_typed_again_and_holds_no_folder_and_no_key(argv, expected):
    assert provenance.command_line(argv) == expected


def test_it_travels_and_cannot_be_changed(checkout):
    origin = provenance.capture("", checkout)
    assert pickle.loads(pickle.dumps(origin)) == origin
    with pytest.raises(ValueError, match="frozen"):
        origin.commit = "other"
