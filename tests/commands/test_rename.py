"""`rename` says what the sweep is called now, and refuses names that are taken and sweeps that run."""

from typer.testing import CliRunner

from sweeper.commands import rename
from sweeper.listeners import heartbeats
from tests.filled_stores import filled
from tests.heartbeats import heartbeat
from tests.processes import refusal


def test_the_command(tmp_path):
    store = filled(tmp_path / "store")
    heartbeats.write_heartbeat(store.files, "other", heartbeat())
    done = CliRunner().invoke(rename.app, ["quick", "best", "--results", store.url])
    assert done.exit_code == 0
    assert done.output.startswith("quick is called best now; write `name: best` in its search space")
    for arguments, words in (
        (("other", "more"), "other runs: stop it first"),
        (("bets", "more"), "the store has no sweep 'bets'; did you mean 'best'?"),
        (("best", "best"), "called 'best' already"),
        (("best", "other"), "there is a sweep 'other' already"),
    ):
        assert words in refusal(rename.app, *arguments, "--results", store.url)
