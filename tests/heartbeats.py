"""heartbeats of drivers."""

import os
import secrets
import socket
import time

from sweeper.listeners.heartbeats import Heartbeat, PackProgress, process_space

PACK = PackProgress(
    label="coloring Aq_R", phase="training", step=100, steps=250, lanes=4, train_loss=0.25, node="seven"
)


def heartbeat(**changes):
    """A heartbeat of this process as a driver; `changes` replace fields."""
    fields = {
        "driver": secrets.token_hex(8), "host": socket.gethostname(), "pid": os.getpid(),
        "processes": process_space(), "command": "python -m sweeper.run x.yaml",
        "state": "running", "doing": "", "elapsed": 60.0, "trials": 8, "done": 3, "failed": 0,
        "steps_per_second": 1234.0, "seconds_left": 300.0, "running": 1, "packs": (PACK,),
    }  # fmt: skip
    return Heartbeat(**(fields | changes))


CONTAINER = {"processes": "of a container"}  # which may have the name of its host

ELSEWHERE = CONTAINER | {"host": "far"}

DEAD = {"pid": 2**22 + 1}  # no process has such a number


def until(condition):
    """The first true value of the condition."""
    while not (value := condition()):
        time.sleep(0.005)
    return value
