"""`rename` says what the sweep is called now, and refuses names that are taken and sweeps that run."""

from typer.testing import CliRunner

from sweeper.commands import rename
from sweeper.listeners import heartbeats
from tests.filled_stores import filled
from tests.heartbeats import heartbeat


def run(store, *arguments):
    return CliRunner().invoke(rename.app, [*arguments, "--results", store.url])


def test_the_command(tmp_path):
    store = filled(tmp_path / "store")
    heartbeats.write_heartbeat(store.files, "other", heartbeat())
    done = run(store, "quick", "best")
    assert done.exit_code == 0
    assert done.output.startswith("quick is called best now; write `name: best` in its search space")
    for arguments, words in (
        (("other", "more"), "other runs: stop it first"),
        (("bets", "more"), "the store has no sweep 'bets'; did you mean 'best'?"),
        (("best", "best"), "called 'best' already"),
        (("best", "other"), "there is a sweep 'other' already"),
    ):
        done = run(store, *arguments)
        assert done.exit_code == 2
        assert words in done.output
