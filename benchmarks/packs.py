"""How many packs a second the launch path takes when the packs themselves cost nothing.

    python -m benchmarks.packs [--packs 500,2000]

Every pack is real but has nothing pending, so its worker answers at once: what is left is Tune, the placement of the
pack, the reuse of its worker's process and the driver's loop. Uses a local Ray of its own; the first row also pays for
the start of the workers.
"""

import argparse
import io
import tempfile
import time

from rich.console import Console

from sweeper import launch
from sweeper.events import Stream, SweepPlanned
from sweeper.interruption import Interruption
from sweeper.listeners import views
from sweeper.packs import plan
from sweeper.packs.packing import Pack
from sweeper.space.resources import Resources
from sweeper.store.store import Store
from sweeper.trial import provenance
from sweeper.trial.trial_spec import TrialSpec

TRIAL = {
    "task": {"name": "coloring"},
    "model": {"name": "transformer"},
    "baseline": "Aq_R",
    "objective": {"q": 3.0, "m": 2},
    "steps": 1000,
}


def measure(packs: int) -> float:
    """Packs a second, for so many packs."""
    template = TrialSpec.model_validate(TRIAL)
    work = tuple(plan.Work(Pack((template.model_copy(update={"seed": seed}),)), ()) for seed in range(packs))
    source = plan.ListedWork(plan.Plan({}, {}, 1, packs, work, frozenset()))
    planned = SweepPlanned("benchmark", trials=packs, done=0, failed=0, steps=0)
    origin = provenance.capture("benchmark")
    heard = [views.LogLines(Console(file=io.StringIO()))]
    with tempfile.TemporaryDirectory() as folder, Stream(heard, warn=print) as stream:
        job = launch.Job(source, lambda: planned, Store.open(folder), origin, Resources(), launch.Training())
        begun = time.monotonic()
        launched = launch.launch(job, stream, Interruption())
        seconds = time.monotonic() - begun
    assert not launched.losses
    return packs / seconds


def main() -> None:
    """Print a row for each number of packs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packs", default="500,2000")
    arguments = parser.parse_args()
    print("| packs | packs a second |\n|---|---|")
    with launch.connected("local", Resources(), Interruption()):
        for packs in map(int, arguments.packs.split(",")):
            print(f"| {packs:,} | {measure(packs):.1f} |", flush=True)


if __name__ == "__main__":
    main()
