"""A bare worker process: `python -m chaos.pack STORE WITNESS` trains one pack and writes down every stride it makes.

The witness gets a line `start STEP` with the step at which training began or went on, `step STEP SECONDS` after every
stride with the training time of this process so far, and `done` at the end. A later start is compared with the lines
of the process that was killed.
"""

import sys
import time
from pathlib import Path

from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.packs import pack_run
from sweeper.packs.packing import Pack
from sweeper.store.store import Store
from sweeper.trial import provenance

CHECKPOINT_SECONDS = 0.5


def trials(steps: int) -> tuple[TrialSpec, ...]:
    """The lanes of the pack."""
    fields = {
        "task": {"name": "coloring", "vertices": 5},
        "model": {"name": "transformer", "width": 4, "key_size": 4},
        "baseline": "Aq_R",
        "objective": {"q": 3.0, "m": 2},
        "optimizer": {"warmup_steps": 10},
        "steps": steps,
        "batch_size": 8,
        "evaluation": {"seeds": 10, "votes": [5]},
    }
    return tuple(TrialSpec.model_validate(fields | {"seed": seed}) for seed in range(3))


def main(results: str, witness: Path, steps: int) -> None:
    """Train the pending trials of the pack."""
    store, pack = Store.open(results), Pack(trials(steps))
    committed = store.committed()
    pending = [name for name in pack.trial_ids if name not in committed]
    with witness.open("a", buffering=1) as lines:
        if pending:
            destination = pack_run.Destination(store, provenance.capture("chaos"), CHECKPOINT_SECONDS)
            run = pack_run.PackRun(pack, pending, destination)
            begun = time.monotonic()
            lines.write(f"start {run.progress().step}\n")
            while (progress := run.advance()).phase != "done":
                lines.write(f"step {progress.step} {time.monotonic() - begun:.3f}\n")
        lines.write("done\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
