"""The job of a launch: the work of a start, and how to execute the work."""

import dataclasses
from collections.abc import Callable

from sweeper.events import SweepPlanned
from sweeper.packs.evaluation_plan import ProtocolChanges
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
        early_stopping: Options of ASHA; None if no trial is stopped early.
        concurrency: Largest number of packs at once; None for as many as fit.
        changes: Changes of the trials' protocols, by which their stored networks are evaluated; None to train them.
    """

    source: WorkSource
    planned: Callable[[], SweepPlanned]
    store: Store
    provenance: Provenance
    resources: Resources
    early_stopping: Asha | None = None
    concurrency: int | None = None
    changes: ProtocolChanges | None = None
