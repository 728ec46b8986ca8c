"""Sweeps and evaluations from plan to result, as functions that return values and emit events.

`sweeper.plan`, `sweeper.train` and `sweeper.evaluate` are these functions, and the commands call them.
"""
