"""Packs on Ray Tune: one Tune trial trains one pack, in a worker process that is used again for the next.

Tune places packs on whatever there is, starts workers again that died, and asks ASHA who falls behind. It is not asked
what has been done: every start hands it a new list, and its own experiment state goes into a folder that is thrown
away. A worker commits to the store first and reports then, so that a report may get lost at no cost.

Driver and workers talk in three ways. Work goes out as a Tune configuration: the pack's trials as plain JSON and the
ids still pending. Progress comes back as Tune results, about one a second. Orders (checkpoint and leave; stop early)
wait with a small actor that every worker asks between two chunks, because Tune's own way to stop a trial cannot tell
the two apart and kills what does not stop in time.

Invariants:
    - Nothing that happens to a pack leaves this module as an exception of Ray. An exception inside a pack, or a worker
      that dies too often, becomes failed rows; whatever could not be committed is told as a `Loss`, and stays pending.
    - A worker gets as many threads as its pack has cores, and a GPU only if the pack asks for one; its environment
      says so before jax is imported.
    - After `connected` is left, no process that it started remains.
"""

import os

# Ray reads this at its import: a paragraph about every dead worker would bury the line that says it.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "^")

from sweeper.launch.cluster import connected
from sweeper.launch.failures import LaunchError, Loss, TooLarge
from sweeper.launch.tune_driver import Launched, launch

__all__ = ["LaunchError", "Launched", "Loss", "TooLarge", "connected", "launch"]
