"""Whole packs in the process of a test."""

from sweeper.events import PackProgressed
from sweeper.packs.pack_run import Destination, PackRun
from sweeper.packs.packing import Pack


def run_pack(pack: Pack, destination: Destination) -> PackProgressed:
    """Run a whole pack and commit every trial of it."""
    run = PackRun(pack, pack.trial_ids, destination)
    while (progress := run.advance()).phase != "done":
        pass
    return progress
