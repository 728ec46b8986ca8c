"""The contract of a trainer: a record of functions, as optax's gradient transformations are.

A trainer works on trials that are stacked along a lane axis. Its state is a pytree of arrays with that axis in front,
and after every stride the state is all that a checkpoint must hold. A lane that fails is frozen, with the number of its
failure; the other lanes go on.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array, Int, PyTree

from sweeper.trial import vectorisation
from sweeper.trial.trial import Trial


class Failure(NamedTuple):
    """Why a lane has failed."""

    reason: str  # in two words, such as "non-finite loss"
    place: str | None = None  # the method of a plug-in that has broken its contract, with file and line


@runtime_checkable
class TrainerState(Protocol):
    """The fields that the states of all trainers have; each trainer adds its own."""

    @property
    def network(self) -> PyTree: ...  # what is evaluated in the end

    @property
    def step(self) -> Int[Array, " lane"]: ...  # steps done

    @property
    def failure(self) -> Int[Array, " lane"]: ...  # 0, or a number for `Trainer.failure`; a failed lane stays as it is


Evaluator = Callable[[Any, PyTree, np.ndarray], list[np.ndarray]]
"""Objectives of all blocks, in order, of the stacked trials, their search distributions and their step counters."""


State = TypeVar("State", bound=TrainerState)


@dataclasses.dataclass(frozen=True)
class Trainer(Generic[State]):
    """How trials are trained."""

    stride_steps: int  # most steps that one call of `stride` may do. A training can be checkpointed between two calls.
    curves: tuple[str, ...]  # names of the trainer's training curves; those of the trial's own follow (`curve_names`)
    # Steps from one point of a curve to the next, for a trial; a multiple of `stride_steps`
    curve_interval: Callable[[Any], int]
    # The state before the first step, for stacked trials and the networks that they start from (as `Kind.startable`
    # describes them, stacked), or for trials alone, whose networks are then fresh
    start: Callable[..., State]
    # The state after the given number of further steps, and for each of `curve_names` its mean over these steps,
    # `[lane]`, as the leaves of a tree. The memory of the old state may be used again.
    stride: Callable[[Any, State, int], tuple[State, PyTree]]
    # The function that makes the state before the first step of stacked trials, which start from no network, and then
    # those that make a step, each with its arguments; arrays may be shapes
    programs: Callable[[Any], Iterable[tuple[Callable[..., Any], tuple[Any, ...]]]]
    # Bytes of the device that `stride` needs for stacked trials, as the compiler says. Compiles, computes nothing.
    memory: Callable[[Any], int]
    failure: Callable[[Any, int], Failure]  # what a number in `TrainerState.failure` means, for a trial
    own_curves: Callable[[Any], tuple[str, ...]]  # names of the curves that a trial has besides
    population: "Population | None" = None  # for a trainer that evaluates a population in every step


@dataclasses.dataclass(frozen=True)
class Population:
    """How other processes compute the blocks of a population; all functions take stacked trials."""

    blocks: Callable[[Any], int]  # number of blocks
    # Objectives of one block, of the search distributions, the step counters and the block's number
    block: Callable[[Any, PyTree, np.ndarray, int], np.ndarray]
    trainer: Callable[[Evaluator], Trainer[Any]]  # the same trainer with another `Evaluator`


def curve_names(trainer: Trainer[Any], trial: Trial) -> tuple[str, ...]:
    """Names of all training curves of a trial: its trainer's, and those of its plug-ins."""
    return (*trainer.curves, *trainer.own_curves(trial))


def over_lanes(function: Callable[..., Any], *stacked: Any) -> Any:
    """The results of `function` for every lane, stacked, of pytrees of arrays with a leading lane axis.

    An accelerator needs lanes to be vectorised. On a CPU the lanes take turns inside the program: one lane keeps a CPU
    busy, and a table look-up over a batch of lanes is more than twice as slow (docs/performance). So on a CPU every
    lane runs the same code for any number of lanes, and the numbers of a lane do not depend on its pack.
    """
    if vectorisation.in_turns():
        return jax.lax.map(lambda arguments: function(*arguments), stacked)
    return jax.vmap(function)(*stacked)
