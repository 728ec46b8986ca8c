"""How a sweep is executed; no part of a trial's identity."""

from typing import Annotated

from pydantic import Field

from sweeper.space.holes import MAX_SETTINGS
from sweeper.trial.field_types import Count
from sweeper.trial.record import Spec

ACCELERATOR_LANES = 512
"""Most trials of a pack on a GPU, if the space gives no number; `benchmarks.gpu` measures up to so many at once."""

LANES_TOGETHER = 64
"""Most trials of a pack on a CPU where they run together, as an experiment may say, if the space gives no number."""


class Resources(Spec):
    """The entries under `resources:`; docs/search-space.md says what each means.

    A pack without `lanes` has the training seeds of one setting; of an experiment whose `lanes_together` it has up to
    `LANES_TOGETHER` trials of one structure; with a GPU it has up to `ACCELERATOR_LANES` trials of
    one structure, of which the worker trains as many at once as fit into the GPU's memory. While population workers
    evaluate, the pack's own process waits, so that its `cpus` are not reserved in addition.
    """

    lanes: Annotated[int, Field(ge=1, le=MAX_SETTINGS)] | None = (
        None  # most trials in a pack, which then may mix settings of one structure
    )
    cpus: Count = 1
    gpus: Annotated[float, Field(ge=0, le=1)] = 0.0  # share of a GPU for a pack
    population_workers: Annotated[int, Field(ge=0)] = 0  # processes of one core; 0: the pack's own process evaluates
    checkpoint_seconds: Annotated[float, Field(gt=0)] = 60.0
    progress_seconds: Annotated[float, Field(gt=0)] = 3600.0  # without news of a pack, until its worker is ended
    outcomes: bool = True
    networks: bool = True

    def bundles(self) -> list[dict[str, float]]:
        """The resources that a pack reserves: for its own process, possibly none, and for each population worker."""
        own = {"CPU": float(self.cpus)} if self.population_workers == 0 else {}
        return [own | ({"GPU": self.gpus} if self.gpus else {}), *[{"CPU": 1.0}] * self.population_workers]

    @property
    def device_share(self) -> float | None:
        """Share of a GPU whose memory says how many lanes of a pack are trained at once.

        None without a GPU, where the space gives a number, and where other processes evaluate the population.
        """
        return self.gpus if self.gpus and self.lanes is None and not self.population_workers else None
