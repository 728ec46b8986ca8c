"""How long a trial takes on this machine, by timing some steps of its training and one evaluation.

Times are CPU seconds of this process without compilation, so that a busy machine gives nearly the same numbers as an
idle one. Lanes take turns on a CPU, so a trial in a pack takes as long as a trial alone.
"""

import time
from typing import NamedTuple

import jax

from sweeper.packs.packing import lane, stack
from sweeper.training import compilation
from sweeper.training.kinds import kind_of
from sweeper.trial.trial import Trial

LEAST_SECONDS = 0.3
"""CPU seconds of training that are timed at least, unless the whole training takes less."""


class Timing(NamedTuple):
    """CPU seconds of a trial on one core."""

    step: float  # of one training step; of one generation, where a population is trained
    evaluation: float


def timed(trial: Trial, least_seconds: float = LEAST_SECONDS) -> Timing:
    """Train a trial for so many seconds at least and evaluate the network, in this process; nothing is stored.

    Compiles two or three programs, which takes about ten seconds.
    """
    kind, trials = kind_of(trial), stack([trial])
    trainer = kind.trainer(trial)
    length = min(trainer.stride_steps, trial.steps)
    state = trainer.start(trials)
    steps, begun = 0, _working_seconds()
    while steps == 0 or (steps + length <= trial.steps and _working_seconds() - begun < least_seconds):
        state, curve = trainer.stride(trials, state, length)
        jax.block_until_ready((state, curve))
        steps += length
    trained = _working_seconds()
    kind.evaluate(trial, lane(state.network, 0), steps)
    return Timing((trained - begun) / steps, _working_seconds() - trained)


def _working_seconds() -> float:
    """CPU time of this process, less that of compilation."""
    return time.process_time() - compilation.cpu_seconds()
