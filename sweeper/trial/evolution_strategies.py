"""The entries of evolution strategies: training without gradients (`sweeper.training.evolution`).

`steps` of a trial that a strategy trains are its generations. Rates and deviations are in the units of the weights.
"""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from sweeper.trial.field_types import BelowOne, NotNegative, Positive, Schedule
from sweeper.trial.record import SameAs, Spec, Traced, Unwritten

Bound = Annotated[float, Field(ge=0, allow_inf_nan=True)]


class Evolution(Spec):
    """What all strategies have."""

    NEEDS_GRADIENT: ClassVar[bool] = False
    """Whether the losses of a task must have a gradient."""

    name: str
    # Individuals of a generation; an even number, because blocks hold pairs
    population: Annotated[int, Field(ge=2, multiple_of=2)] = 300
    # Seeds r of the last generations: the objective's m, doubled so many times. m doubles at equal intervals of the
    # training. None keeps m as it is.
    final_m: Annotated[Annotated[int, Field(ge=2)] | None, Unwritten(at=None)] = None

    @property
    def warmup_steps(self) -> int:
        """Steps in which a rate rises from 0: strategies have none."""
        return 0

    def for_seeds(self, m: int, fresh: bool) -> Self:
        """This optimiser for an objective with m seeds r; a baseline without fresh seeds r ignores `final_m`.

        It is a `ValueError` if m cannot be doubled to `final_m`.
        """
        if self.final_m is None:
            return self
        if not fresh:
            return self.model_copy(update={"final_m": None})
        if self.final_m not in (m << doublings for doublings in range(1, 32)):
            raise ValueError(f"optimizer.final_m: must be m = {m} doubled, such as {2 * m} or {4 * m}")
        return self

    def m_at(self, m: int, step: int, steps: int) -> int:
        """Seeds r in generation `step`, counted from 0, of `steps`; the objective has m."""
        if self.final_m is None:
            return m
        doublings = (self.final_m // m).bit_length() - 1
        return m << min(step * (doublings + 1) // steps, doublings)


class PGPE(Evolution):
    """Policy gradients with parameter-based exploration (Sehnke et al., 2010): a normal distribution over weights."""

    name: Literal["pgpe"] = "pgpe"
    center_learning_rate: Traced[Positive] = 0.01  # rate of the centre in the first generation
    # The same at the end; by default the rate is constant
    final_center_learning_rate: Annotated[Traced[NotNegative | None], Unwritten(same_as="center_learning_rate")] = None
    std_learning_rate: Traced[Positive] = 0.01  # rate of the standard deviations in the first generation
    # The same at the end
    final_std_learning_rate: Annotated[Traced[NotNegative | None], Unwritten(same_as="std_learning_rate")] = None
    schedule: Annotated[Schedule, Unwritten(at="cosine")] = "cosine"  # how rates fall in between
    initial_std: Traced[Positive] = 0.03  # standard deviation of every weight at the start
    min_std: Annotated[Traced[Bound], Unwritten(at=0.0)] = 0.0  # standard deviations fall no lower
    max_std: Annotated[Traced[Bound], Unwritten(at=float("inf"))] = float("inf")  # standard deviations rise no higher
    # What moves the centre along the estimated gradient: Adam, or ClipUp (Toklu et al., 2020), which takes the
    # direction of the gradient alone, with momentum and a largest step
    center_optimizer: Annotated[Literal["adam", "clipup"], Unwritten(at="adam")] = "adam"
    momentum: Annotated[Traced[BelowOne], Unwritten(at=0.9)] = 0.9  # of ClipUp
    # The largest step of ClipUp, in units of the learning rate
    max_velocity_ratio: Annotated[Traced[Positive], Unwritten(at=2.0)] = 2.0


class OpenES(Evolution):
    """OpenAI's evolution strategy (Salimans et al., 2017): a centre, and one standard deviation that is not adapted."""

    name: Literal["open_es"] = "open_es"
    learning_rate: Traced[Positive] = 0.01  # rate of the centre (Adam's) in the first generation
    # The same at the end; by default the rate is constant
    final_learning_rate: Annotated[Traced[NotNegative | None], SameAs("learning_rate")] = None
    initial_std: Traced[Positive] = 0.03  # the standard deviation of all weights in the first generation
    # The same at the end; by default it is constant
    final_std: Annotated[Traced[Positive | None], SameAs("initial_std")] = None
    schedule: Schedule = "cosine"  # how rate and deviation fall in between


class SNES(Evolution):
    """Separable natural evolution strategy (Wierstra et al., 2014): natural gradients of centre and deviations."""

    name: Literal["snes"] = "snes"
    learning_rate: Traced[Positive] = 1.0  # rate of the centre; 1 is the natural step
    # Rate of the deviations, in units of (3 + ln n) / (5 sqrt n) for n weights
    std_learning_rate_ratio: Traced[Positive] = 1.0
    initial_std: Traced[Positive] = 0.03  # standard deviation of every weight at the start


class SepCMAES(Evolution):
    """CMA-ES with a diagonal covariance matrix (Ros & Hansen, 2008), whose rates follow from population and weights."""

    name: Literal["sep_cma_es"] = "sep_cma_es"
    initial_std: Traced[Positive] = 0.03  # standard deviation of every weight at the start


EvolutionStrategy = PGPE | OpenES | SNES | SepCMAES
