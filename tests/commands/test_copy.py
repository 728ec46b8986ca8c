"""`copy` reads and writes stores and tar files, keeps the outcomes asked for, and says what it left out."""

import subprocess
import tarfile
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


def test_out_into_a_tar_file_and_in_again(source, local, tmp_path):
    file = tmp_path / "quick.tar"
    done = run("quick", "--results", source.url, "--to", file)
    assert (done.exit_code, done.output) == (0, f"3 trials, 1 evaluation copied to {file}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["quick.tar", "source"]
    with tarfile.open(file) as archive:
        assert {member.uname for member in archive} == {""}
    (tmp_path / "by_hand").mkdir()
    subprocess.run(["tar", "--extract", "--file", file, "--directory", tmp_path / "by_hand"], check=True)
    by_hand = Store.open(tmp_path / "by_hand")
    assert contents(by_hand) == contents(source, by_hand.committed())
    done = run("--results", file, "--to", local.url)
    assert (done.exit_code, done.output) == (0, f"3 trials, 1 evaluation copied to {local.url}\n")
    assert contents(local) == contents(by_hand)
    done = run("--results", file, "--to", local.url)
    assert done.output == f"0 trials copied to {local.url}; 3 were there\n"


def test_a_tar_file_keeps_what_it_holds(source, tmp_path):
    file = tmp_path / "both.tar"
    assert run("quick", "--results", source.url, "--to", file).exit_code == 0
    done = run("other", "--results", source.url, "--to", f"file://{file}")
    assert (done.exit_code, done.output) == (0, f"2 trials copied to file://{file}; 1 were there\n")
    run("--results", file, "--to", tmp_path / "again")
    again = Store.open(tmp_path / "again")
    assert {start.name for start in again.sweeps()} == {"quick", "other"}
    assert contents(again) == contents(source, again.committed())
    with tarfile.open(file, "a") as archive:
        archive.add(__file__, "notes.py")
    before = file.read_bytes()
    assert "also holds 'notes.py'" in refusal(copy.app, "other", "--results", source.url, "--to", file)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "name", ["x.tar.gz", "x.TGZ", "x.tar.zst", "x.zip", "s3://bucket/x.tar", "s3://bucket/x.tar.gz"]
)
def test_other_archives_are_refused(source, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for arguments in (["--results", source.url, "--to", name], ["--results", name, "--to", source.url]):
        assert "without compression" in refusal(copy.app, *arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_what_is_no_store_is_one_sentence(tmp_path, source):
    (tmp_path / "text.tar").write_text("no tar file")
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    for name, words in (("text.tar", "is no tar file"), ("empty.tar", "no results store"), ("absent.tar", "no file")):
        assert words in refusal(copy.app, "--results", tmp_path / name, "--to", tmp_path / "target")
        assert not (tmp_path / "target").exists()
    refusal(copy.app, "--results", source.url, "--to", tmp_path / "no" / "such.tar")


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
