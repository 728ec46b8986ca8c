"""What a launch is given: the work of a start, and how it is to be executed."""

import dataclasses
from collections.abc import Callable

from sweeper.events import SweepPlanned
from sweeper.packs.evaluation_plan import Protocol
from sweeper.packs.plan import Source
from sweeper.space.resources import Resources
from sweeper.space.search import Asha
from sweeper.store.store import Store
from sweeper.trial.provenance import Provenance


@dataclasses.dataclass(frozen=True)
class Job:
    """The work of a start.

    Attributes:
        source: Hands out the packs.
        planned: The event that tells how much the source has asked for by now.
        store: Where workers commit to; they open it by its URL.
        provenance: What every row says of its origin.
        resources: What one pack takes.
        early_stopping: Settings of ASHA, where it is asked for.
        concurrency: At most so many packs at once; None for as many as fit.
        protocol: Changes of the trials' protocols, by which their stored networks are evaluated; None to train them.
    """

    source: Source
    planned: Callable[[], SweepPlanned]
    store: Store
    provenance: Provenance
    resources: Resources
    early_stopping: Asha | None = None
    concurrency: int | None = None
    protocol: Protocol | None = None
