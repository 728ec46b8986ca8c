"""Which programs a start may compile before it has workers."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from sweeper import launch
from sweeper.interruption import Interruption
from sweeper.packs.network_evaluation import ProtocolChanges
from sweeper.packs.packing import Pack
from sweeper.store.store import Store
from sweeper.sweeps import evaluation
from sweeper.sweeps.on_cluster import SweepError
from tests.results import result
from tests.tiny_sweeps import start, with_seeds
from tests.trials import coloring_trial


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[Pack]]:
    """The packs that every start has offered; the starts themselves end there, as without a cluster."""
    offered: list[Sequence[Pack]] = []

    def refused(address, resources, interruption, first):
        offered.append(first.packs)
        raise launch.LaunchError("no cluster")

    monkeypatch.setattr(launch, "connected", refused)
    return offered


@pytest.fixture
def space(tmp_path: Path) -> Path:
    """A space of three trials, the first of which is committed, with a network."""
    file = tmp_path / "tiny.yaml"
    file.write_text(with_seeds(3))
    Store.open(tmp_path / "results").commit(result({"seed": 0}))
    return file


def test_a_sweep_compiles_for_the_pending_trials_of_its_first_packs(space, compiled):
    assert start(space) == 1
    assert compiled == [[Pack((coloring_trial(seed=1), coloring_trial(seed=2)))]]


def test_an_evaluation_compiles_no_training(space, compiled):
    planned = evaluation.plan_evaluation(space, ProtocolChanges(seeds=20), space.parent / "results")
    with pytest.raises(SweepError, match="no cluster"):
        evaluation.evaluate(planned, interruption=Interruption())
    assert compiled == [()]
