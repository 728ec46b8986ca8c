"""Starts of a sweep in this process, of a search space whose trials are `tests.trials.coloring_trial`."""

from pathlib import Path

from sweeper.commands import run
from sweeper.interruption import Interruption

SPACE = """
trial:
  task: {name: coloring, vertices: 5}
  model: {name: transformer, blocks: 1, width: 4, key_size: 4}
  baseline: Aq_R
  objective: {q: 3, m: 2}
  optimizer: {warmup_steps: 10}
  steps: 300
  batch_size: 8
  evaluation: {seeds: 10, votes: [3]}
  seed: {seeds: 1}
"""

TIMINGS = {"steps_done": 300.0, "train_seconds": 2.0, "evaluation_seconds": 0.5}
"""Of rows by which a start can tell what its trials cost; a dry run of other rows times some steps."""


def with_seeds(count: int) -> str:
    """The space with so many training seeds."""
    return SPACE.replace("{seeds: 1}", f"{{seeds: {count}}}")


def start(
    space: Path, *overrides: str, dry_run: bool = False, results: str | None = None, trial: str | None = None
) -> int:
    """The exit code of `sweeper.run`; without `results` with the store `results` beside the space."""
    store, options = results or str(space.parent / "results"), {"overrides": overrides, "dry_run": dry_run}
    return run.start(space, store, Interruption(), trial=trial, **options)
