"""`copy` copies into a store, keeps the outcomes asked for, and says what it left out."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sweeper.commands import copy
from sweeper.store.store import Store
from tests.filled_stores import IDS, contents, filled
from tests.processes import refusal
from tests.results import record


@pytest.fixture
def source(tmp_path):
    return filled(tmp_path / "source")


@pytest.fixture
def local(tmp_path):
    return Store.open(tmp_path / "target")


def run(*arguments):
    return CliRunner().invoke(copy.app, [str(argument) for argument in arguments])


def test_a_sweep_is_copied_once(source, local):
    done = run("quick", "--results", source.url, "--to", local.url)
    assert (done.exit_code, done.output) == (0, f"3 trials, 1 evaluation copied to {local.url}\n")
    assert contents(local) == contents(source, local.committed())
    done = run("quick", "--results", source.url, "--to", local.url)
    assert done.output == f"0 trials copied to {local.url}; 3 were there\n"


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.TGZ", "x.tar.zst", "x.zip", "s3://bucket/x.tar"])
def test_archives_are_refused(source, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for arguments in (["--results", source.url, "--to", name], ["--results", name, "--to", source.url]):
        assert "without compression" in refusal(copy.app, *arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_the_options_of_outcomes(source, tmp_path):
    run("--results", source.url, "--to", tmp_path / "some", "--outcomes", "success, extra")
    assert Store.open(tmp_path / "some").outcomes().column_names[4:] == ["success", "extra"]
    run("--results", source.url, "--to", tmp_path / "none", "--outcomes", "none")
    assert Store.open(tmp_path / "none").outcomes().num_rows == 0


@pytest.mark.slow  # makes panels
def test_outcomes_that_panels_draw(source, tmp_path):
    panels = "panels: [{kind: histogram, name: inputs, metric: success, where: {seed: 1}, split: q}]\n"
    source.record_sweep(record("drawn", IDS[:2]).model_copy(update={"text": panels}))
    run("drawn", "--results", source.url, "--to", tmp_path / "drawn", "--outcomes", "drawn")
    kept = {key: seal.outcomes for key, seal in Store.open(tmp_path / "drawn").seals().items()}
    assert kept == {IDS[0]: (), IDS[1]: ("success",)}


def test_damaged_trials_are_an_exit_code(source, tmp_path):
    file = Path(source.root, source.seals()[IDS[1]].name)
    data = file.read_bytes()
    file.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])
    done = run("--results", source.url, "--to", tmp_path / "target")
    assert done.exit_code == 1
    assert "1 damaged trial left out" in done.output
