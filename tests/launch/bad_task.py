"""The task `bad`, which does in its workers what tasks should not do."""

from pathlib import Path

from sweeper.learned_algorithms.trial_spec import TrialSpec
from tests.trials import coloring_trial

TEXT = '''
"""Colouring whose workers may do something else than to compute losses; its seeds r are scaled by computed numbers."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Literal

import jax
import numpy as np

from tasks import coloring

# Sums that XLA and numpy cut into other parts if there is a second thread.
A = np.random.default_rng(0).normal(size=(2000, 300)).astype(np.float32)
X = jax.random.normal(jax.random.key(0), (2000, 300))
PARTS = np.concatenate([(A.T @ A).ravel(), np.ravel(X.T @ X), X.sum(0), (X * X).sum(0)])
SCALES = (0.5 + np.mod(PARTS * 2.0**12, 1)).astype(np.float32)  # of last bits


class Own(Exception):
    pass


class Mute(Exception):
    def __str__(self):
        return None


class Task(coloring.Task):
    name: Literal["bad"] = "bad"
    does: Literal["well", "open", "own", "mute", "die", "hang"] = "well"

    def sample_seeds(self, key, count):
        return super().sample_seeds(key, count) * SCALES.mean()

    def losses(self, network, inputs, seeds):
        if "SWEEPER_WORKER" not in os.environ:  # the start checks the task
            return super().losses(network, inputs, seeds)
        print("a task speaks")
        match self.does:
            case "open":
                open("/nowhere/doors.json")
            case "own":
                raise Own("several lines:\\n\\udcffthe reason")
            case "mute":
                raise Mute
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                Path(HUNG, str(os.getpid())).touch()
                while True:
                    time.sleep(1)
        return super().losses(network, inputs, seeds)
'''


def text(hung: Path) -> str:
    """The file of the task; each process that hangs leaves a file in a folder."""
    return TEXT.replace("HUNG", repr(str(hung)))


def bad_trial(does: str, **changes: object) -> TrialSpec:
    return coloring_trial(**{"task": {"name": "bad", "vertices": 5, "does": does}, "steps": 50, **changes})
