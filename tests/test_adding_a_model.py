"""docs/adding-a-model.md block by block, in a folder outside the checkout: a network with `__call__` and no more."""

from pathlib import Path

import pytest

import sweeper
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


def test_the_guide_shows_what_is_written_and_it_is_clean(folder):
    guides.run("sweeper new model gru")
    assert FILE.read_text().endswith(guides.blocks("python", GUIDE)[0])
    assert SPACE.read_text() == guides.blocks("yaml", GUIDE)[0]
    guides.check_style("models")


@pytest.mark.slow
def test_a_space_that_joins_it_with_a_task_that_needs_more_is_refused_at_planning(folder):
    guides.run("sweeper new model gru")
    with pytest.raises(ContractError) as refused:
        sweeper.plan(sweeper.read_space(SPACE, GRID | {"trial.evaluation": {"seeds": 5}}))
    assert str(refused.value) == guides.blocks("text", GUIDE)[0].strip()


@pytest.mark.long  # checks the contract, and trains
def test_the_guide_runs(folder):
    for text in guides.blocks("console", GUIDE):
        for command, expected in guides.commands(text):
            said = guides.trained(str(SPACE), 200) if command == f"sweeper run {SPACE}" else guides.run(command)
            assert all(line in said for line in expected), said
