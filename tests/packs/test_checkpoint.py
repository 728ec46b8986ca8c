"""The file of a checkpoint: what was saved comes back, and nothing else is believed."""

import hashlib
import io
import json
import zipfile

import jax.numpy as jnp
import numpy as np
import pytest

from sweeper.packs import checkpoint
from sweeper.store.store import Store


@pytest.mark.parametrize("kind", [np.float64, jnp.bfloat16])
def test_a_checkpoint_is_what_was_saved_and_fits_no_other_shape(tmp_path, kind):
    store = Store.open(tmp_path)
    state = {"weights": np.arange(100.0).astype(kind)}
    checkpoint.save(store, "pack", ["a"], "c0de", state, {"step": 1})
    saved = checkpoint.load(store, "pack")
    assert saved is not None
    assert (saved.trial_ids, saved.fingerprint, saved.notes) == (("a",), "c0de", {"step": 1})
    np.testing.assert_array_equal(saved.state(state)["weights"], state["weights"], strict=True)
    assert saved.state({"weights": np.zeros(4)}) is None
    assert saved.state({}) is None


def test_checkpoints_without_a_trial_that_is_needed_are_removed(tmp_path):
    store = Store.open(tmp_path)
    for name, trial_ids in {"one": ["a", "b"], "other": ["b", "c"], "empty": []}.items():
        checkpoint.save(store, name, trial_ids, None, {}, {})
    store.write_bytes("checkpoints/damaged.ckpt", b"x")
    names = store.listing("checkpoints")
    checkpoint.save(store, "later", [], None, {}, {})
    removed = checkpoint.remove_without(store, names, {"a"}.__contains__)
    assert sorted(removed) == [(), (), ("b", "c")]
    assert sorted(file.stem for file in tmp_path.glob("checkpoints/*")) == ["later", "one"]


def _archive(header: bytes, compression: int = zipfile.ZIP_STORED, **members: bytes) -> bytes:
    """A checkpoint with a right digest and any content."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        array = io.BytesIO()
        np.save(array, np.frombuffer(header, np.uint8))
        for name, content in {"header": array.getvalue(), **members}.items():
            archive.writestr(f"{name}.npy", content)
    return hashlib.sha256(buffer.getvalue()).digest() + buffer.getvalue()


def _huge_array(count: int) -> bytes:
    """An array that says that it has so many numbers, and holds none."""
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(array, {"descr": "<f8", "fortran_order": False, "shape": (count,)})
    return array.getvalue()


SOUND = json.dumps({"pack_id": "pack", "trial_ids": ["a"], "notes": {}}).encode()
WHOLE = _archive(SOUND)
BAD_CHECKPOINTS = {
    "cut off": WHOLE[:-9],
    "empty": b"",
    "altered": WHOLE[:99] + b"x" + WHOLE[100:],
    "deep header": _archive(b"[" * 200_000),
    "header of a number": _archive(b"5"),
    "no trials": _archive(SOUND.replace(b'"a"', b"")),
    "more than memory": _archive(SOUND, leaf_0=_huge_array(2**60)),
    "more than an integer": _archive(SOUND, leaf_0=_huge_array(2**80)),
    "expands": _archive(SOUND, zipfile.ZIP_DEFLATED, leaf_0=_huge_array(10**7) + bytes(8 * 10**7)),
}


@pytest.mark.parametrize("bad", BAD_CHECKPOINTS)
def test_a_damaged_or_hostile_checkpoint_is_none(tmp_path, bad):
    store = Store.open(tmp_path)
    store.write_bytes("checkpoints/pack.ckpt", WHOLE)
    assert checkpoint.load(store, "pack") is not None
    store.write_bytes("checkpoints/pack.ckpt", BAD_CHECKPOINTS[bad])
    assert checkpoint.load(store, "pack") is None
