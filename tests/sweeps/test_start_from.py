"""A sweep whose trials start from those of another, from the refusal without them to the table."""

from pathlib import Path

import pytest

import sweeper
from sweeper.analysis.settings_table import settings
from sweeper.store.store import Store
from tests.processes import python
from tests.tiny_sweeps import start, with_seeds


@pytest.fixture
def spaces(tmp_path: Path) -> tuple[Path, Path]:
    return written(tmp_path)


def written(folder: Path) -> tuple[Path, Path]:
    """Two sweeps of two training seeds each; the trials of the second start from those of the first."""
    first, second = folder / "first.yaml", folder / "second.yaml"
    first.write_text(with_seeds(2))
    second.write_text(
        with_seeds(2).replace("trial:\n", "trial:\n  start_from: {sweep: first}\n").replace("q: 3", "q: 2")
    )
    return first, second


@pytest.mark.slow  # traces
def test_a_sweep_whose_other_sweep_is_not_there_is_refused_with_its_place(spaces, capsys):
    assert [start(spaces[1], dry_run=dry) for dry in (True, False)] == [2, 2]
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f"{spaces[1]}:3: trial.start_from: ") for line in lines)
    assert not (spaces[1].parent / "results" / "sweeps").exists()


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, Path]:
    """The spaces, with the store in which both were trained beside them."""
    spaces = written(tmp_path_factory.mktemp("trained"))
    for space in spaces:
        assert train(space, space.parent / "results").complete
    return spaces


def train(space: Path, results: Path) -> sweeper.SweepResult:
    return sweeper.train(sweeper.plan(space, results), in_process=True, on_event=lambda event: None)


@pytest.mark.slow  # trains
def test_two_seeds_that_go_on_from_two_are_a_setting_and_loaded_with_what_they_started_from(trained):
    results = trained[0].parent / "results"
    first, second = (sweeper.plan(space, results) for space in trained)
    ids = {trial.seed: key for key, trial in first.trials.items()}
    rows = sweeper.sql("select * from trials where start_from is not null order by seed", results)
    (setting,) = settings(rows)
    assert sorted(setting.rows["seed"]) == [0, 1]
    assert rows["trial_id"].tolist() == list(second.trials)
    assert [sweeper.load(key, results).trial.start_from.trial for key in second.trials] == [ids[0], ids[1]]
    assert rows["start_from"].tolist() == [ids[0], ids[1]]


@pytest.mark.slow  # compiles for one lane
def test_a_trial_that_starts_from_another_is_trained_to_debug_it(trained, capsys):
    store = Store.open(trained[0].parent / "results")
    before = store.committed()
    (key, _) = sweeper.plan(trained[1], store.root).trials
    assert start(trained[1], trial=key) == 0
    assert store.committed() == before
    assert "not stored" in capsys.readouterr().out


@pytest.mark.long
def test_workers_read_the_networks_on_ray(spaces, tmp_path):
    options = ("--results", tmp_path / "results", "--address", "local", "--set", "resources.lanes=1")
    for space in spaces:
        done = python("-m", "sweeper.run", space, *options)
        assert done.returncode == 0, done.stdout + done.stderr
    alone = tmp_path / "alone"
    for space in spaces:
        train(space, alone)
    on_ray, here = (
        Store.open(folder).trials().select(["trial_id", "loss"]) for folder in (tmp_path / "results", alone)
    )
    assert on_ray == here
