"""What a worker process sets before its imports; `sweeper.launch` imports this module before all others."""

import gc
import os

WORKER_VARIABLE = "SWEEPER_WORKER"
"""The environment variable by which a worker process is known."""

if os.environ.get(WORKER_VARIABLE):
    # As in commands (`sweeper.command_line`): Python would look through all that imports and traces make again and
    # again, a fifth of the time of the imports.
    gc.set_threshold(100_000)
