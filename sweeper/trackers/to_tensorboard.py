"""TensorBoard: a folder for each sweep, and in it a folder for each trial with one file of events.

The destination is the folder that `tensorboard --logdir` gets. Training curves and final metrics are scalars by step,
and the entries of the specification are hyper-parameters (the tab HPARAMS). A file appears under its name as a whole.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tensorboardX.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue] - made when imported
from tensorboardX.record_writer import RecordWriter
from tensorboardX.summary import hparams, scalar

from sweeper.trackers.runs import Run, Sweep, Target

FILE = "events.out.tfevents.0"


def target(destination: str, sweep: Sweep) -> Target:
    def folder(run: Run) -> Path:
        label = re.sub(r"[^\w.=+-]+", "_", run.label)  # the name that TensorBoard shows
        return Path(destination) / sweep.name / f"{label}_{run.name}"

    present = {run.name for run in sweep.runs if (folder(run) / FILE).is_file()}
    return Target(present, lambda run: _write(folder(run), run, sweep.varying))


def _write(folder: Path, run: Run, varying: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    writer = RecordWriter(str(folder / "unfinished"))
    try:
        for event in _events(run, varying):
            writer.write(event.SerializeToString())
        writer.flush()
    finally:
        writer.close()
    os.replace(folder / "unfinished", folder / FILE)


def _events(run: Run, varying: Sequence[str]) -> Iterator[Event]:
    begun, ended = run.started.timestamp(), run.finished.timestamp()
    yield Event(wall_time=begun, step=0, file_version="brain.Event:2")
    # The tab shows a column for each; what is the same in all runs of the sweep says nothing there.
    chosen = {path: run.entries[path] for path in varying if run.entries.get(path) is not None}
    plain = {path: str(value) if isinstance(value, tuple) else value for path, value in chosen.items()}
    for summary in hparams(plain, dict(run.final)):
        yield Event(wall_time=begun, step=0, summary=summary)
    for name, curve in run.curves.items():
        for step, value in curve:
            yield Event(wall_time=begun, step=step, summary=scalar(name, value))
    for name, value in run.final.items():
        yield Event(wall_time=ended, step=run.steps, summary=scalar(name, value))
