"""Compiles the programs of packs into jax's persistent cache, in a process of its own, before workers need them.

    python -m sweeper.packs.compilation_ahead < PACKS

The first line of the input is a JSON list with a trial, the number of lanes and a file for each pack. The empty file is
made when the programs of the pack are compiled. The process ends when all programs are, or when its input is closed, as
it is when the process that started this one ends. Nothing is trained or printed.
"""

import json
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import jax

from sweeper.packs.packing import Pack, stack
from sweeper.training import evaluation
from sweeper.training.trainers import trainer_of
from sweeper.trial.trial_spec import TrialSpec, canonical


def encoded(packs: Mapping[Path, Pack]) -> bytes:
    """The input for these packs, each with its file."""
    entries = [(canonical(pack.trials[0]), len(pack.trials), str(file)) for file, pack in packs.items()]
    return json.dumps(entries).encode() + b"\n"


def compile_programs(trial: TrialSpec, lanes: int) -> None:
    """Compile what the training and the evaluation of a pack run, in the order in which a worker needs the programs."""
    state = trainer_of(trial).prepare(stack([trial] * lanes))
    network = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), state.network)
    evaluation.program(trial, network)


def main() -> None:
    packs = json.loads(sys.stdin.buffer.readline())

    def end_with_the_input() -> None:
        sys.stdin.buffer.read()
        os._exit(0)

    threading.Thread(target=end_with_the_input, daemon=True).start()
    for trial, lanes, file in packs:
        compile_programs(TrialSpec.model_validate(trial), lanes)
        Path(file).touch()


if __name__ == "__main__":
    main()
