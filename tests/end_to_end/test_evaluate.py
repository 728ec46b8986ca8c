"""The command `evaluate`, with real Ray: choose, evaluate, go on, and say what is missing."""

import pytest
from typer.testing import CliRunner

from sweeper.analysis import sql
from sweeper.commands import evaluate
from sweeper.store.store import Store
from sweeper.trial.trial import trial_id
from tests.processes import python
from tests.results import result
from tests.tiny_sweeps import with_seeds

SPACE = (
    ("name: tiny" + with_seeds(2))
    .replace("q: 3", "q: {choice: [3, 10]}")
    .replace("steps: 300", "steps: 20")
    .replace("votes: [3]", "votes: [5]")
)


def command(name, *arguments):
    return python("-m", "sweeper", name, *arguments)


@pytest.mark.long
def test_networks_are_evaluated_by_space_by_condition_and_by_id(tmp_path):
    space, results = tmp_path / "tiny.yaml", ("--results", tmp_path / "results")
    space.write_text(SPACE)
    done = command("run", space, *results)
    assert done.returncode == 0, done.stdout + done.stderr
    store = Store.open(results[1])
    protocol = ("--seeds", 40, "--votes", "1,5,20")
    told = command("evaluate", space, *protocol, *results, "--dry-run")
    assert (told.returncode, told.stdout) == (0, "tiny: 4 networks · 0 evaluated · 4 to evaluate\n")

    told = command("evaluate", "--where", "q = 3", *protocol, *results)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "2 networks evaluated" in told.stdout
    told = command("evaluate", space, *protocol, *results)
    assert told.returncode == 0, told.stdout + told.stderr
    assert "tiny: 4 networks · 2 evaluated · 2 to evaluate" in told.stdout
    columns = "q, seed, evaluation_seeds, evaluation_votes, majority_20"
    rows = sql.table(f"select {columns} from evaluations order by q, seed", store).to_pylist()
    assert [(row["q"], row["seed"], row["evaluation_seeds"], row["evaluation_votes"]) for row in rows] == [
        (q, seed, 40, [1, 5, 20]) for q in (3, 10) for seed in (0, 1)
    ]
    assert all(0 <= row["majority_20"] <= 1 for row in rows)

    ids = sql.frame("select trial_id from trials order by trial_id", store)["trial_id"].tolist()
    told = command("evaluate", *ids, *protocol, *results)
    assert "4 evaluated · 0 to evaluate" in told.stdout, "nothing is left, and no cluster is started"
    assert told.returncode == 0
    assert len(store.committed()) == 4, "the trials are as they were"

    without = result({"seed": 9}, network=None)
    store.commit(without)
    told = command("evaluate", trial_id(without.trial), ids[1], "--seeds", 30, "--votes", "30", *results)
    assert told.returncode == 0
    assert "left out: 1 trial (has no network" in told.stdout
    assert "resources.networks: false" in told.stdout


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ([], "--where"),
        (["0" * 20, "--where", "q = 1"], "--where"),
        (["no/such.yaml"], "no/such.yaml"),
        (["--where", "nothing = 1"], "nothing"),
        (["--where", "true) union all (select sweep from sweeps"], "--where"),
        (["--where", "q = 3", "--seeds", "5", "--votes", "10"], "10"),
        (["--where", "q = 3", "--votes", "1,x"], "--votes"),
    ],
)
def test_input_that_makes_no_sense_is_refused(local, arguments, place):
    local.commit(result())
    done = CliRunner().invoke(evaluate.app, [*arguments, "--results", local.root])
    assert done.exit_code == 2
    assert place in done.output
    assert isinstance(done.exception, SystemExit), "no traceback"
