"""The product itself on an accelerator: the whole of coloring.yaml, trained in this process and kept in a store."""

import tempfile
import time
from pathlib import Path

import jax
import pandas as pd

import sweeper
from sweeper.store.store import Store

SPACE, SHORTER = Path("search_spaces/coloring.yaml"), Path("search_spaces/coloring_two_cores.yaml")
"""What is trained, and a space with fewer steps. The trials of the second are in `published/`."""

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
    """Print the table of the sweep and its seconds, beside the success in `published/`; whether all of it was trained.

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
        if len(finished):
            print(_beside_published(finished))
    return result.complete


def _beside_published(finished: pd.DataFrame) -> str:
    """A table of success by model and q: mean and range over training seeds, here and in `published/`."""
    store = Store.existing("published")
    shorter = sweeper.plan(SHORTER, store.url)
    rows = store.trials(list(shorter.trials)).to_pandas()
    lines = ["| model | q | steps | success, % | steps in published/ | success there, % |", "|---|---|---|---|---|---|"]
    for (baseline, q), here in finished.groupby(["baseline", "q"]):
        # A^E is A^q at q = 1.
        there = rows[(rows["baseline"] == str(baseline).replace("AE", "Aq")) & (rows["q"] == q)]
        lines.append(f"| {baseline} | {q:g} | {_steps_and_success(here)} | {_steps_and_success(there)} |")
    return "\n".join(lines) + "\n"


def _steps_and_success(rows: pd.DataFrame) -> str:
    if rows.empty:
        return "none | none"
    success = 100 * rows["success"]
    steps = ", ".join(f"{steps:,}" for steps in sorted(rows["steps"].unique()))
    return f"{steps} | {success.mean():.1f} ({success.min():.1f} to {success.max():.1f})"
