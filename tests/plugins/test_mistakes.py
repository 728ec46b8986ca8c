"""Natural mistakes in a new task, and what is said of each before the first step."""

import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sweeper.__main__ import app
from sweeper.commands.project import examples_of
from sweeper.learned_algorithms.checks import values
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.packs import conformance
from sweeper.store import trial_file
from sweeper.trial import jax_settings, plugins
from sweeper.trial.contract_checks import ContractError

LOSS = "return 1 - jax.nn.softmax(self._logits(network, x, r))[x.prize]"
CORRECT = "logits.argmax(axis=-1) == inputs.prize[:, None]"
OUTCOMES_LOSS = "loss=self.losses(network, inputs, seeds)"
ANSWERS = f"{OUTCOMES_LOSS}, answers=logits.argmax(axis=-1)[..., None]"
JUDGED = "lambda inputs, answers: answers != inputs.prize[:, None, None]"


def _able(ability: str) -> dict[str, str]:
    """The edit that gives the task an ability."""
    heading = "    # What it is judged by.\n"
    return {heading: f"{heading}\n    def abilities(self):\n        return contracts.Abilities({ability})\n"}


# Edits of the task, and the method to which the message points.
SHAPES = {
    "loss of every door": ({LOSS: LOSS.removesuffix("[x.prize]")}, "loss"),
    "transposed": ({CORRECT: f"({CORRECT}).T"}, "outcomes"),
    "token_size": ({"return self.doors + self.noise": "return self.doors"}, "loss"),
    "count": ({"(key, (count, self.noise)": "(key, (10, self.noise)"}, "sample_seeds"),
    "a misspelt field": ({"[x.prize]": "[x.price]"}, "loss"),
    "no outcomes": ({"return contracts.Outcomes(": "dict("}, "outcomes"),
    "a measure that abilities lacks": (
        {OUTCOMES_LOSS: f"{OUTCOMES_LOSS}, measures={{'doors': logits.max(axis=-1)}}"},
        "outcomes",
    ),
    "a curve called as a metric": (_able("curves={'loss': lambda *_: 0.0}"), "abilities"),
    "a measure that tables have": (_able("measures=(contracts.Metric('seed'),)"), "abilities"),
}

VALUES = {
    "negative": ({"return 1 - jax": "return -jax"}, "loss"),
    "not a number": ({"return 1 - jax": "return jnp.log(-1.0) * jax"}, "loss"),
    "another loss in outcomes": ({OUTCOMES_LOSS: f"{OUTCOMES_LOSS} / 2"}, "outcomes"),
    "losses that are not loss": (
        {
            "    # What it is judged by.": "    def losses(self, network, inputs, seeds):\n"
            "        return 2 * super().losses(network, inputs, seeds)\n"
        },
        "losses",
    ),
    "sampled": ({OUTCOMES_LOSS: f"{OUTCOMES_LOSS}, sampled=-1 - logits[..., 0] ** 2"}, "outcomes"),
    "a vote for another answer": (
        {OUTCOMES_LOSS: ANSWERS} | _able(f"voting=contracts.Voting({JUDGED}, 3)"),
        "outcomes",
    ),
}

RANDOM = {
    "at import": {
        "class Game": "import numpy\nSIZE = numpy.random.rand()\n\n\nclass Game",
        "return 1 - jax": "return SIZE * jax",
    },
    "calls are counted": {
        "class Game": "CALLS = []\n\n\nclass Game",
        LOSS: f"CALLS.append(1)\n        {LOSS} * (2.0 if len(CALLS) > 2 else 1.0)",
    },
}


@pytest.fixture
def project(project):
    """A project with the task `gates` that `sweeper new task` writes."""
    assert CliRunner().invoke(app, ["new", "task", "gates"]).exit_code == 0
    return project


def _unannotated(text: str) -> str:
    """A source without types of results, which the tests, and nobody else, would check first."""
    return re.sub(r"\) -> [^\n]*:\n", "):\n", text)


def _trial(project: Path, edits: dict[str, str] | None = None) -> TrialSpec:
    file = project / "tasks" / "gates.py"
    text = _unannotated(file.read_text())
    for old, new in (edits or {}).items():
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    fields = {"model": {"name": "transformer", "width": 8, "key_size": 8}, "evaluation": {"seeds": 12, "votes": [5]}}
    return TrialSpec.model_validate({"task": {"name": "gates"}, "steps": 100, "batch_size": 12, **fields})


def _place(project: Path, method: str) -> str:
    """The beginning of a message about a method of the task."""
    lines = (project / "tasks" / "gates.py").read_text().splitlines()
    number = next(number for number, line in enumerate(lines, 1) if line.startswith(f"    def {method}("))
    return f"tasks/gates.py, line {number}: {method} "


@pytest.mark.slow
@pytest.mark.parametrize(("edits", "method"), SHAPES.values(), ids=SHAPES)
def test_a_mistake_that_shapes_show_is_found_at_planning(project, edits, method):
    trial = _trial(project, edits)
    if method == "sample_seeds":
        trial = trial.model_copy(update={"objective": trial.objective.model_copy(update={"m": 11})})
    with pytest.raises(ContractError) as refused:
        conformance.check_shapes([trial])
    assert str(refused.value).startswith(_place(project, method))


@pytest.mark.slow
@pytest.mark.parametrize(("edits", "method"), VALUES.values(), ids=VALUES)
def test_a_mistake_that_a_few_pairs_show(project, edits, method):
    trial = _trial(project, edits)
    conformance.check_shapes([trial])
    with pytest.raises(ContractError) as refused:
        values.check_pairs(trial)
    assert str(refused.value).startswith(_place(project, method))


@pytest.mark.long
@pytest.mark.parametrize("edits", RANDOM.values(), ids=RANDOM)
def test_programs_that_depend_on_when_and_where_they_are_traced_are_found_before_the_first_pack(project, edits):
    """In another process a number that is drawn at import is another one."""
    trial = _trial(project, edits)
    conformance.check_shapes([trial])
    with pytest.raises(ContractError) as refused:
        conformance.check_values([trial])
    assert str(refused.value).startswith(_place(project, "loss"))


@pytest.mark.slow
def test_a_start_and_a_check_end_with_the_message_and_leave_nothing(project):
    _trial(project, SHAPES["loss of every door"][0])
    space = "search_spaces/gates.yaml"
    for command in (["run", space], ["run", space, "--dry-run"], ["check", "tasks/gates.py"]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 2, done.output
        (line,) = done.stderr.splitlines()
        assert line.startswith(_place(project, "loss"))
    assert not list((project / "results").rglob("*.*"))


@pytest.mark.long
def test_a_start_refuses_what_the_values_show_before_it_writes(project):
    _trial(project, VALUES["negative"][0])
    done = CliRunner().invoke(app, ["run", "search_spaces/gates.yaml"])
    assert done.exit_code == 2, done.output
    assert done.output.splitlines()[-1].startswith(_place(project, "loss"))
    assert not list((project / "results").rglob("*.*"))


def test_a_check_is_refused_with_the_settings_that_a_start_refuses(project, monkeypatch):
    monkeypatch.setitem(jax_settings.PINNED, "jax_enable_x64", True)  # this process then has another value
    assert "jax_enable_x64" in CliRunner().invoke(app, ["check", "tasks/gates.py"]).stderr


@pytest.mark.slow
def test_a_check_passes_over_other_plugins_that_cannot_be_loaded_and_says_so(project, capsys):
    (project / "tasks" / "other.py").write_text("import no_such_module\n")
    (project / "models").mkdir()
    (project / "models" / "aaa.py").write_text("1 / 0\n")
    (trial,) = examples_of("objective", "cvar")
    assert (trial.objective.name, trial.task.name) == ("cvar", "gates")
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(", ")[0].split()[-2:] for line in said] == [["task", "other"], ["model", "aaa"]]
    assert "aaa" not in {trial.model.name for trial in examples_of("task", "gates")}
    assert "no_such_module" in CliRunner().invoke(app, ["check", "tasks/other.py"]).stderr


@pytest.mark.slow
def test_models_objectives_and_optimisers_are_held_against_their_contracts(project):
    for folder in ("models", "objectives", "optimizers"):
        (project / folder).mkdir()
    source = (plugins.SHIPPED / "models" / "deep_sets.py").read_text().replace('"deep_sets"', '"mine"')
    objective = (
        "from typing import Literal\nfrom sweeper.learned_algorithms import objective_contract\n\n\n"
        "class Objective(objective_contract.Objective):\n    name: Literal['mine'] = 'mine'\n\n"
        "    def value(self, batch, state):\n        return batch.losses\n"
    )
    (project / "objectives" / "mine.py").write_text(objective)
    trial = _trial(project)
    wrong = trial.model_copy(update={"objective": plugins.load("objective", "mine")()})
    with pytest.raises(ContractError, match=r"^objectives/mine.py, line 8: value "):
        conformance.check_shapes([wrong])
    readout = "self.readout = Dense(readout, sizes.width, output_size)"
    wider = _unannotated(source).replace(readout, readout.replace("output_size", "3"))
    (project / "models" / "mine.py").write_text(wider)
    with pytest.raises(ContractError, match=r"^models/mine.py, line \d+: __call__ "):
        conformance.check_shapes([trial.model_copy(update={"model": plugins.load("model", "mine")()})])
    source = (plugins.SHIPPED / "optimizers" / "sgd.py").read_text().replace('"sgd"', '"mine"')
    (project / "optimizers" / "mine.py").write_text(source.replace("optax.trace(", "optax.tarce("))
    with pytest.raises(ContractError, match=r"^optimizers/mine.py, line \d+: transformation raises AttributeError"):
        conformance.check_values([trial.model_copy(update={"optimizer": plugins.load("optimizer", "mine")()})])


@pytest.mark.slow
def test_a_network_that_no_store_keeps_is_refused_at_planning_if_it_is_to_be_kept(project, monkeypatch):
    trial = _trial(project)
    conformance.check_shapes([trial], to_keep=True)
    monkeypatch.setattr(trial_file, "LARGEST_NETWORK", 100)
    with pytest.raises(ContractError, match=r"build: .*resources\.networks"):
        conformance.check_shapes([trial], to_keep=True)


@pytest.mark.slow
def test_a_task_of_ones_own_needs_no_baseline(project):
    assert _trial(project).baseline == "Aq_R"
    plugins.load.cache_clear()
    del sys.modules["tasks.gates"]
    file = project / "tasks" / "gates.py"
    text = file.read_text()
    begin, end = text.index("    def sample_seeds"), text.index("    def loss(")
    file.write_text(text[:begin] + text[end:])
    trial = _trial(project, {"return self.doors + self.noise": "return self.doors"})
    assert (trial.baseline, trial.objective.m) == ("Aq_r0", 1)
    conformance.check_shapes([trial])
