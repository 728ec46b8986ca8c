"""Small trials that tests train in seconds."""

from typing import Any

from sweeper.trial.trial_spec import TrialSpec


def coloring_trial(**changes: Any) -> TrialSpec:
    """Cycles of five vertices, a narrow network, a few hundred steps; `changes` replace top-level fields."""
    fields: dict[str, Any] = {
        "task": {"name": "coloring", "vertices": 5}, "model": {"name": "transformer", "width": 4, "key_size": 4},
        "baseline": "Aq_R", "objective": {"q": 3.0, "m": 2}, "optimizer": {"warmup_steps": 10}, "steps": 250,
        "batch_size": 8, "evaluation": {"seeds": 10, "votes": [3]},
    }  # fmt: skip
    return TrialSpec.model_validate(fields | changes)
