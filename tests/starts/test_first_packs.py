"""Which programs a start may compile before it has workers."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from sweeper import launch
from sweeper.interruption import Interruption
from sweeper.packs.network_evaluation import ProtocolChanges
from sweeper.packs.packing import Pack
from sweeper.starts import evaluation
from sweeper.store.store import Store
from tests.results import result
from tests.tiny_starts import start, with_seeds
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
    options = evaluation.EvaluationOptions(
        space=space,
        trial_ids=(),
        where=None,
        changes=ProtocolChanges(seeds=20),
        results=str(space.parent / "results"),
        address=None,
        dry_run=False,
        overrides=(),
        recompute_other_code=False,
        concurrency=None,
        argv=("evaluate",),
    )
    assert evaluation.start(options, Interruption()) == 1
    assert compiled == [()]
