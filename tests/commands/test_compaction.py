"""`compaction` says how many trials it moved, and that there is no store."""

from typer.testing import CliRunner

from sweeper.compaction import app
from sweeper.store import compaction
from tests.filled_stores import filled


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(compaction, "TOGETHER", 2)
    results = filled(tmp_path / "results")
    told = CliRunner().invoke(app, ["--results", results.url])
    assert (told.exit_code, told.output) == (0, "4 trials moved into 2 compacted files\n")
    told = CliRunner().invoke(app, ["--results", str(tmp_path / "nowhere")])
    assert told.exit_code == 2
    assert "there is no results store" in told.output
