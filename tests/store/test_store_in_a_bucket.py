"""A store in a bucket does what one on a disk does."""

import pickle

import pytest

from sweeper.analysis import ready_questions, sql
from sweeper.store.copying import copy
from sweeper.store.deletion import delete, of_sweep
from sweeper.store.store import Store
from tests.damage import flipped
from tests.filled_stores import IDS, contents, filled, sound
from tests.results import failure, result

pytestmark = pytest.mark.slow


def test_the_life_of_a_store_in_a_bucket(s3, source, local):
    assert not Store.open(s3.url("life")).exists()
    filled(s3.url("life"))
    store = pickle.loads(pickle.dumps(Store.open(s3.url("life"))))
    assert contents(store) == contents(source)
    assert store.sweeps() == source.sweeps()
    assert sql.table("select count(success) from outcomes", store).to_pylist() == [{"count(success)": 20}]

    # A better row stays
    assert not store.commit(failure())
    assert store.commit(result({"seed": 4}))

    # Snapshots: no trial is read that has one
    assert store.compact() == 6
    asked = len(s3.requests())
    assert set(store.committed().values()) == {"finished"}
    assert not [path for _, path in s3.requests()[asked:] if path.startswith("/bucket/life/trials/")]
    store.commit(failure({"seed": 6}))
    store.commit(result({"seed": 6}, metrics={"success": 0.125}))
    assert store.compact() == 1
    assert 0.125 in store.trials()["success"].to_pylist()

    # Damage: one in the tail, one in the head
    names = {key: seal.name for key, seal in store.seals().items()}
    store.write_bytes(names[IDS[1]], store.read_bytes(names[IDS[1]])[:-1])
    store.write_bytes(names[IDS[2]], flipped(store.read_bytes(names[IDS[2]]), 90))
    assert store.verify() == sorted(IDS[1:3])
    assert store.read_bytes(f"quarantine/{names[IDS[1]]}")
    assert store.committed().keys() == names.keys() - set(IDS[1:3])
    assert copy(source, store).trials == 2

    # A copy, a deletion
    assert copy(store, local).trials == 7
    assert contents(local) == contents(store)
    store.supersede(IDS[5:])
    delete(store, of_sweep(store, "quick"))
    assert store.committed().keys() == names.keys() - {IDS[0], IDS[4], IDS[5]}
    assert {each.name for each in store.sweeps()} == {"other"}
    assert sound(store)


@pytest.mark.parametrize(
    "question",
    [
        lambda store: sql.table("select avg(success) from trials where seed > 1", store.url),
        lambda store: ready_questions.best(Store.existing(store.url), "quick"),
        lambda store: ready_questions.show(Store.existing(store.url), IDS[0]),
        lambda store: ready_questions.curves(Store.existing(store.url), IDS[0]),
    ],
    ids=["SQL", "best", "show", "curves"],
)
def test_a_question_takes_six_requests(s3, source, question):
    store = Store.open(s3.url("questions"))
    if not store.exists():
        copy(source, store, ["quick"])
        store.compact()
    asked = len(s3.requests())
    question(store)
    assert len(s3.requests()) - asked <= 6
