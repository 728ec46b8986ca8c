"""What made a trial is measured: digests that follow the program and the data, and nothing else."""

import json
from pathlib import Path

import numpy as np
import pytest

from sweeper.packs.packing import stack
from sweeper.training import experiments, identity
from sweeper.training.identity import Identity
from sweeper.training.kind import kind_of, trainer_of
from sweeper.trial import plugins
from tests.experiments.toy import READS, TOY, project, toy_trial
from tests.processes import python
from tests.trials import coloring_trial

pytestmark = pytest.mark.slow  # traces and compiles

PRINTED = """
import json, sys
from sweeper.packs.packing import lane, stack
from sweeper.training import identity
from sweeper.training.kind import kind_of, trainer_of
from tests.experiments.toy import toy_trial
trial = toy_trial(**json.loads(sys.argv[1]))
state = trainer_of(trial).start(stack([trial]))
made = identity.identity(trial, "")
print(json.dumps([made, identity.of_row(made, kind_of(trial).evaluate(trial, lane(state.network, 0), 1).program)]))
"""


def made(project: Path, text: str = TOY, hash_seed: str = "0", **fields: object) -> list[object]:
    """What a process of its own measures of a toy, in this project."""
    (project / "experiments").mkdir(parents=True, exist_ok=True)
    (project / "experiments" / "toy.py").write_text(text)
    own = {"PYTHONPATH": str(plugins.ROOT), "TMPDIR": str(project), "PYTHONHASHSEED": hash_seed}
    return json.loads(python("-c", PRINTED, json.dumps(fields), cwd=project, check=True, **own).stdout)


def test_neither_place_nor_line_nor_process_nor_traced_values_count_and_constants_do(tmp_path):
    first = made(tmp_path / "one")
    assert made(tmp_path / "other", "# A line more.\n" + TOY, "1", rate=0.3, seed=3) == first
    (_, programs, data), _ = first
    structure, _, digits = programs.partition("-")
    (_, stepped, same_data), _ = made(tmp_path / "one", TOY.replace("0.01 *", "0.02 *"))
    assert (stepped.partition("-")[0], same_data) == (structure, data)
    assert stepped.partition("-")[2] != digits
    (_, trained, _), row = made(tmp_path / "one", TOY.replace("distance.mean()", "2 * distance.mean()"))
    assert trained == programs
    assert row != first[1]


@pytest.mark.parametrize("trial", [coloring_trial(), coloring_trial(optimizer={"name": "pgpe", "population": 8})])
def test_the_number_of_lanes_does_not_count(trial, monkeypatch):
    digests = set()
    for lanes in (1, 3):
        monkeypatch.setattr(identity, "_trainings", {})
        stacked = stack([trial.model_copy(update={"seed": seed}) for seed in range(lanes)])
        trainer_of(trial).start(stacked)
        digests.add(identity.identity(trial, ""))
    (found,) = digests
    assert found.data is None, "its arrays are constants of its programs"


def test_data_are_the_bytes_that_an_experiment_gives(tmp_path):
    digests = []
    with project(tmp_path, toy=READS):
        trial = toy_trial(path="numbers.npy")
        for values in (np.zeros(50, np.float32), np.zeros(50, np.float32), np.ones(50, np.float32)):
            np.save(tmp_path / "numbers.npy", values)
            experiments.KIND.forget_data()
            digests.append(kind_of(trial).data(trial))
    first, same, edited = digests
    assert first == same != edited


def test_what_differs_is_said():
    mine = Identity("code", "1-2", "3")
    assert mine.difference(mine) is None
    others = [mine._replace(fingerprint="6"), mine._replace(programs="1-4"), mine._replace(data="5")]
    assert [mine.difference(other) for other in others] == [
        "is of other code", "is of other programs", "was trained on other data"
    ]  # fmt: skip
