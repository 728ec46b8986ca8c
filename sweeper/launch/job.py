"""The job of a launch: the work of a start, how to execute the work, and how that ended."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

from sweeper.events import SweepPlanned, TrialsLost
from sweeper.launch.work_kinds import WorkKind
from sweeper.packs.plan import WorkSource
from sweeper.space.resources import Resources
from sweeper.space.search import Asha
from sweeper.store.store import Store
from sweeper.trial.provenance import Provenance


@dataclasses.dataclass(frozen=True)
class Job:
    """The work of a start.

    Attributes:
        source: Hands out the packs.
        planned: Makes the event that says how much the source has planned by now.
        store: The store that takes the rows; workers open it by its URL.
        provenance: The origin, in every row.
        resources: The resources of one pack.
        work_kind: What workers do with the packs.
        early_stopping: Options of ASHA; None if no trial is stopped early.
        concurrency: Largest number of packs at once; None for as many as fit.
    """

    source: WorkSource
    planned: Callable[[], SweepPlanned]
    store: Store
    provenance: Provenance
    resources: Resources
    work_kind: WorkKind
    early_stopping: Asha | None = None
    concurrency: int | None = None


class Launched(NamedTuple):
    """How a launch ended.

    Attributes:
        losses: Trials that could not be committed; pending trials after an interruption are not among them.
        refused: Whether the launch ended early because the store took no more commits.
    """

    losses: list[TrialsLost]
    refused: bool
