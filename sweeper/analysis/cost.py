"""Estimates of the cost of pending trials: from rows of similar trials, or by timing a few trials on this machine.

Trials of one shape have the same programs, but for their number of steps. They cost the same for every step and every
evaluation. The cost of a shape is read from its rows in the store. Shapes without rows are timed, those with the most
work first, until some seconds have passed (`patience`); the rest is estimated by the average of the other shapes.

Times are CPU seconds of this process without compilation, so that a busy machine gives nearly the same numbers as an
idle one. Lanes take turns on a CPU, so a trial in a pack takes as long as a trial alone.
"""

import collections
import contextlib
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import pyarrow as pa
from pydantic import ValidationError

from sweeper.messages import counted, duration
from sweeper.packs.packing import lane, shape, stack
from sweeper.progress import doing
from sweeper.store.store import Store
from sweeper.training import compilation
from sweeper.training.kind import kind_of
from sweeper.trial import plugins
from sweeper.trial.trial import Trial, trial_of

PATIENCE_SECONDS = 20.0  # after this time no further shape is timed
LEAST_SECONDS = 0.3  # of training are timed at least, unless the whole training takes less


class Timing(NamedTuple):
    """CPU seconds of a trial on one core."""

    step: float  # of one training step; of one generation, where a population is trained
    evaluation: float


def estimate(
    store: Store,
    trials: Iterable[Trial],
    timed: Callable[[Trial], Timing] | None = None,
    patience: float = PATIENCE_SECONDS,
) -> str:
    """The cost of trials in words: seconds of one worker, and where the estimate comes from.

    The cost of a shape is the median over its rows of the seconds of a step, and of an evaluation. `timed` times a
    trial on this machine; it is None if workers run on machines of another kind.
    """
    by_shape: dict[Any, list[Trial]] = defaultdict(list)
    for trial in trials:
        by_shape[shape(trial)].append(trial)
    if not by_shape:
        return "nothing to run"
    rows = _of_rows(store, by_shape)
    unknown = {key: own for key, own in by_shape.items() if key not in rows}
    sources = {"by rows of the store": rows}
    if timed is not None:
        here = sources["by steps timed here"] = _timed_here(unknown, timed, patience)
        average = _each(statistics.fmean, [*rows.values(), *here.values()])
        sources["taken to cost the same"] = dict.fromkeys(unknown.keys() - here, average)
    timings = dict(collections.ChainMap(*sources.values()))
    if not timings:
        return "unknown, the store has no trial of this structure yet"
    seconds = sum(
        trial.steps * timing.step + timing.evaluation for key, timing in timings.items() for trial in by_shape[key]
    )

    def number(shapes: Iterable[Any]) -> str:
        return counted(sum(len(by_shape[key]) for key in shapes), "trial")

    sentence = f"about {duration(seconds)} of one worker"
    if timed and unknown:
        return f"{sentence} ({', '.join(f'{number(shapes)} {how}' for how, shapes in sources.items() if shapes)})"
    return f"{sentence}, and {number(unknown)} of unknown cost" if unknown else sentence


def _timed_here(
    by_shape: Mapping[Any, list[Trial]], timed: Callable[[Trial], Timing], patience: float
) -> dict[Any, Timing]:
    """Timings of the first trials of shapes, of the shape with the most work at least."""
    timings, begun = dict[Any, Timing](), time.monotonic()
    for key, trials in sorted(by_shape.items(), key=lambda item: -sum(trial.work for trial in item[1])):
        if timings and time.monotonic() - begun > patience:
            break
        with doing(f"timing some steps of {trials[0].words}"):
            timings[key] = timed(trials[0])
    return timings


def _each(average: Callable[[Iterable[float]], float], timings: Iterable[Timing]) -> Timing:
    """The average of the seconds of a step, and of those of an evaluation."""
    return Timing(*map(average, zip(*timings, strict=True)))


def _measured(trials: pa.Table, column: str) -> list[dict[str, Any]]:
    """This column, the steps and both seconds of the rows that say what training and evaluation took."""
    times = ["steps_done", "train_seconds", "evaluation_seconds"]
    return [row for row in trials.select([column, *times]).to_pylist() if all(row[name] for name in times)]


def _of_rows(store: Store, shapes: Collection[Any]) -> dict[Any, Timing]:
    rows: dict[Any, list[Timing]] = defaultdict(list)
    for row in _measured(store.trials(), "spec"):
        # A plug-in may be gone, or have other fields.
        with contextlib.suppress(plugins.PluginError, ValidationError):
            own = shape(trial_of(json.loads(row["spec"])))
            rows[own].append(Timing(row["train_seconds"] / row["steps_done"], row["evaluation_seconds"]))
    return {key: _each(statistics.median, timings) for key, timings in rows.items() if key in shapes}


# Timing


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
