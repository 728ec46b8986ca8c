"""The mistakes of a first author: each is one line with file, line and method, before anything is trained."""

import json
from pathlib import Path

import numpy as np
import pytest

from sweeper.packs import conformance
from sweeper.space.problems import SearchSpaceError
from sweeper.space.search_space import of_text
from sweeper.training.kind import kind_of
from sweeper.trial import fingerprint, plugins
from sweeper.trial.contract_checks import ContractError
from tests.experiments.toy import READS, TOY, project, toy_trial
from tests.processes import python

PLACE = '"place": place, "key": key, "walked": state["walked"] + 1}'

BY_SHAPES = {
    "a state of another shape": (PLACE, PLACE.replace("place,", "place[:2],", 1), "step"),
    "another name of a metric": ('"reach": distance.max()', '"top": distance.max()', "evaluate"),
    "a metric that is no number": ("distance.mean()", "distance", "evaluate"),
    "data that are missing": ("jnp.linspace(-1, 1, self.points)", "jnp.load('none.npy')", "data"),
    "data by a traced field": ("self.points)", "self.points) * self.rate", "data"),
    "a record that is changed": ("        key, use", "        self.points = 3\n        key, use", "step"),
    "a curve called as a metric": ('{"pace":', '{"reach":', "step"),
    "a name that tables have": ('{"pace":', '{"seed":', "step"),
    "a start of another form": ("self.init(at) | network", "network", "start_from"),
    "no direction": ('"reach": "max"', '"reach": "up"', "evaluate"),
    "outcomes without a name": ('{"far": far}', "far", "evaluate"),
    "outcomes of no length": ("jnp.abs(at.data) > distance[0]", "distance[0]", "evaluate"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new", "method"), BY_SHAPES.values(), ids=BY_SHAPES)
def test_a_mistake_that_shapes_show(tmp_path, old, new, method):
    assert old in TOY
    with (
        project(tmp_path, toy=TOY.replace(old, new)),
        pytest.raises(ContractError, match=rf"^experiments/toy\.py, line \d+: {method}\b") as refused,
    ):
        conformance.check_shapes([toy_trial()])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("decision", "advice"),
    [
        ("self.rate > 1", "experiment.rate, which is Traced"),
        ("state['walked'] > 1", "jnp.where"),
        ("float(state['walked'])", ".item()"),
        ("jnp.zeros(self.rate)", "without Traced"),
    ],
)
def test_a_decision_that_needs_a_value_is_told_with_what_to_write(tmp_path, decision, advice):
    text = TOY.replace("        key, use", f"        if {decision}: pass\n        key, use")
    with project(tmp_path, toy=text), pytest.raises(ContractError) as refused:
        conformance.check_shapes([toy_trial()])
    assert advice in str(refused.value)
    assert "jax.dev" not in str(refused.value)


def test_a_check_has_steps_for_a_warm_up(tmp_path):
    text = TOY.replace("        key, use", "        assert at.steps > 100\n        key, use")
    with project(tmp_path, toy=text):
        conformance.check_shapes(kind_of(toy_trial()).examples("experiment", "toy"))


@pytest.mark.slow  # another process traces it too
def test_a_program_that_differs_from_trace_to_trace(tmp_path):
    text = TOY.replace("import jax\n", "import jax\nimport numpy as np\n", 1)
    with (
        project(tmp_path, toy=text.replace("0.01 *", "np.random.normal() *")),
        pytest.raises(ContractError, match=r"^experiments/toy\.py, line \d+: step\b"),
    ):
        conformance.check_values([toy_trial()])


@pytest.mark.slow  # another process traces it too
def test_a_program_that_acts_outside_is_refused_unless_it_prints(tmp_path):
    text = TOY.replace("import jax\n", "import jax\nimport numpy as np\nfrom jax.experimental import io_callback\n", 1)
    drawn = "io_callback(lambda: np.float32(np.random.normal()), jax.ShapeDtypeStruct((), 'float32')) *"
    with (
        project(tmp_path, toy=text.replace("0.01 *", drawn)),
        pytest.raises(ContractError, match=r"^experiments/toy\.py, line \d+: step gives .*io_callback"),
    ):
        conformance.check_values([toy_trial()])
    with project(
        tmp_path, toy=TOY.replace("        place = ", '        jax.debug.print("{}", move)\n        place = ')
    ):
        conformance.check_values([toy_trial()])


AT_A_START = """
import json
import sys
from sweeper.packs import conformance
from sweeper.packs.rehearsal import here
from sweeper.trial import fingerprint
from sweeper.trial.contract_checks import ContractError
from tests.experiments.toy import toy_trial
try:
    rehearsal = conformance.probe([toy_trial(**json.loads(sys.argv[1]))], fingerprint.captured(), in_process=True)
    with rehearsal.elsewhere(here()):
        print(len(rehearsal.trials))
except ContractError as error:
    print(error)
"""


def started(project: Path, seed: str, **fields: str) -> str:
    """What a start in a process of its own says, of a toy with these fields; the seed gives sets an order."""
    environment = {"PYTHONPATH": str(plugins.ROOT), "TMPDIR": str(project), "PYTHONHASHSEED": seed}
    return python("-c", AT_A_START, json.dumps(fields), cwd=project, **environment).stdout


@pytest.mark.long  # processes
def test_an_order_of_sets_that_the_first_start_has_by_chance_does_not_pass_for_good(tmp_path):
    """These two words have one order under the hash seeds 0, 1 and 2."""
    order = "len(next(iter({'one', 'loss'}))) *"
    with project(tmp_path, toy=TOY.replace("0.01 *", order)):
        said = [started(tmp_path, seed) for seed in "223"]
    assert said[:2] == ["1\n", "0\n"], said
    assert "experiments/toy.py, line " in said[-1]
    assert "PYTHONHASHSEED=0" in said[-1]


@pytest.mark.slow  # processes
def test_data_that_were_edited_are_rehearsed_again_and_blamed_on_no_program(tmp_path):
    with project(tmp_path, toy=READS):
        said = []
        for values in (np.zeros(50, np.float32), np.zeros(50, np.float32), np.ones(50, np.float32)):
            np.save(tmp_path / "numbers.npy", values)
            said.append(started(tmp_path, "3", path="numbers.npy"))
    assert said == ["1\n", "0\n", "1\n"]


def test_each_file_that_only_a_field_names_is_looked_for_where_workers_stand_at_every_start(tmp_path):
    """One of two sets of data that a sweep compares may be ignored by git, and may be so since the last start."""
    with project(tmp_path, toy=READS):
        for name in ("one.npy", "two.npy"):
            np.save(tmp_path / name, np.zeros(50, np.float32))
        trials = [toy_trial(path=name, seed=seed) for name in ("one.npy", "two.npy") for seed in (0, 1)]
        rehearsal = conformance.probe(trials, fingerprint.captured())
    assert [trial.experiment.path for trial in rehearsal.trials] == ["one.npy", "two.npy"]
    assert rehearsal.marks == [None, None], "no later start leaves them out"


def test_a_field_that_is_declared_as_a_tuple_is_told_with_the_type_that_takes_a_list(tmp_path):
    text = TOY.replace("    points: Count = 50", "    points: Count = 50\n    sizes: tuple[int, ...] = (1,)")
    with project(tmp_path, toy=text), pytest.raises(SearchSpaceError) as refused:
        of_text("space.yaml", "trial: {experiment: {name: toy, sizes: [3, 4]}, steps: 2}")
    (problem,) = refused.value.problems
    assert problem.path == "trial.experiment.sizes"
    assert "ListOf[" in problem.message


def test_a_space_whose_names_an_experiment_cannot_give_is_refused_with_the_method(tmp_path):
    text = "trial: {experiment: {name: toy}, steps: 2}\nsearch: {metric: pace, mode: min}\n"
    with project(tmp_path, toy=TOY.replace("distance.mean()", "distance.nothing()")):
        with pytest.raises(SearchSpaceError) as refused:
            of_text("space.yaml", text)
        (problem,) = refused.value.problems
        assert problem.message.startswith("experiments/toy.py, line ")
        assert ": evaluate " in problem.message
