"""How a sweep is executed; no part of a trial's identity."""

from typing import Annotated

from pydantic import Field

from sweeper.trial.record import Spec
from sweeper.trial.trial_spec import Count

ACCELERATOR_LANES = 512
"""Most trials of a pack on a GPU, if the space gives no number; `benchmarks.gpu` measures up to so many at once."""


class Resources(Spec):
    """How a sweep is executed; nothing of it is part of a trial's identity.

    Attributes:
        lanes: Largest number of trials in a pack, which may then mix settings of one structure; None makes a pack of
            the training seeds of one setting; with a GPU of up to `ACCELERATOR_LANES` trials of one structure, of
            which the worker trains as many at once as fit into the memory of the GPU.
        cpus: Cores of a pack.
        gpus: Share of a GPU for a pack, which trains on one GPU; a share below 1 puts several packs on one GPU.
        population_workers: Processes of one core each that evaluate the population of a pack that evolution trains. The
            pack's own process works while they wait, so that its `cpus` are not reserved in addition. With 0 the pack's
            own process evaluates the population.
        checkpoint_seconds: Time between two checkpoints of a pack.
        progress_seconds: Longest time in which a worker may report nothing new of its pack, before the worker is ended
            and the pack tried once more in another; a large program may compile, and a large evaluation last, for
            many minutes.
        outcomes: Whether the results of every single evaluation input are kept.
        networks: Whether the trained networks are kept.
    """

    lanes: Count | None = None
    cpus: Count = 1
    gpus: Annotated[float, Field(ge=0, le=1)] = 0.0
    population_workers: Annotated[int, Field(ge=0)] = 0
    checkpoint_seconds: Annotated[float, Field(gt=0)] = 60.0
    progress_seconds: Annotated[float, Field(gt=0)] = 3600.0
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
