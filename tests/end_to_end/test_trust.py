"""A store, a checkpoint or a search space from a stranger is data: nothing in it is ever executed.

That no module imports pickle, or calls eval, is a rule of ruff; see pyproject.toml.
"""

import hashlib
import io
import pickle
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sweeper.packs import checkpoint
from sweeper.space import search_space
from sweeper.space.problems import SearchSpaceError
from sweeper.store.schema import trial_file_name
from sweeper.store.store import Store
from sweeper.trial.trial import trial_id
from tests.results import result


class Bomb:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (open, (str(self.mark), "w"))


def test_a_checkpoint_with_a_pickle_in_it_is_no_checkpoint(tmp_path):
    store, mark = Store.open(tmp_path / "results"), tmp_path / "mark"
    array = io.BytesIO()
    np.lib.format.write_array(array, np.array([Bomb(mark)], dtype=object), allow_pickle=True)
    for entries in ({"header.npy": array.getvalue()}, {"leaf_0.npy": array.getvalue()}, {"x": b""}):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content in entries.items():
                archive.writestr(name, content)
        payload = buffer.getvalue()
        # The digest is no secret: a stranger can compute it too.
        store.write_bytes("checkpoints/pack.ckpt", hashlib.sha256(payload).digest() + payload)
        assert checkpoint.load(store, "pack") is None
    payload = pickle.dumps(Bomb(mark))
    store.write_bytes("checkpoints/pack.ckpt", hashlib.sha256(payload).digest() + payload)
    assert checkpoint.load(store, "pack") is None
    assert not mark.exists()


def test_a_parquet_file_with_a_pickle_in_its_schema_is_not_unpickled(tmp_path):
    store, mark = Store.open(tmp_path / "results"), tmp_path / "mark"
    store.commit(result())
    key = trial_id(result().trial)
    metadata = {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(Bomb(mark)),
    }
    schema = pa.schema([pa.field("trial_id", pa.string(), metadata=metadata)])
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.table({"trial_id": [key]}, schema=schema), buffer)
    store.write_bytes(trial_file_name("coloring", "Aq_R", key), buffer.getvalue().to_pybytes())
    store.committed()
    store.trials()
    store.curves()
    assert not mark.exists()


def test_yaml_makes_no_objects(tmp_path):
    space = tmp_path / "space.yaml"
    for tag in ("!!python/object/apply:os.mkdir", "!!python/name:os.system", "!!python/object/new:os.mkdir"):
        space.write_text(f"trial: {tag} [{tmp_path / 'made'}]\n")
        with pytest.raises(SearchSpaceError):
            search_space.read(space, ())
    assert not (tmp_path / "made").exists()
