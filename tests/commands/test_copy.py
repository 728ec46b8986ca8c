"""`copy` copies into a store, keeps the outcomes asked for, and says what it left out."""

from pathlib import Path

import pytest

from sweeper.store.store import Store
from tests.filled_stores import IDS, contents
from tests.processes import refusal, told
from tests.results import record


def copied(source, target, *arguments, code=0):
    return told("copy", *arguments, "--results", source.url, "--to", target, code=code).output, Store.open(target)


def test_a_sweep_is_copied_once(made, tmp_path):
    for counts in ("3 trials, 1 evaluation copied", "0 trials copied"):
        output, target = copied(made, tmp_path / "target", "quick")
        assert output.startswith(counts)
        assert contents(target) == contents(made, target.committed())


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.TGZ", "x.tar.zst", "x.zip", "s3://bucket/x.tar"])
def test_archives_are_refused(made, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for arguments in (["--results", made.url, "--to", name], ["--results", name, "--to", made.url]):
        assert name in refusal("copy", *arguments)
    assert not list(tmp_path.iterdir())


def test_the_options_of_outcomes(made, tmp_path):
    _, some = copied(made, tmp_path / "some", "--outcomes", "success, extra")
    assert some.outcomes().column_names[4:] == ["success", "extra"]
    assert copied(made, tmp_path / "none", "--outcomes", "none")[1].outcomes().num_rows == 0


@pytest.mark.slow  # makes panels
def test_outcomes_that_panels_draw(store, tmp_path):
    panels = "panels: [{kind: histogram, name: inputs, metric: success, where: {seed: 1}, split: q}]\n"
    store.record_sweep(record("drawn", IDS[:2]).model_copy(update={"text": panels}))
    _, target = copied(store, tmp_path / "drawn", "drawn", "--outcomes", "drawn")
    kept = {key: seal.outcomes for key, seal in target.seals().items()}
    assert kept == {IDS[0]: (), IDS[1]: ("success",)}


def test_damaged_trials_are_an_exit_code(store, tmp_path):
    file = Path(store.root, store.seals()[IDS[1]].name)
    data = file.read_bytes()
    file.write_bytes(data[:50] + bytes([data[50] ^ 1]) + data[51:])
    output, target = copied(store, tmp_path / "target", code=1)
    assert "1 damaged file" in output
    assert target.committed().keys() == {*IDS} - {IDS[1]}
