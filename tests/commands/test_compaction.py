"""`compaction` says how many trials it copied, and that there is no store."""

from typer.testing import CliRunner

from sweeper.compaction import app
from tests.filled_stores import filled
from tests.processes import refusal


def test_the_command(tmp_path):
    results = filled(tmp_path / "results")
    for trials in (6, 0):
        told = CliRunner().invoke(app, ["--results", results.url])
        assert (told.exit_code, told.output) == (0, f"{trials} trials copied into a snapshot\n")
    assert len(results.listing("snapshots")) == 1
    assert "there is no results store" in refusal(app, "--results", tmp_path / "nowhere")
