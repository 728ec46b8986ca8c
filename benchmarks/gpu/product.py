"""The product itself on an accelerator: the whole of coloring.yaml, trained in this process and kept in a store."""

import tempfile
import time
from pathlib import Path

import jax

import sweeper

SPACE = Path("search_spaces/coloring.yaml")

OVERRIDES: dict[str, object] = {"resources.lanes": 64}
"""One program for all trials of a kind: the numbers of lanes are measured elsewhere."""

TOY: dict[str, object] = {
    "trial.task.vertices": 5,
    "trial.objective.q": {"choice": [1, 10]},
    "trial.steps": 20,
    "trial.batch_size": 4,
    "trial.evaluation": {"seeds": 40, "votes": [5, 30]},
    "trial.seed": {"seeds": 2},
}

SECONDS_FOR_THE_TABLE = 20


def print_product(toy: bool, until: float) -> bool:
    """Print the table of the sweep and its seconds; whether all of it was trained.

    The sweep ends as after Ctrl-C when the time is over, by a limit of its own.
    """
    begun = time.monotonic()
    room = min(max(1.0, until - begun - SECONDS_FOR_THE_TABLE), 86_400.0)
    with tempfile.TemporaryDirectory() as results:
        space = sweeper.read_space(SPACE, {**OVERRIDES, **(TOY if toy else {}), "limits.hours": room / 3600})
        plan = sweeper.plan(space, results)
        print(plan, flush=True)
        result = sweeper.train(plan, in_process=True)
        seconds = time.monotonic() - begun
        print(result)
        finished = result.trials[result.trials["status"] == "finished"]
        print(
            f"\n{SPACE.name}: {len(finished):,} of {len(plan.trials):,} trials in {seconds:,.0f} s on one "
            f"{jax.devices()[0].device_kind}, compilation and evaluation included.\n"
        )
    return result.complete
