"""`compaction` copies what no snapshot has, and says how many trials these were."""

from tests.processes import refusal, told


def test_the_command(store, tmp_path):
    for trials in (6, 0):
        assert told("compact", "--results", store.url).output.startswith(f"{trials} trials ")
    assert len(store.listing("snapshots")) == 1
    assert "nowhere" in refusal("compact", "--results", tmp_path / "nowhere")
