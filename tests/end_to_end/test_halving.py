"""A successive halving on Ray, killed and started again: the rows of a run that nothing disturbed."""

import os
import signal

import pytest

from sweeper.store.store import Store
from tests.end_to_end.sweep_process import Command, copy_checkout, curves, science, until
from tests.tiny_sweeps import with_seeds

SPACE = (
    with_seeds(2).replace("steps: 250", "steps: 6000")
    + """
search: {method: halving, starts: 4, rungs: [{steps: 2000, keep: 2}, {steps: 4000, keep: 1}]}
resources: {checkpoint_seconds: 0.2}
"""
)

pytestmark = [pytest.mark.long, pytest.mark.exhaustive]


def _kill(command: Command, store: Store, checkpoints: int, rows: int) -> None:
    """Kill a driver when there are so many checkpoints and rows, and wait for the end of its workers."""
    command.until(
        lambda: (
            command.workers()
            and len(store.listing("checkpoints")) >= checkpoints
            and len(store.listing("trials")) >= rows
        )
    )
    os.kill(command.process.pid, signal.SIGKILL)
    command.process.wait()
    until(lambda: not any(b"ray::" in line for line in command.remaining()))


def test_a_halving_killed_at_its_rungs_ends_as_if_nothing_had_happened(tmp_path):
    checkout = tmp_path
    copy_checkout(checkout)
    (checkout / "halving.yaml").write_text(SPACE)

    def command(results: str) -> Command:
        return Command(checkout, "halving.yaml", "--results", results, "--address", "local")

    code, text = command("undisturbed").wait()
    assert code == 0, text
    assert "halving: 2 searches of 4 trials · 1 cell" in text
    assert "8 of 8 trials committed, 6 of them stopped early" in text
    assert "for 2 winners, all 8 trials included" in text

    store = Store.open(checkout / "killed")
    # While trials are on their way to the first rung, at the first rung, and after it.
    for checkpoints, rows in ((2, 0), (6, 0), (0, 3)):
        _kill(command("killed"), store, checkpoints, rows)
    code, text = command("killed").wait()
    assert code == 0, text
    assert "8 of 8 trials committed, 6 of them stopped early" in text
    assert science(checkout / "killed").equals(science(checkout / "undisturbed"))
    assert curves(checkout / "killed").equals(curves(checkout / "undisturbed"))
    assert not store.listing("checkpoints")
