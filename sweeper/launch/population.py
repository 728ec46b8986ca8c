"""The population of an evolution on Ray actors.

A generation is cut into blocks (`sweeper.training.trainer.Population`), and a worker computes a block from the trials,
their search distributions, the generation and the block's number: kilobytes for each block, for any size of the
population. Blocks go to the workers that are free.

Invariants:
    - The numbers of a block do not depend on the worker that computes it, on the order, or on repetitions.
    - Ray replaces a worker that died, and its block is computed again; the other workers go on meanwhile.
    - Workers belong to the process that made them: when this process ends, by whatever cause, they end.
    - Workers never touch a GPU, even on nodes that have GPUs.
"""

import contextlib
import functools
import io
import json
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import ray
from jaxtyping import PyTree
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from sweeper.packs.failures import PluginRaised, reason
from sweeper.packs.packing import stack
from sweeper.training import arithmetic, trainer
from sweeper.training.kind import trainer_of
from sweeper.training.trainer import Evaluator
from sweeper.trial import fingerprint, jax_settings, plugins
from sweeper.trial.fingerprint import Code, OtherCodeError
from sweeper.trial.record import canonical
from sweeper.trial.trial import Trial, trial_of, used_plug_ins

STACKS = 8  # selections of the trials of a pack that are kept: a device that is too small trains group after group


class _Worker:
    def objectives(
        self, trials: str, code: Code, distribution: PyTree, step: np.ndarray, block: int
    ) -> tuple[np.ndarray, str, str]:
        """The objectives of a block, what plug-ins have printed, and the arithmetic of this process."""
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            try:
                stacked = _stacked(trials)
                _own_code(frozenset(used_plug_ins([stacked]))).require(code, stacked)
                objectives = _population(stacked).block(stacked, distribution, step, block)
                return objectives, printed.getvalue(), arithmetic.own()
            except (OtherCodeError, jax.errors.JaxRuntimeError):  # of this node, or of its memory
                raise
            except Exception as error:
                raise PluginRaised(f"{type(error).__name__}: {reason(error)}") from None


@functools.cache
def _own_code(loaded: frozenset[tuple[plugins.Kind, str]]) -> Code:
    """The code of this process once these plug-ins are loaded."""
    jax_settings.put_back()  # the environment of this node may have changed one
    return fingerprint.captured()


def _values_of_lanes(stacked: Trial) -> tuple[bytes, ...]:
    """The traced values of each lane, which tell its trial from the others."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(stacked)]
    return tuple(b"".join(leaf[lane].tobytes() for leaf in leaves) for lane in range(len(leaves[0])))


@functools.lru_cache(maxsize=STACKS)
def _stacked(trials: str) -> Any:
    return stack([trial_of(trial) for trial in json.loads(trials)])


def _population(stacked: Trial) -> trainer.Population:
    """How blocks of these trials are computed in a process."""
    population = trainer_of(stacked).population
    assert population is not None  # or nobody asks for one
    return population


class Population:
    """Workers that evaluate populations; an `Evaluator` for each pack is made by `evaluator`."""

    def __init__(self, workers: int, environment: Mapping[str, str], group: PlacementGroup, first_bundle: int):
        """Start the workers, of one core each; the bundle of the first in the placement group has this index.

        Their environment is added to the environment of the job.
        """
        variables = {"env_vars": dict(environment) | {"JAX_PLATFORMS": "cpu"}}
        actor = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)(_Worker)
        places = [PlacementGroupSchedulingStrategy(group, first_bundle + index) for index in range(workers)]
        self._workers: list[Any] = [
            actor.options(runtime_env=variables, scheduling_strategy=place).remote() for place in places
        ]

    def evaluator(self, trials: tuple[Trial, ...], code: Code) -> Evaluator:
        """The evaluator of a pack with these trials; a worker with other code raises an `OtherCodeError` in it.

        A run may train some of the trials: those that were pending, or those that fit into the memory of a device.
        """
        by_values = dict(zip(_values_of_lanes(stack(trials)), trials, strict=True))

        @functools.lru_cache(maxsize=STACKS)
        def text_of(values: tuple[bytes, ...]) -> Any:
            return ray.put(json.dumps([canonical(by_values[lane]) for lane in values]))

        def evaluate(stacked: Trial, distribution: PyTree, step: np.ndarray) -> list[np.ndarray]:
            text = text_of(_values_of_lanes(stacked))
            shared = ray.put(jax.tree.map(np.asarray, distribution))
            waiting = list(range(_population(stacked).blocks(stacked)))[::-1]
            running: dict[Any, tuple[int, Any]] = {}
            results: dict[int, np.ndarray] = {}
            free = list(self._workers)
            while waiting or running:
                while waiting and free:
                    worker, block = free.pop(), waiting.pop()
                    running[worker.objectives.remote(text, code, shared, step, block)] = (block, worker)
                done, _ = ray.wait(list(running))
                for reference in done:
                    block, worker = running.pop(reference)
                    try:
                        results[block], printed, its_arithmetic = ray.get(reference)
                    except (OtherCodeError, PluginRaised) as error:
                        # Without the traceback that Ray puts around the message.
                        known = OtherCodeError if isinstance(error, OtherCodeError) else PluginRaised
                        raise known(str(getattr(error, "cause", error))) from None
                    arithmetic.note([its_arithmetic])
                    if printed:
                        print(printed, end="")  # into the report of this process
                    free.append(worker)
            return [results[block] for block in range(len(results))]

        return evaluate

    def close(self) -> None:
        for worker in self._workers:
            ray.kill(worker)
