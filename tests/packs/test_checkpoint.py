"""The file of a checkpoint: what was saved comes back, and nothing else is believed."""

import jax.numpy as jnp
import numpy as np
import pytest

from sweeper.packs import checkpoint
from sweeper.store.store import Store
from sweeper.training.identity import Identity

CODE, NOWHERE = Identity("c0de", "1-2", "3"), Identity(None, "", None)


@pytest.mark.parametrize("kind", [np.float64, jnp.bfloat16])
def test_a_checkpoint_is_what_was_saved_and_fits_no_other_shape(tmp_path, kind):
    store = Store.open(tmp_path)
    state = {"weights": np.arange(100.0).astype(kind)}
    checkpoint.save(store, "pack", ["a"], CODE, state, {"step": 1})
    saved = checkpoint.load(store, "pack")
    assert saved is not None
    assert (saved.trial_ids, saved.identity, saved.notes) == (("a",), CODE, {"step": 1})
    np.testing.assert_array_equal(saved.state(state)["weights"], state["weights"], strict=True)
    assert saved.state({"weights": np.zeros(4)}) is None
    assert saved.state({}) is None


def test_checkpoints_without_a_trial_that_is_needed_are_removed(tmp_path):
    store = Store.open(tmp_path)
    for name, trial_ids in {"one": ["a", "b"], "other": ["b", "c"], "empty": []}.items():
        checkpoint.save(store, name, trial_ids, NOWHERE, {}, {})
    store.write_bytes("checkpoints/damaged.ckpt", b"x")
    names = store.listing("checkpoints")
    checkpoint.save(store, "later", [], NOWHERE, {}, {})
    removed = checkpoint.remove_without(store, names, {"a"}.__contains__)
    assert sorted(removed) == [(), (), ("b", "c")]
    assert sorted(file.stem for file in tmp_path.glob("checkpoints/*")) == ["later", "one"]


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda _: b"", lambda data: data[:99] + b"x" + data[100:]])
def test_a_damaged_checkpoint_is_none(tmp_path, damage):
    store = Store.open(tmp_path)
    checkpoint.save(store, "pack", ["a"], NOWHERE, {}, {})
    data = store.read_bytes("checkpoints/pack.ckpt")
    assert data is not None
    store.write_bytes("checkpoints/pack.ckpt", damage(data))
    assert checkpoint.load(store, "pack") is None
