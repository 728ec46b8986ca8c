"""Weights & Biases: offline runs, which `wandb sync` uploads; a sweep is a project, a trial a run.

The destination is a folder. The runs of a sweep are in `<sweep>/offline-run-<trial and time>`, where each appears as a
whole. Nothing is sent anywhere.
"""

import os
import shutil
import tempfile
from pathlib import Path

os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # read at the import; nothing may be sent

import wandb

from sweeper.trackers.runs import ExportError, Run, Sweep, Target

ROOM = 2**20  # bytes


def target(destination: str, sweep: Sweep) -> Target:
    folder = Path(destination) / sweep.name
    folder.mkdir(parents=True, exist_ok=True)
    present = {run.name for run in sweep.runs if _place(folder, run).is_dir()}
    return Target(present, lambda run: _add(folder, sweep.name, run))


def _place(folder: Path, run: Run) -> Path:
    return folder / f"offline-run-{run.name}"


def _add(folder: Path, project: str, run: Run) -> None:
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unfinished-") as unfinished:
        written = wandb.init(
            mode="offline",
            dir=unfinished,
            project=project,
            id=run.name,
            name=run.label,
            tags=[run.status],
            config={**run.entries, "trial": {**run.origin, "id": run.trial_id, "started": run.started.isoformat()}},
            settings=wandb.Settings(
                silent=True, console="off", disable_git=True, disable_code=True, save_code=False,
                x_disable_stats=True, x_disable_meta=True, x_disable_machine_info=True,
            ),
        )  # fmt: skip
        points = [(step, name, value) for name, curve in run.curves.items() for step, value in curve]
        for step, name, value in sorted(points):
            written.log({name: value}, step=step)
        written.summary.update(dict(run.final))
        made = written.settings.sync_dir
        written.finish(exit_code=1 if run.status == "failed" else 0)
        # `finish` does not wait for W&B's service to close the file; the end of the service does, for .15 s a run.
        wandb.teardown()
        if shutil.disk_usage(folder).free < ROOM:  # of which the service says nothing
            raise ExportError(f"{folder} has no room")
        os.rename(made, _place(folder, run))
