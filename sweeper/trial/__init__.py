"""Trials: records, the contracts of tasks and models, identity, plug-ins, provenance."""

import time

BEGAN = time.time()
"""When this process began to import code that says what a trial is."""
