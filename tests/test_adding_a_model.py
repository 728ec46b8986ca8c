"""docs/adding-a-model.md block by block, in a folder outside the checkout: a network with `__call__` and no more."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sweeper
from sweeper.learned_algorithms import gradient
from sweeper.packs.packing import stack
from sweeper.trial.contract_checks import ContractError
from tests import guides

GUIDE = guides.DOCS / "adding-a-model.md"
FILE, SPACE = Path("models/gru.py"), Path("search_spaces/gru.yaml")
GRID = {"trial.task": {"name": "gridworld", "height": 2, "width": 2, "horizon": 4}, "trial.optimizer": {"name": "pgpe"}}


@pytest.fixture
def folder(project):
    """The folder in which commands are given."""
    yield project
    guides.forget("models.gru")


@pytest.fixture
def written(folder):
    """A folder with the model and the space of the guide."""
    guides.run("sweeper new model gru")


def test_the_guide_shows_what_is_written_and_it_is_clean(written):
    assert FILE.read_text().endswith(guides.blocks("python", GUIDE)[0])
    assert SPACE.read_text() == guides.blocks("yaml", GUIDE)[0]
    guides.check_style("models")


@pytest.mark.long  # trains
def test_it_trains_a_task_that_asks_for_no_more(written):
    trials = stack(sweeper.read_space(SPACE, {"trial.steps": 3, "trial.model.width": 8}).expand().trials)
    before: Any = gradient.start(trials)
    kernel = np.asarray(before.network.cell.dense_h.kernel)  # its memory is used again
    after, _ = gradient.stride(trials, before, 3)
    assert after.failure.tolist() == [0]
    assert (after.network.cell.dense_h.kernel[...] != kernel).any()


@pytest.mark.slow
def test_a_space_that_joins_it_with_a_task_that_needs_more_is_refused_at_planning(written):
    with pytest.raises(ContractError) as refused:
        sweeper.plan(sweeper.read_space(SPACE, GRID | {"trial.evaluation": {"seeds": 5}}))
    assert str(refused.value) == guides.blocks("text", GUIDE)[0].strip()


@pytest.mark.long  # checks the contract, and trains
def test_the_guide_runs(folder):
    for text in guides.blocks("console", GUIDE):
        for command, expected in guides.commands(text):
            said = guides.trained(str(SPACE), 200) if command == f"sweeper run {SPACE}" else guides.run(command)
            assert all(line in said for line in expected), said
