"""Small trials that tests train in seconds."""

from typing import Any

from sweeper.learned_algorithms.trial_spec import TrialSpec


def coloring_trial(**changes: Any) -> TrialSpec:
    """Cycles of five vertices, a narrow network of one block, three strides of training.

    What a test pays for is compilation, whatever the sizes. So the steps are a multiple of a stride, or there would be
    a program for the last one, and all tests share this structure; `changes` replace top-level fields.
    """
    fields: dict[str, Any] = {
        "task": {"name": "coloring", "vertices": 5},
        "model": {"name": "transformer", "blocks": 1, "width": 4, "key_size": 4},
        "baseline": "Aq_R", "objective": {"q": 3.0, "m": 2}, "optimizer": {"warmup_steps": 10}, "steps": 300,
        "batch_size": 8, "evaluation": {"seeds": 10, "votes": [3]},
    }  # fmt: skip
    return TrialSpec.model_validate(fields | changes)
