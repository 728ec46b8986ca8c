"""TensorBoard: a folder for each sweep, and in it a folder for each trial with one file of events.

The destination is the folder that `tensorboard --logdir` gets. Training curves and final metrics are scalars by step,
and the entries of the specification are hyper-parameters (the tab HPARAMS). A file appears under its name as a whole,
and its name tells the row that it was made of.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from tensorboardX.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue] - made when imported
from tensorboardX.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue]
from tensorboardX.record_writer import RecordWriter
from tensorboardX.summary import hparams

from sweeper.trackers.runs import ExportError, Run, Sweep, Tracker


class TensorboardTracker(Tracker):
    def __init__(self, folder: Path):
        self._folder, self._sweep = folder, folder
        self._varying: tuple[str, ...] = ()

    def present(self, sweep: Sweep) -> Mapping[str, str]:
        self._sweep, self._varying = self._folder / sweep.name, sweep.varying
        return {run.trial_id: run.row for run in sweep.runs if self._file(run).is_file()}

    def add(self, run: Run) -> None:
        file = self._file(run)
        for earlier in self._sweep.glob(f"*{_id(run)}"):  # of another row, or of another name
            shutil.rmtree(earlier, ignore_errors=True)
        temporary = file.parent / f".{file.name}.tmp"
        try:
            file.parent.mkdir(parents=True)
            _write(temporary, run, self._varying)
            os.replace(temporary, file)
        except OSError as error:
            raise ExportError(f"{file} cannot be written: {error.strerror}") from None

    def _file(self, run: Run) -> Path:
        row = hashlib.sha256(run.row.encode()).hexdigest()[:12]
        folder = re.sub(r"[^\w.=+-]+", "_", run.label) + _id(run)  # the name that TensorBoard shows
        return self._sweep / folder / f"events.out.tfevents.{int(run.started.timestamp()):010d}.{row}"


def _id(run: Run) -> str:
    return f"_{run.trial_id[:8]}"


def _write(path: Path, run: Run, varying: tuple[str, ...]) -> None:
    begun, ended = run.started.timestamp(), run.finished.timestamp()
    events = [Event(wall_time=begun, step=0, file_version="brain.Event:2")]
    # The tab shows a column for each; what is the same in all runs of the sweep says nothing there.
    chosen = {path: run.entries[path] for path in varying if run.entries.get(path) is not None}
    scalar = bool | int | float | str
    plain = {path: value if isinstance(value, scalar) else str(value) for path, value in chosen.items()}
    events += [Event(wall_time=begun, step=0, summary=summary) for summary in hparams(plain, dict(run.metrics))]
    length = max(run.steps, 1)
    for name, curve in run.curves.items():
        for step, value in curve:
            moment = begun + (ended - begun) * min(step / length, 1.0)  # curves have no times of their own
            events.append(_scalar(name, value, step, moment))
    events += [_scalar(name, value, run.steps, ended) for name, value in run.final.items()]
    writer = RecordWriter(str(path))
    try:
        for event in events:
            writer.write(event.SerializeToString())
        writer.flush()
    finally:
        writer.close()


def _scalar(name: str, value: float, step: int, moment: float) -> Event:
    return Event(wall_time=moment, step=step, summary=Summary(value=[Summary.Value(tag=name, simple_value=value)]))


def tracker(destination: str) -> TensorboardTracker:
    return TensorboardTracker(Path(destination))
