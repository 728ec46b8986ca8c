"""Provenance tells code, versions and command, and nothing of the machine."""

import datetime
import json
import subprocess

import pytest

import sweeper
from sweeper.store.store import Store
from sweeper.trial import provenance
from tests.results import result


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
    assert {"python", "sweeper", "jax", "pyarrow", "ray"} <= origin.versions.keys()
    assert before <= datetime.datetime.fromisoformat(origin.captured) <= datetime.datetime.now(datetime.UTC)


@pytest.mark.parametrize("tracked", [True, False])
def test_a_changed_file_makes_it_dirty_and_a_new_one_does_not(checkout, tracked):
    """Results are new files. New code is in the fingerprint."""
    (checkout / ("locks/runtime.lock" if tracked else "new_task.py")).write_text("changed")
    assert provenance.capture("", checkout).dirty is tracked


def test_where_git_refuses_that_is_said(checkout, monkeypatch, caplog):
    assert provenance.capture("", checkout).commit is not None
    assert not caplog.records
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    origin = provenance.capture("", checkout)
    assert (origin.commit, origin.dirty) == (None, None)
    (record,) = (each for each in caplog.records if str(checkout) in each.getMessage())
    assert "detected dubious ownership" in record.getMessage()


def test_a_copy_without_history_borrows_none(checkout):
    inner = checkout / "inner"
    inner.mkdir()
    origin = provenance.capture("", inner)
    assert (origin.commit, origin.dirty) == (None, None)


def test_git_need_not_be_there(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert provenance.capture("", checkout).commit is None


def test_a_project_in_a_folder_of_a_repository_has_its_commit(checkout):
    project = checkout / "studies" / "maze"
    (project / "tasks").mkdir(parents=True)
    (project / "tasks" / "maze.py").touch()
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "maze")
    origin = provenance.capture("", project)
    assert (origin.commit, origin.dirty) == (git(checkout, "rev-parse", "HEAD"), False)


@pytest.mark.slow
def test_a_row_has_all_of_them(checkout, tmp_path):
    store = Store.open(tmp_path / "results")
    origin = provenance.capture("", checkout)
    store.commit(result(provenance=origin))
    (row,) = store.trials().to_pylist()
    assert (row["commit"], row["dirty"]) == (origin.commit, False)
    assert json.loads(row["versions"])["sweeper"] == sweeper.__version__


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
