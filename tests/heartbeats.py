"""heartbeats of drivers."""

import os
import secrets
import socket
import time

from sweeper.listeners.heartbeats import Heartbeat, process_space

PACK = {
    "pack": "coloring Aq_R", "lanes": 4, "does": "training", "step": 100, "of": 250, "loss": 0.25, "node": "seven",
    "nothing new for": None,
}  # fmt: skip


def heartbeat(**changes):
    """A heartbeat of this process as a driver; `changes` replace fields."""
    fields = {
        "driver": secrets.token_hex(8), "host": socket.gethostname(), "pid": os.getpid(),
        "processes": process_space(), "command": "python -m sweeper.run x.yaml",
        "state": "running", "line": "3/8 done · 4 running", "seconds_left": 300.0, "packs": [PACK],
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
