"""Launches on the cluster that this process is connected to."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sweeper import events
from sweeper.interruption import Interruption
from sweeper.launch import tune_driver
from sweeper.launch.job import Job, Launched, Training, WorkKind
from sweeper.packs import plan
from sweeper.packs.packing import packs
from sweeper.space.resources import Resources
from sweeper.store.store import Store
from sweeper.trial import provenance
from sweeper.trial.trial import Trial, trial_id
from tests.heard import Heard


def launched(
    store: Path,
    trials: Sequence[Trial],
    *,
    resources: Resources = Resources(),
    work_kind: WorkKind = Training(),
    idle: bool = False,
    concurrency: int | None = 1,
    **options: Any,
) -> tuple[Launched, Heard]:
    """How a launch of packs of one trial each ended, and what it told; `idle` packs have nothing to do."""
    work = tuple(plan.Work(pack, () if idle else pack.trial_ids) for pack in packs(trials, lanes=1))
    planned = {trial_id(trial): trial for trial in trials}
    source = plan.ListedWork(plan.Plan(planned, {}, 1, len(trials), work, plan.done_statuses(True, False)))
    told = events.SweepPlanned("launched", trials=len(trials), done=0, failed=0, steps=0, programs=0)
    origin = provenance.capture("test")
    job = Job(source, lambda: told, Store.open(store), origin, resources, work_kind, concurrency)
    heard = Heard()
    with events.Stream([heard.hear], warn=print) as stream:
        return tune_driver.launch(job, stream, Interruption(), **options), heard
