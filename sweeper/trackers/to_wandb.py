"""Weights & Biases: offline runs, which `wandb sync` uploads; a sweep is a project, a trial a run with its trial's id.

The destination is a folder; the runs of a sweep are in `<sweep>/wandb/offline-run-<time>-<trial id>`. Nothing is sent
anywhere. Beside each run lies a mark with the row that it was made of, written last. A run that was synchronised
already and whose trial was run again must be deleted on the server before it is synchronised again.
"""

import os
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path

os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # read at the import; nothing may be sent

import wandb
from wandb.proto.wandb_internal_pb2 import Record  # pyright: ignore[reportAttributeAccessIssue] - made when imported

from sweeper.trackers.runs import ExportError, Run, Sweep, Tracker

MARK = "sweeper-row.txt"


class WandbTracker(Tracker):
    def __init__(self, folder: Path):
        self._folder = folder
        self._sweep = ""

    def present(self, sweep: Sweep) -> Mapping[str, str]:
        self._sweep = sweep.name
        marks = self._runs.glob(f"offline-run-*/{MARK}")
        return {mark.parent.name.rpartition("-")[2]: mark.read_text() for mark in marks}

    @property
    def _runs(self) -> Path:
        return self._folder / self._sweep / "wandb"

    def add(self, run: Run) -> None:
        for earlier in self._runs.glob(f"offline-run-*-{run.trial_id}"):
            shutil.rmtree(earlier)
        try:
            self._runs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ExportError(f"{self._runs} cannot be made: {error.strerror}") from None
        written = wandb.init(
            mode="offline",
            dir=str(self._folder / self._sweep),
            project=self._sweep,
            id=run.trial_id,
            name=run.label,
            tags=[run.status],
            config={**run.entries, "trial": {**run.origin, "started": run.started.isoformat()}},
            settings=wandb.Settings(
                silent=True, console="off", disable_git=True, disable_code=True, save_code=False,
                x_disable_stats=True, x_disable_meta=True, x_disable_machine_info=True,
            ),
        )  # fmt: skip
        steps: dict[int, dict[str, float]] = {}
        for name, curve in run.curves.items():
            for step, value in curve:
                steps.setdefault(step, {})[name] = value
        for step in sorted(steps):
            written.log(steps[step], step=step)
        written.summary.update(run.final)
        folder = Path(written.settings.sync_dir)
        written.finish(exit_code=1 if run.status == "failed" else 0)
        # `finish` does not wait for W&B's service to close the file; the end of the service does, for .15 s a run.
        wandb.teardown()
        if not any(record.HasField("exit") for record in records_of(folder / f"run-{run.trial_id}.wandb")):
            # The service says nothing of a full disk.
            raise ExportError(f"{folder} was not written to its end: is there room?")
        (folder / MARK).write_text(run.row)


def records_of(path: Path) -> list[Record]:
    """The whole records of a run: a LevelDB log, blocks of 32 KiB in which a header of 7 bytes precedes each piece."""
    data, place, parts, records = path.read_bytes(), 7, [], []
    while place + 7 <= len(data):
        if 2**15 - place % 2**15 < 7:
            place += 2**15 - place % 2**15
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + 7])
        parts.append(data[place + 7 : place + 7 + length])
        place += 7 + length
        if kind in (1, 4) and place <= len(data):  # a whole record, or the last piece of one
            records.append(Record.FromString(b"".join(parts)))
            parts = []
    return records


def tracker(destination: str) -> WandbTracker:
    return WandbTracker(Path(destination))
