"""The state of an unfinished pack as one file of the store.

A checkpoint is a zip of plain arrays with a digest in front. It is never a pickle, so that no file of a store
can execute, and never half a file, because the store publishes atomically. A checkpoint that is damaged, or does not
fit (another structure, other code, programs or data), is not continued: the pack starts anew, which costs time and
changes no number.
"""

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import jax
import numpy as np

from sweeper.store.store import Store
from sweeper.training.identity import Identity

_DIGEST_BYTES = hashlib.sha256().digest_size


def _name(pack_id: str) -> str:
    return f"checkpoints/{pack_id}.ckpt"


class Checkpoint(NamedTuple):
    """A saved state of a pack."""

    trial_ids: tuple[str, ...]  # the trial of each lane
    identity: Identity  # what the trials were trained by
    notes: dict[str, Any]  # plain data kept beside the state
    leaves: list[np.ndarray]  # the arrays of the state

    def state(self, like: Any) -> Any | None:
        """The state as a pytree like `like`; None where structure, shapes or types differ."""
        expected, structure = jax.tree.flatten(like)
        leaves = list(map(_named_type, self.leaves, expected))
        fits = [(leaf.shape, leaf.dtype) for leaf in leaves] == [(leaf.shape, leaf.dtype) for leaf in expected]
        if len(expected) != len(self.leaves) or not fits:
            return None
        return jax.tree.unflatten(structure, leaves)


def _named_type(leaf: np.ndarray, like: Any) -> np.ndarray:
    """The leaf; of types that numpy itself does not know, such as bfloat16, a file has the bytes alone."""
    nameless = leaf.dtype == np.dtype(("V", like.dtype.itemsize))
    return leaf.view(like.dtype) if nameless else leaf


def save(
    store: Store, pack_id: str, trial_ids: Sequence[str], identity: Identity, state: Any, notes: dict[str, Any]
) -> None:
    """Publish the state of a pack, a pytree of arrays, in place of its earlier checkpoint; see `Checkpoint`.

    `pack_id` names the pack as planned, of which the lanes may be only some trials.
    """
    leaves = {f"leaf_{index}": np.asarray(leaf) for index, leaf in enumerate(jax.tree.leaves(state))}
    described = {"trial_ids": list(trial_ids), "identity": identity, "notes": notes}
    header = json.dumps(described).encode()
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, header=np.frombuffer(header, np.uint8), **leaves)  # noqa: TID251  no pickles
    payload = buffer.getvalue()
    store.write_bytes(_name(pack_id), hashlib.sha256(payload).digest() + payload)


def load(store: Store, pack_id: str) -> Checkpoint | None:
    """The checkpoint of a pack; None if there is no sound checkpoint."""
    data = store.read_bytes(_name(pack_id))
    if data is None or hashlib.sha256(data[_DIGEST_BYTES:]).digest() != data[:_DIGEST_BYTES]:
        return None
    try:
        with np.load(io.BytesIO(data[_DIGEST_BYTES:]), allow_pickle=False) as arrays:  # noqa: TID251  no pickles
            header = json.loads(arrays["header"].tobytes())
            leaves = [arrays[f"leaf_{index}"] for index in range(len(arrays.files) - 1)]
        return Checkpoint(tuple(header["trial_ids"]), Identity(*header["identity"]), header["notes"], leaves)
    except Exception:  # not written by this program
        return None


def exists(store: Store, pack_id: str) -> bool:
    """Whether a pack has the file of a checkpoint, sound or not."""
    return store.read_bytes(_name(pack_id)) is not None


def pack_ids(store: Store) -> list[str]:
    """The packs that have a file of a checkpoint, sound or not."""
    return [PurePosixPath(name).stem for name in store.listing("checkpoints")]


def remove(store: Store, pack_id: str) -> None:
    """Delete the checkpoint of a pack, if it exists."""
    store.delete(_name(pack_id))


def remove_without(store: Store, names: Iterable[str], needed: Callable[[str], bool]) -> list[tuple[str, ...]]:
    """Delete those of the files of checkpoints that hold no trial whose id is needed.

    The files are listed before it is known what is needed: later ones may be of another start. Returns the trials of
    each deleted checkpoint; none of a damaged one.
    """
    removed = []
    for name in names:
        saved = load(store, PurePosixPath(name).stem)
        trial_ids = () if saved is None else saved.trial_ids
        if not any(map(needed, trial_ids)):
            store.delete(name)
            removed.append(trial_ids)
    return removed
