"""Natural mistakes in a new task, and what is said of each before the first step.

The comment at a mistake says what it led to before contracts were checked.
"""

import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from typer.testing import CliRunner

from sweeper.__main__ import app
from sweeper.packs import conformance, conformance_suite
from sweeper.store import trial_file
from sweeper.trial import plugins
from sweeper.trial.contracts import ContractError
from sweeper.trial.trial_spec import TrialSpec

LOSS = "return 1 - jax.nn.softmax(self._logits(network, x, r))[x.prize]"
CORRECT = "logits.argmax(axis=-1) == inputs.prize[:, None]"
OUTCOMES_LOSS = "loss=self.losses(network, inputs, seeds)"
RANDOM = "must be the same: all randomness comes through keys and seeds r, none from numpy.random"

ABILITIES = "    # What it is judged by.\n\n    def abilities(self):\n        return contracts.Abilities("

SHAPES = {
    # After compiling: Incompatible shapes for broadcasting (sweeper/training/best_seed.py, line 36).
    "loss of every door": (LOSS, LOSS.removesuffix("[x.prize]"), "loss gives shape [4], must be a number"),
    "loss of whole numbers": (LOSS, "return x.prize", "loss gives type int32, must be floating"),
    # With 12 inputs and 12 seeds: committed, and wrong.
    "transposed": (CORRECT, f"({CORRECT}).T", "correct of shape [13, 12], must be [12 inputs, 13 seeds]"),
    "correct as numbers": (CORRECT, f"1.0 * ({CORRECT})", "outcomes gives correct of type float32, must be bool"),
    # A failed row for every trial: dot_general requires contracting dimensions to have the same shape.
    "token_size": ("return self.doors + self.noise", "return self.doors",
                   "loss gives the network tokens of shape [1, 8], must be [tokens, 4 features], as token_size says"),
    "output_size": ("def output_size(self):\n        return self.doors",
                    "def output_size(self):\n        return self.doors / 2",
                    "output_size gives 2.0, must be a whole number, at least 1"),
    "count": ("(key, (count, self.noise)", "(key, (10, self.noise)",
              "sample_seeds gives shape [10, 4], must be arrays with the leading axis 11"),
    # A failed row for every trial: 'Game' object has no attribute 'price'.
    "a misspelt field": ("[x.prize]", "[x.price]", "loss raises AttributeError: 'Game' object has no attribute 'pr"),
    "no outcomes": ("return contracts.Outcomes(", "dict(", "outcomes gives type NoneType, must be contracts.Outcomes"),
    "answers without voting": (OUTCOMES_LOSS, f"{OUTCOMES_LOSS}, answers=logits.argmax(axis=-1)[..., None]",
                               "outcomes gives answers, must be None, as abilities has no voting"),
    "a measure that abilities lacks": (OUTCOMES_LOSS, f"{OUTCOMES_LOSS}, measures={{'doors': logits.max(axis=-1)}}",
                                       "outcomes gives the measures doors, must be those of abilities: none"),
    "a curve that a trainer has": ("    # What it is judged by.\n",
                                   f"{ABILITIES}curves={{'entropy': lambda *_: 0.0}})\n",
                                   "abilities gives 'entropy' among curves, must be another name"),
}  # fmt: skip

VALUES = {
    # Committed; two runs of one trial: .669 and .687.
    "numpy.random": (
        LOSS, f"import numpy\n        {LOSS} * numpy.random.rand()",
        f"loss gives another program each time it is traced, {RANDOM}",
    ),
    "numpy.random at import": ("class Game", "import numpy\nSIZE = numpy.random.rand()\n\n\nclass Game", RANDOM),
    # Committed, although the contract forbids it.
    "negative": ("return 1 - jax", "return -jax", "with a fresh network, must be at least 0"),
    # Trained to the end.
    "not a number": ("return 1 - jax", "return jnp.log(-1.0) * jax", "loss gives nan with a fresh network, must be "),
    # Committed: a figure of something else than what was trained.
    "another loss in outcomes": (OUTCOMES_LOSS, f"{OUTCOMES_LOSS} / 2", ", as loss gives"),
    "losses that are not loss": (
        "    # What it is judged by.",
        "    def losses(self, network, inputs, seeds):\n        return 2 * super().losses(network, inputs, seeds)\n",
        "losses gives",
    ),
}  # fmt: skip

JUDGED = "lambda inputs, answers: answers != inputs.prize[:, None, None]"

PAIRS = {
    "sampled": ({OUTCOMES_LOSS: f"{OUTCOMES_LOSS}, sampled=2 + logits[..., 0] ** 2"},
                " as sampled, must be at most 1"),
    "negative variance": ({OUTCOMES_LOSS: f"{OUTCOMES_LOSS}, variance=-jnp.ones(len(logits))"},
                          "outcomes gives -1 as variance, must be at least 0"),
    "a vote for another answer": (
        {OUTCOMES_LOSS: f"{OUTCOMES_LOSS}, answers=logits.argmax(axis=-1)[..., None]",
         "    # What it is judged by.\n": f"{ABILITIES}voting=contracts.Voting({JUDGED}, 3))\n"},
        "outcomes gives correct that differs from what abilities().voting says of its answers, must be the same",
    ),
    "a group too many": (
        {"    # What it is judged by.\n": f"{ABILITIES}groups=contracts.Groups(2, lambda inputs: inputs.prize + 2))\n"},
        " as a group, must be from 0 to 1",
    ),
}  # fmt: skip


@pytest.fixture
def project(project):
    """A project with the task `gates` that `sweeper new task` writes."""
    assert CliRunner().invoke(app, ["new", "task", "gates"]).exit_code == 0
    return project


def _unannotated(text: str) -> str:
    """A source without types of results, which the tests, and nobody else, would check first."""
    return re.sub(r"\) -> [^\n]*:\n", "):\n", text)


def _trial(project: Path, *edits: tuple[str, str]) -> TrialSpec:
    file = project / "tasks" / "gates.py"
    text = _unannotated(file.read_text())
    for old, new in edits:
        text = text.replace(old, new)
        if "SIZE =" in new:
            text = text.replace("return 1 - jax", "return SIZE * jax")
        assert new in text
    file.write_text(text)
    fields = {"model": {"name": "transformer", "width": 8, "key_size": 8}, "evaluation": {"seeds": 12, "votes": [5]}}
    return TrialSpec.model_validate({"task": {"name": "gates"}, "steps": 100, "batch_size": 12, **fields})


@pytest.mark.parametrize(("old", "new", "message"), SHAPES.values(), ids=SHAPES)
def test_a_mistake_that_shapes_show_is_found_at_planning(project, old, new, message):
    trial = _trial(project, (old, new))
    if "leading axis" in message:
        trial = trial.model_copy(update={"objective": trial.objective.model_copy(update={"m": 11})})
    with pytest.raises(ContractError) as refused:
        conformance.check_shapes([trial])
    assert str(refused.value).startswith("tasks/gates.py, line ")
    assert message in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new", "message"), VALUES.values(), ids=VALUES)
def test_a_mistake_that_values_show_is_found_before_the_first_pack(project, old, new, message):
    trial = _trial(project, (old, new))
    conformance.check_shapes([trial])
    with pytest.raises(ContractError) as refused:
        conformance.check_values([trial])
    assert str(refused.value).startswith("tasks/gates.py, line ")
    assert message in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize(("edits", "message"), PAIRS.values(), ids=PAIRS)
def test_a_mistake_that_a_few_pairs_show(project, edits, message):
    trial = _trial(project, *edits.items())
    conformance.check_shapes([trial])
    with pytest.raises(ContractError) as refused:
        conformance.check_pairs(trial, 1e-3, 1e-4)
    assert message in str(refused.value)


def test_planning_ends_with_the_message_and_leaves_nothing(project):
    _trial(project, SHAPES["loss of every door"][:2])
    for command in (["run", "search_spaces/gates.yaml"], ["run", "search_spaces/gates.yaml", "--dry-run"]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 2, done.output
        (line,) = done.output.splitlines()
        assert line.endswith("loss gives shape [4], must be a number")
    assert not list((project / "results").rglob("*.*"))


@pytest.mark.slow
def test_a_start_refuses_what_the_values_show_before_it_writes(project):
    _trial(project, VALUES["negative"][:2])
    done = CliRunner().invoke(app, ["run", "search_spaces/gates.yaml"])
    assert done.exit_code == 2, done.output
    assert done.output.splitlines()[-1].endswith("must be at least 0")
    assert not list((project / "results").rglob("*.*"))


@pytest.mark.slow
def test_a_check_says_the_same_as_a_start(project):
    _trial(project, SHAPES["loss of every door"][:2])
    done = CliRunner().invoke(app, ["check", "tasks/gates.py"])
    assert done.exit_code == 2, done.output
    assert {line.partition(": ")[2] for line in done.output.splitlines()} == {"loss gives shape [4], must be a number"}
    done = CliRunner().invoke(app, ["check", "search_spaces/gates.yaml"])
    assert done.exit_code == 2, done.output
    assert "is no plug-in" in done.output


def test_models_and_objectives_are_held_against_their_contracts(project):
    (project / "models").mkdir()
    (project / "objectives").mkdir()
    source = (plugins.SHIPPED / "models" / "deep_sets.py").read_text().replace('"deep_sets"', '"mine"')
    objective = (
        "from typing import Literal\nfrom sweeper.trial import objective_contract\n\n\n"
        "class Objective(objective_contract.Objective):\n    name: Literal['mine'] = 'mine'\n\n"
        "    def value(self, batch, state):\n        return batch.losses\n"
    )
    (project / "objectives" / "mine.py").write_text(objective)
    trial = _trial(project)
    wrong = trial.model_copy(update={"objective": plugins.load("objective", "mine")()})
    with pytest.raises(ContractError, match=r"^objectives/mine.py, line 8: value gives shape \[12\], must be a number"):
        conformance.check_shapes([wrong])
    for number, (old, new, message) in enumerate(
        [
            ("self.readout = Dense(readout, sizes.width, output_size)", "self.readout = Dense(readout, sizes.width, 3)",
             r"__call__ gives shape \[1, 3\], must be \[1 tokens, 4 outputs\]|step gives logits of shape \[3\]"),
            ("return self.readout(h), jnp.stack(sent)", "return self.readout(h), sent[0]", "step gives a memory of"),
            ("return jnp.zeros((len(positions), self.sizes.width))", "return jnp.zeros((2, 1))", "placed|embed"),
        ]
    ):  # fmt: skip
        name = f"mine{number}"
        text = _unannotated(source).replace('"mine"', f'"{name}"').replace(old, new)
        (project / "models" / f"{name}.py").write_text(text)
        with pytest.raises(ContractError, match=message) as refused:
            conformance.check_shapes([trial.model_copy(update={"model": plugins.load("model", name)()})])
        assert str(refused.value).startswith(f"models/{name}.py, line ")


def test_a_network_that_no_store_keeps_is_refused_at_planning_if_it_is_to_be_kept(project, monkeypatch):
    trial = _trial(project)
    conformance.check_shapes([trial], to_keep=True)
    build = type(trial.model).build

    def narrow(*arguments):
        return jax.tree.map(lambda weight: weight.astype(jnp.bfloat16), build(*arguments))

    with monkeypatch.context() as patch:
        patch.setattr(type(trial.model), "build", narrow)
        conformance.check_shapes([trial])
        with pytest.raises(
            ContractError, match=r"build: a network .* bfloat16 cannot be kept \(resources\.networks: false"
        ):
            conformance.check_shapes([trial], to_keep=True)
    monkeypatch.setattr(trial_file, "LARGEST_NETWORK", 100)
    with pytest.raises(ContractError, match="too large to be kept"):
        conformance.check_shapes([trial], to_keep=True)


@pytest.mark.slow
def test_the_suite_sees_a_network_that_is_not_what_it_says(project):
    (project / "models").mkdir()
    source = (plugins.SHIPPED / "models" / "deep_sets.py").read_text().replace('"deep_sets"', '"mine"')
    (project / "models" / "mine.py").write_text(source.replace("return self.sizes.blocks\n", "return 7\n"))
    trial = _trial(project).model_copy(update={"model": plugins.load("model", "mine")()})
    with pytest.raises(ContractError, match=r"depth gives 7, and a token depends on tokens 2 steps away"):
        conformance_suite.check_depth(trial)


def test_a_task_of_ones_own_needs_no_baseline(project):
    assert _trial(project).baseline == "Aq_R"
    plugins.load.cache_clear()
    del sys.modules["tasks.gates"]
    file = project / "tasks" / "gates.py"
    text = file.read_text()
    begin, end = text.index("    def sample_seeds"), text.index("    def loss(")
    file.write_text(text[:begin] + text[end:])
    trial = _trial(project, ("return self.doors + self.noise", "return self.doors"))
    assert (trial.baseline, trial.objective.m) == ("Aq_r0", 1)
    conformance.check_shapes([trial])
