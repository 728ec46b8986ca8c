"""`compaction` copies what no snapshot has, and says how many trials these were."""

from sweeper.commands.compaction import app
from tests.processes import refusal, told


def test_the_command(store, tmp_path):
    for trials in (6, 0):
        assert told(app, "--results", store.url).output.startswith(f"{trials} trials ")
    assert len(store.listing("snapshots")) == 1
    assert "nowhere" in refusal(app, "--results", tmp_path / "nowhere")
