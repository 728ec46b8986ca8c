"""Packs on Ray Tune: one Tune trial trains one pack, in a worker process that is used again for the next.

Tune places packs on the nodes of the cluster, replaces workers that died, and asks ASHA which packs fall behind. Tune
does not decide what is done: every start gives Tune a new list, and Tune's experiment state goes into a temporary
folder. A worker commits to the store first and reports then, so that a report may get lost at no cost.

Invariants:
    - No exception of Ray about a pack leaves this room. An exception inside a pack, or a worker that dies too often,
      becomes failed rows where packs are trained; trials that could not be committed are a `TrialsLost` of
      `sweeper.events`, and stay pending.
    - A worker has one thread that computes, and gets a GPU only if the pack asks for one; its environment
      says so before jax is imported.
    - After `connected` is left, no process that it started remains.

The driver gives Tune the work (`tune_driver`) and hears what becomes of it (`tune_callback`); workers do it
(`tune_worker`). Every private part of Ray is in `ray_internals`.
"""

from sweeper.launch import environment  # isort: skip  # before all that takes time to import, and before Ray
from sweeper.launch.cluster import connected, rehearsed
from sweeper.launch.job import Job, Launched, LaunchError, NetworkEvaluation, SetupError, Training

__all__ = [
    "Job",
    "LaunchError",
    "Launched",
    "NetworkEvaluation",
    "SetupError",
    "Training",
    "connected",
    "environment",
    "rehearsed",
]
