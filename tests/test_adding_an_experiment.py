"""`sweeper new experiment`, and docs/adding-an-experiment.md block by block, in a folder outside the checkout."""

import re
import shlex
from pathlib import Path

import pytest

import sweeper
from sweeper.space import search_space
from tests import guides

GUIDE = guides.DOCS / "adding-an-experiment.md"
FILE, SPACE = Path("experiments/sine.py"), Path("search_spaces/sine.yaml")
RUN = f"sweeper run {SPACE}"


@pytest.fixture
def folder(project):
    """The folder in which commands are given."""
    yield project
    guides.forget("experiments.sine")


def test_the_guide_shows_what_is_written_and_it_is_clean(folder):
    guides.run("sweeper new experiment sine")
    _, shown = guides.blocks("python", GUIDE)[0].split("its first state\n\n")
    assert shown in FILE.read_text()
    assert guides.blocks("python", GUIDE)[2] in FILE.read_text()
    assert SPACE.read_text() == guides.blocks("yaml", GUIDE)[0]
    guides.check_style("experiments")
    _edit()
    guides.check_style("experiments")


@pytest.mark.long  # trains twice, draws, and checks the contract
def test_the_guide_runs_from_nothing_to_a_figure(folder, capfd):
    """Its commands `sweeper run` train in this process here: the tests of whole sweeps start Ray."""
    said = ""
    for number, text in enumerate(guides.blocks("console", GUIDE)[:-2]):
        if number == 2:
            _edit()
        for command, expected in guides.commands(text):
            if command == RUN:
                said = guides.trained(str(SPACE), 200)
            elif "start_from" in command:
                ids = sweeper.sql("select trial_id from trials where status = 'finished'")["trial_id"]
                wide = next(key for key in ids if sweeper.load(key).trial.experiment.width == 32)
                written = [word for word in shlex.split(command.replace("=ID", f"='{wide}'")) if "=" in word]
                said = str(sweeper.train(sweeper.plan(search_space.read(SPACE, written)), in_process=True))
            elif "TRIAL" in command:
                (trial, *_) = re.findall(r"[0-9a-f]{20}", said)
                said = guides.run(command.replace("TRIAL", trial[:8]) + " --set trial.steps=200")
                assert said.splitlines()[-1] == "finished"
            else:
                said = guides.run(command)
            assert all(line in said for line in expected), said
    figure = Path("results/figures/sine/error while training.png")
    assert figure.stat().st_size > 1000
    rows = sweeper.sql("select task_version, count(*) as trials from all_trials group by all order by all")
    assert rows.to_numpy().tolist() == [[1, 18], [2, 27]], "of these nine started from networks"
    exec(guides.blocks("python", GUIDE)[1])


@pytest.mark.long  # trains two sweeps
def test_the_network_of_flax_and_its_student_are_written_and_trained(folder):
    network, data, student = guides.blocks("python", GUIDE)[3:]
    for name in ("experiments", "search_spaces"):
        Path(name).mkdir()
    for name, text in (("stripes", network), ("student", student)):
        Path(f"experiments/{name}.py").write_text(text)
    for text in guides.blocks("yaml", GUIDE)[2:]:
        first, rest = text.split("\n", 1)
        Path(first.removeprefix("# ")).write_text(rest)
    exec(data)
    for command, expected in (each for text in guides.blocks("console", GUIDE)[-2:] for each in guides.commands(text)):
        said = guides.trained(command.split()[-1], 500) if command.startswith("sweeper run") else guides.run(command)
        assert all(line in said for line in expected), said
    accuracies = sweeper.sql("select avg(accuracy) as mean from trials group by task")["mean"]
    assert len(accuracies) == 2
    assert min(accuracies) > 0.6, "one half is chance"
    guides.forget("experiments.stripes", "experiments.student")


def _edit() -> None:
    """What the guide asks its reader to do by hand."""
    (difference,), (_, lines, *_) = guides.blocks("diff", GUIDE), guides.blocks("yaml", GUIDE)
    text = guides.patched(FILE.read_text(), difference)
    FILE.write_text(text.replace("import optax\n", "import optax\nfrom pydantic import Field\n"))
    written = "    learning_rate: {choice: [1e-3, 1e-2, 1e-1]}\n"
    space = SPACE.read_text()
    assert written in space
    SPACE.write_text(
        space.replace(written, lines).replace("split: experiment_learning_rate", "split: experiment_optimizer_name")
    )
    guides.forget("experiments.sine")
