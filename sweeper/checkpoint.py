"""The state of an unfinished pack as one file of the store.

A checkpoint is a zip of plain arrays with a digest in front: never a pickle, so nothing in a results folder can
execute, and never half a file, because the store publishes atomically. Whatever does not fit (another pack, another
structure, a flipped bit) is no checkpoint: the pack starts anew, which costs time and changes no number.
"""

import hashlib
import io
import json
import zipfile
from typing import Any

import jax
import numpy as np

from sweeper.store import Store

_DIGEST_BYTES = hashlib.sha256().digest_size


def _name(pack_id: str) -> str:
    return f"checkpoints/{pack_id}.ckpt"


def save(store: Store, pack_id: str, state: Any, notes: dict[str, Any]) -> None:
    """Publish the state of a pack in place of its earlier checkpoint.

    Args:
        store: Where to.
        pack_id: Name of the pack.
        state: A pytree of arrays.
        notes: Plain data kept beside it, such as the curves so far.
    """
    leaves = {f"leaf_{index}": np.asarray(leaf) for index, leaf in enumerate(jax.tree.leaves(state))}
    header = np.frombuffer(json.dumps({"pack_id": pack_id, "notes": notes}).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, header=header, **leaves)
    payload = buffer.getvalue()
    store.write_bytes(_name(pack_id), hashlib.sha256(payload).digest() + payload)


def restore(store: Store, pack_id: str, like: Any) -> tuple[Any, dict[str, Any]] | None:
    """State and notes of a pack, or None where there is no checkpoint that fits.

    Args:
        store: Where from.
        pack_id: Name of the pack.
        like: A pytree of arrays or shapes that the state must match in structure, shapes and types.
    """
    data = store.read_bytes(_name(pack_id))
    if data is None or hashlib.sha256(data[_DIGEST_BYTES:]).digest() != data[:_DIGEST_BYTES]:
        return None
    expected, structure = jax.tree.flatten(like)
    try:
        with np.load(io.BytesIO(data[_DIGEST_BYTES:]), allow_pickle=False) as arrays:
            header = json.loads(arrays["header"].tobytes())
            leaves = [arrays[f"leaf_{index}"] for index in range(len(arrays.files) - 1)]
    except (ValueError, KeyError, OSError, zipfile.BadZipFile):
        return None
    fits = header.get("pack_id") == pack_id and [(leaf.shape, leaf.dtype) for leaf in leaves] == [
        (leaf.shape, leaf.dtype) for leaf in expected
    ]
    return (jax.tree.unflatten(structure, leaves), header["notes"]) if fits else None


def exists(store: Store, pack_id: str) -> bool:
    """Whether the pack has left a checkpoint, sound or not."""
    return store.read_bytes(_name(pack_id)) is not None


def remove(store: Store, pack_id: str) -> None:
    """Forget the checkpoint of a pack, if there is one."""
    store.delete(_name(pack_id))
