"""The promise of readable stores begins with 0.1.0: `fixtures/store_0_1_0` is read as it was written.

The store and what it said were written once, and are never written again.
"""

import json
import shutil
from pathlib import Path

import pytest

from sweeper.store.annotations import read_annotations
from sweeper.store.copying import copy
from sweeper.store.schema import TRIALS
from sweeper.store.store import Store
from tests.filled_stores import contents, sound
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
