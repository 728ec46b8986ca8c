"""Results in a bucket, on a real S3 server: single PUTs, racing writers, secrets, and a sweep that is killed."""

import concurrent.futures
import re
import subprocess
import sys
import time

import pytest

from sweeper import messages
from sweeper.store.schema import trial_file_name
from sweeper.store.store import Store, StoreError
from sweeper.trial import plugins
from sweeper.trial.trial import trial_id
from tests.processes import python, refusal
from tests.results import failure, outcomes, result
from tests.s3_server import ENVIRONMENT
from tests.tiny_sweeps import with_seeds

FINISHED = trial_id(result().trial)
NAME = trial_file_name("coloring", "Aq_R", FINISHED)


def writes(s3, folder):
    """Method and key below the folder of every request that changed something there."""
    place = f"/bucket/{folder}/"
    return [(method, path.removeprefix(place)) for method, path in s3.requests() if path.startswith(place)
            and method in ("PUT", "POST", "DELETE")]  # fmt: skip


@pytest.mark.slow
def test_a_commit_and_a_checkpoint_are_one_put_each(s3):
    store = Store.open(s3.url("puts"))
    assert store.commit(result())
    store.write_bytes("checkpoints/pack.ckpt", bytes(1_000_000))
    assert writes(s3, "puts") == [("PUT", NAME), ("PUT", "checkpoints/pack.ckpt")]


@pytest.mark.slow
def test_of_two_writers_of_one_key_one_whole_file_is_left(s3):
    attempts = [result(outcomes=outcomes(500)), result(curves=[(step, "x", 0.5) for step in range(900)]), failure()]
    stores = [Store.open(s3.url("racing")) for _ in range(4)]
    for _ in range(5):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda store, done: store.commit(done), stores, [*attempts, attempts[0]]))
        (status,) = stores[0].committed().values()
        assert status in ("finished", "failed")
        assert stores[0].trials().num_rows == 1
        assert stores[0].curves().num_rows in (2, 900)
        stores[0].delete(NAME)
    assert not stores[0].files.listing("quarantine")


def test_keys_in_a_url_are_refused_and_never_shown():
    url = "s3://AKIAME:abc/def@bucket/x"
    for text in (refusal("query", "select 1", "--results", url), messages.redacted(f"run --results '{url}'")):
        assert "AKIAME" not in text
        assert "abc" not in text


@pytest.mark.slow
def test_a_server_that_refuses_is_one_sentence(s3):
    elsewhere = s3.url("x").replace("bucket", "nobody-has-this")
    with pytest.raises(StoreError, match=r"cannot write nobody-has-this/x/.*bucket"):
        Store.open(elsewhere).commit(result())


TINY = (
    ("name: tiny" + with_seeds(2) + "resources: {checkpoint_seconds: 0.5}")
    .replace("q: 3", "q: {choice: [1, 2, 3]}")
    .replace("steps: 300", "steps: 3000")
    .replace("votes: [3]", "votes: [5]")
)


@pytest.mark.long
def test_a_sweep_in_a_bucket_is_killed_resumed_and_queried(s3, tmp_path):
    """With what happened read from the server's own log."""
    (tmp_path / "tiny.yaml").write_text(TINY)
    url = s3.url("sweep")
    command = ["-m", "sweeper.run", tmp_path / "tiny.yaml", "--results", url, "--address", "local"]
    store = Store.open(url)

    def keys(folder):
        return [key for method, key in writes(s3, "sweep") if method == "PUT" and key.startswith(f"{folder}/")]

    with (tmp_path / "log").open("w") as log:
        killed = subprocess.Popen([sys.executable, *command], cwd=plugins.ROOT, stdout=log, stderr=log)
        try:
            while not (keys("checkpoints") and keys("trials")):
                assert killed.poll() is None, "it ended before it could be killed"
                time.sleep(0.1)
        finally:
            killed.kill()
            killed.wait()
    before = store.committed()
    assert 0 < len(before) < 6

    done = python(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    # Its workers outlived the driver for a moment, and may have committed something in it.
    assert int(re.search(r"(\d+) done", done.stdout)[1]) >= len(before)
    assert "6 of 6 trials committed" in done.stdout
    rows = [key for key in keys("trials") if key.endswith(".parquet")]
    assert len(rows) == len(set(rows)) == 6, "each trial was put once: nothing that was committed ran again"
    assert not [name for name in store.files.listing("checkpoints") if name.endswith(".ckpt")]

    question = (
        "select count(distinct trial_id), sum(steps_done) from trials join (from outcomes where input = 0) "
        "using (trial_id) where status = 'finished'"
    )
    asked = python("-m", "sweeper", "query", "--format", "csv", "--results", url, question, check=True)
    assert asked.stdout.splitlines()[1] == "6,18000"
    for text in (done.stdout, done.stderr, (tmp_path / "log").read_text(), asked.stdout, asked.stderr):
        assert ENVIRONMENT["AWS_SECRET_ACCESS_KEY"] not in text
