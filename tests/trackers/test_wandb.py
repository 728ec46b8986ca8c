"""Offline runs of Weights & Biases, listed by its own program and read in its own records; its server is far away."""

import json
import struct

import pytest

from tests.processes import python
from tests.trackers.exports import IDS, grown

pytestmark = pytest.mark.slow  # W&B starts a service for each run


def records(path):
    """The records of a run by kind: a LevelDB log of blocks of 32 KiB, in which 7 bytes precede each piece."""
    from wandb.proto.wandb_internal_pb2 import Record  # pyright: ignore[reportAttributeAccessIssue]

    data, place, parts, found = path.read_bytes(), 7, [], {}
    while place + 7 <= len(data):
        if 2**15 - place % 2**15 < 7:
            place += 2**15 - place % 2**15
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + 7])
        parts.append(data[place + 7 : place + 7 + length])
        place += 7 + length
        if kind in (1, 4):  # a whole record, or the last piece of one
            record = Record.FromString(b"".join(parts))
            found.setdefault(record.WhichOneof("record_type"), []).append(record)
            parts = []
    return found


def values(items):
    return {(item.key or item.nested_key[0]): json.loads(item.value_json) for item in items}


def test_a_sweep_is_a_project_of_offline_runs(store, tmp_path):
    grown(store, tmp_path / "offline", "wandb")
    folders = sorted((tmp_path / "offline" / "cycles").iterdir())
    assert sorted(folder.name[12:20] for folder in folders) == sorted(key[:8] for key in [*IDS, IDS[1]])
    listed = python("-m", "wandb", "sync", "--dry-run", *folders, check=True, WANDB_ERROR_REPORTING="false")
    assert all(folder.name in listed.stdout + listed.stderr for folder in folders)

    every = {folder.name: records(next(folder.glob("run-*.wandb"))) for folder in folders}
    failed = [name for name, of in every.items() if of["exit"][-1].exit.exit_code]
    assert [IDS[1][:8] in name for name in failed] == [True]
    (first,) = (of for name, of in every.items() if IDS[0][:8] in name)
    run = first["run"][0].run
    assert (run.project, list(run.tags)) == ("cycles", ["finished"])
    assert run.display_name.startswith("coloring transformer Aq_R q=1")
    assert {item.key: json.loads(item.value_json) for item in run.config.update}["objective.q"] == 1.0
    history = [values(record.history.item) for record in first["history"]]
    assert [(point["_step"], point["train_loss"]) for point in history] == [(100, 0.2), (200, 0.1)]
    summary = [values(record.summary.update) for record in first["summary"]]
    assert {name: value for each in summary for name, value in each.items()}["success_worst5"] == 0.25
