"""`python -m sweeper export` writes a network as a file."""

import os
from pathlib import Path

import pytest
import safetensors.numpy

from sweeper.store.store import Store
from sweeper.trial.trial import trial_id
from tests.processes import refusal, told
from tests.results import WEIGHTS, failure, result

KEY, FAILED = trial_id(result().trial), trial_id(failure({"seed": 2}).trial)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    store = Store.open(tmp_path_factory.mktemp("export"))
    store.commit(result())
    store.commit(failure({"seed": 2}))
    return store


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
@pytest.mark.parametrize(
    ("command", "file"),
    [
        (["export", "full.safetensors", "--trial", KEY], "full.safetensors"),
        (["plot", "seed", "steps_done", "--out", "full.png"], "full.png"),
        (["report", "--html", "page.html"], "page.html"),
    ],
)
def test_a_full_disk_is_told_with_the_file(results, tmp_path, monkeypatch, command, file):
    monkeypatch.chdir(tmp_path)
    for name in ("full.safetensors", "full.png", f".page.html.{os.getpid()}.tmp"):
        (tmp_path / name).symlink_to("/dev/full")
    told_of = told(*command, "--results", results.url, code=2).stderr
    assert f"No space left on device: '{file}'" in told_of
    assert len(told_of.splitlines()) == 1


def test_a_network_is_a_safetensors_file(results, tmp_path):
    file = tmp_path / "network.safetensors"
    assert KEY in told("export", file, "--results", results.url, "--trial", KEY[:6]).output
    weights = safetensors.numpy.load_file(file)
    assert {name: values.tolist() for name, values in weights.items()} == {
        name: values.tolist() for name, values in WEIGHTS.items()
    }


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["n.safetensors"], "--trial"), (["x.csv", "--trial", KEY], "--trial"), (["x.csv"], "--format csv"),
        (["n.safetensors", "--trial", "zz"], "'zz'"), (["n.safetensors", "--trial", FAILED], FAILED),
        (["n.safetensors", "--trial", KEY, "--results", "nowhere"], "nowhere"),
        (["no/n.safetensors", "--trial", KEY], "no/"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(results, tmp_path, monkeypatch, arguments, named):
    monkeypatch.chdir(tmp_path)
    assert named in refusal("export", "--results", results.url, *arguments)
    assert not list(tmp_path.iterdir())
