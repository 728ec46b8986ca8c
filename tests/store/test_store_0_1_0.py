"""The promise of readable stores begins with 0.1.0: `fixtures/store_0_1_0` is read as it was written.

The store and what it said were written once, by `python -m tests.store.test_store_0_1_0`, and are never written again.
"""

import json
import shutil
from pathlib import Path

import pytest

from sweeper.store.annotations import Subject, annotate, read_annotations
from sweeper.store.copying import copy
from sweeper.store.schema import TRIALS
from sweeper.store.store import Store
from tests.damage import flipped
from tests.filled_stores import IDS, contents, filled, sound
from tests.results import result

FIXTURE = Path(__file__).parent / "fixtures" / "store_0_1_0"
SAID = FIXTURE.with_suffix(".json")


def said(store):
    """Everything that a store says, as JSON."""
    rows, curves, outcomes, weights, _ = contents(store)
    annotations = read_annotations(store.files)
    sweeps = [record.model_dump() for record in store.sweeps()]
    told = {"rows": rows, "curves": curves, "outcomes": outcomes, "weights": weights, "sweeps": sweeps}
    told |= {"notes": annotations.sweeps, "tags": annotations.trials, "status": store.committed()}
    return json.loads(json.dumps(told, default=str))


@pytest.fixture(params=["with its snapshot", "without"])
def store(request, tmp_path):
    store = Store.open(shutil.copytree(FIXTURE, tmp_path / "store"))
    if request.param == "without":
        shutil.rmtree(tmp_path / "store" / "snapshots")
    return store


def test_it_says_what_it_said(store):
    expected = json.loads(SAID.read_text())
    # What later programs have added is null, or empty; what they have dropped is not read.
    expected["rows"] = [{name: row.get(name) for name in TRIALS.names} for row in expected["rows"]]
    for sweep in expected["sweeps"]:
        sweep["provenance"]["sources"] = sweep["variables"] = {}
    assert said(store) == expected
    assert sound(store)


def test_it_is_compacted_copied_and_added_to(store, tmp_path):
    before = store.committed().keys()
    store.commit(result({"seed": 9}))
    assert store.compact() >= 1
    target = Store.open(tmp_path / "target")
    assert copy(store, target, outcomes=["success"]).trials == 8
    assert sound(target)
    assert before < target.committed().keys()


def test_a_flipped_bit_in_its_files_gives_no_other_value(tmp_path):
    """Their digest covers the rows and the footer."""
    store = Store.open(shutil.copytree(FIXTURE, tmp_path / "store"))
    seal = next(iter(store.seals().values()))
    (expected,) = store.trials([seal.trial_id]).to_pylist()
    path = Path(store.root, seal.name)
    whole = path.read_bytes()
    for position in range(4, len(whole), 97):
        path.write_bytes(flipped(whole, position, position % 8))
        rows = store.trials([seal.trial_id]).to_pylist()
        assert rows in ([], [expected]), position
        assert rows == [] or position < len(whole) / 3, "in the row and the footer every one is found"
    path.write_bytes(whole)
    assert sound(store)


def _write() -> None:
    store = filled(FIXTURE)
    store.commit(result({"seed": 6}, status="stopped", timings={"steps_done": 100}))
    annotate(store.files, Subject(sweep="quick"), note="the first")
    annotate(store.files, Subject(trial_ids=frozenset(IDS[:2])), tags=("keep",))
    store.compact()
    SAID.write_text(json.dumps(said(store), indent=1) + "\n")


if __name__ == "__main__":
    _write()
