"""`copy` copies into a store, keeps the outcomes asked for, and says what it left out."""

from pathlib import Path

from sweeper.store.store import Store
from tests.damage import flipped
from tests.filled_stores import IDS, contents
from tests.processes import told


def copied(source, target, *arguments, code=0):
    return told("copy", *arguments, "--results", source.url, "--to", target, code=code).output, Store.open(target)


def test_a_sweep_is_copied_once(made, tmp_path):
    for counts in ("3 trials, 1 evaluation copied", "0 trials copied"):
        output, target = copied(made, tmp_path / "target", "quick")
        assert output.startswith(counts)
        assert contents(target) == contents(made, target.committed())


def test_the_options_of_outcomes(made, tmp_path):
    _, some = copied(made, tmp_path / "some", "--outcomes", "success, extra")
    assert some.outcomes().column_names[4:] == ["success", "extra"]
    assert copied(made, tmp_path / "none", "--outcomes", "none")[1].outcomes().num_rows == 0


def test_damaged_trials_are_an_exit_code(store, tmp_path):
    file = Path(store.root, store.seals()[IDS[1]].name)
    file.write_bytes(flipped(file.read_bytes(), 50))
    output, target = copied(store, tmp_path / "target", code=1)
    assert "1 damaged" in output
    assert target.committed().keys() == {*IDS} - {IDS[1]}
