"""A fourth kind of trial: walks of random steps of a size, whose end is what they learn."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from sweeper.training.kind import Checks, Keep, Kind, Names, Results, Traced
from sweeper.training.trainer import Failure, Trainer
from sweeper.trial import plugins, record
from sweeper.trial.field_types import Count, Positive
from sweeper.trial.kinds import Declared
from sweeper.trial.start_from import AnyStart
from sweeper.trial.trial import Folder, Trial
from tests.training.random_walk_declared import DECLARED


class Walk(record.Spec):
    size: record.Traced[Positive] = 1.0


class WalkTrial(Trial):
    DECLARED: ClassVar[Declared] = DECLARED

    walk: Walk
    steps: Count
    evaluate_every: Count | None = None
    start_from: AnyStart = None
    seed: record.Traced[int] = 0

    @property
    def folder(self) -> Folder:
        return Folder("walk", "walks")

    @property
    def words(self) -> str:
        return f"walk of {self.walk.size} seed={self.seed}"

    @property
    def columns(self) -> dict[str, Any]:
        return {"step_size": self.walk.size}


class State(NamedTuple):
    network: Float[Array, " lane"]
    step: Int[Array, " lane"]
    failure: Int[Array, " lane"]


def _start(trials: WalkTrial, networks: Any = None) -> State:
    nothing = jnp.zeros_like(jnp.asarray(trials.seed), jnp.int32)
    return State(nothing.astype(jnp.float32), nothing, nothing)


def _stride(trials: WalkTrial, state: State, length: int) -> tuple[State, tuple[Any, ...]]:
    def step(seed: Any, done: Any) -> Any:
        return jax.random.rademacher(jax.random.fold_in(jax.random.key(seed), done), (), jnp.float32)

    def walked(_: int, state: State) -> State:
        steps = jax.vmap(step)(jnp.asarray(trials.seed), state.step)
        return State(state.network + steps * jnp.asarray(trials.walk.size), state.step + 1, state.failure)

    state = jax.lax.fori_loop(0, length, walked, state)
    return state, (jnp.abs(state.network),)


class Walks(Kind[WalkTrial]):
    record = WalkTrial

    def trainer(self, trial: WalkTrial) -> Trainer[Any]:
        return Trainer(
            stride_steps=2, curves=("away",), curve_interval=lambda _: 2, start=_start, stride=_stride,
            programs=lambda trials: [(_start, (trials,))], memory=lambda _: 1, own_curves=lambda _: (),
            failure=lambda *_: Failure("lost"),
        )  # fmt: skip

    def evaluate(self, trial: WalkTrial, network: Any, step: int) -> Results:
        return Results({"distance": abs(float(network))}, {})

    def final(self, curves: Mapping[str, float]) -> dict[str, float]:
        return {}

    def kept(self, trial: WalkTrial, network: Any) -> Any:
        return {"place": network}

    def built(self, trial: WalkTrial) -> Any:
        return {"place": jax.ShapeDtypeStruct((), jnp.float32)}

    def names(self, trial: WalkTrial) -> Names:
        return Names(["distance"], [])

    def checks_by_shapes(self, trial: WalkTrial, keep: Keep) -> Checks:
        return {}

    def trace_programs(self, trial: WalkTrial, traced: Traced) -> None:
        pass

    def examples(self, kind: plugins.Kind, name: str) -> list[WalkTrial]:
        return []


KIND = Walks()
