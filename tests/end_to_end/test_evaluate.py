"""The command `evaluate`, with real Ray: choose, evaluate, go on, and say what is missing."""

import pytest
from typer.testing import CliRunner

import sweeper
from sweeper.__main__ import app
from sweeper.analysis import sql
from sweeper.store.store import Store
from sweeper.trial.trial import trial_id
from tests.processes import python, told
from tests.results import result
from tests.tiny_sweeps import with_seeds

SPACE = (
    ("name: tiny" + with_seeds(2))
    .replace("q: 3", "q: {choice: [3, 10]}")
    .replace("steps: 300", "steps: 20")
    .replace("votes: [3]", "votes: [5]")
)


@pytest.mark.long
def test_networks_are_evaluated_by_space_by_condition_and_by_id(tmp_path):
    """Two of the commands have something to evaluate, and so start Ray, in a process of their own."""
    space, results = tmp_path / "tiny.yaml", ("--results", tmp_path / "results")
    space.write_text(SPACE)
    assert sweeper.train(sweeper.plan(space, results[1]), in_process=True).complete
    store = Store.open(results[1])
    protocol = ("--set", "evaluation.seeds=40", "--set", "evaluation.votes=[1,5,20]")
    said = told("evaluate", space, *protocol, *results, "--dry-run").stdout
    assert said == "tiny: 4 networks · 0 evaluated · 4 to evaluate\n"

    done = python("-m", "sweeper", "evaluate", "--where", "q = 3", *protocol, *results)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 networks evaluated" in done.stdout
    done = python("-m", "sweeper", "evaluate", space, *protocol, *results)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tiny: 4 networks · 2 evaluated · 2 to evaluate" in done.stdout
    columns = "q, seed, evaluation_seeds, evaluation_votes, majority_20"
    rows = sql.table(f"select {columns} from evaluations order by q, seed", store).to_pylist()
    assert [(row["q"], row["seed"], row["evaluation_seeds"], row["evaluation_votes"]) for row in rows] == [
        (q, seed, 40, [1, 5, 20]) for q in (3, 10) for seed in (0, 1)
    ]
    assert all(0 <= row["majority_20"] <= 1 for row in rows)

    ids = sql.frame("select trial_id from trials order by trial_id", store)["trial_id"].tolist()
    assert "4 evaluated · 0 to evaluate" in told("evaluate", *ids, *protocol, *results).stdout
    assert len(store.committed()) == 4, "the trials are as they were"

    without = result({"seed": 9}, network=None)
    store.commit(without)
    said = told("evaluate", trial_id(without.trial), ids[1], *protocol, *results).stdout
    assert "left out: 1 trial (has no network" in said


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        (["0" * 20, "--where", "q = 1"], "--where"),
        (["no/such.yaml"], "no/such.yaml"),
        (["--where", "nothing = 1"], "nothing"),
        (["--where", "q = 3", "--set", "evaluation.seeds=5", "--set", "evaluation.votes=[10]"], "10"),
        (["--where", "q = 3", "--set", "evaluation.doors=3"], "doors"),
    ],
)
def test_input_that_makes_no_sense_is_refused(local, arguments, place):
    local.commit(result())
    done = CliRunner().invoke(app, ["evaluate", *arguments, "--results", local.root])
    assert done.exit_code == 2
    assert place in done.output
    assert isinstance(done.exception, SystemExit), "no traceback"
