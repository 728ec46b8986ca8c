"""Experiments, trained for real in this process: what holds for the trials of tasks holds for them."""

import json
import random
import re
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sweeper.analysis import ready_questions, results, sql
from sweeper.analysis.results import named
from sweeper.analysis.status import odd_numbers
from sweeper.packs import start_from
from sweeper.packs.network_evaluation import EvaluationRun, ProtocolError, evaluation_plan
from sweeper.packs.pack_run import PackRun
from sweeper.packs.packing import Pack, stack
from sweeper.packs.trained_trial import load
from sweeper.space import search_space
from sweeper.space.problems import SearchSpaceError
from sweeper.store.store import Store
from sweeper.training import experiments
from sweeper.training.kind import kind_of, trainer_of
from sweeper.trial import vectorisation
from sweeper.trial.contract_checks import ContractError
from sweeper.trial.record import canonical
from sweeper.trial.start_from import StartFrom
from sweeper.trial.trial import trial_id, trial_of
from tests.experiments.runs import destination, run_with_deaths, science
from tests.experiments.toy import READS, TOY, project, toy_trial
from tests.packs.test_halving import run as run_halving
from tests.packs.test_halving import source_of as halving_work
from tests.processes import python
from tests.whole_packs import run_pack

pytestmark = pytest.mark.slow  # the first of them compiles for all

TOGETHER = TOY.replace('"toy"', '"together"').replace("    metrics =", "    lanes_together = True\n    metrics =")
PARTLY = TOY.replace('"toy"', '"partly"').partition("    def start_from")[0]
WHOLLY = TOY.replace('"toy"', '"wholly"').partition("    def network")[0]
"""Experiments without a `start_from`: one keeps a part of its state, one keeps all."""

BEYOND = 'jnp.sqrt(-1 - distance.max()), "loss": 1 / jnp.zeros(())'
WITHOUT_REACH = (
    TOY.replace('"toy"', '"without_reach"')
    .replace('"reach": distance.max()', f'"reach": {BEYOND}')
    .replace('"reach": "max"', '"reach": "max", "loss": "min"')
)
"""Two of its metrics are not finite, one of which has a column in every store."""

MEASURED = (
    TOY.replace('"toy"', '"measured"')
    .replace("    points: Count = 50", "    points: Count = 50\n    size: Count = 3")
    .replace("(3,)", "(self.size,)")
    .replace('"distance": distance.mean()', '"distance": distance.mean() * len(at.data)')
)
"""A metric of it depends on the points, and its state on the size."""


@pytest.fixture(scope="module", autouse=True)
def toy(tmp_path_factory):
    folder, texts = tmp_path_factory.mktemp("project"), {"partly": PARTLY, "wholly": WHOLLY}
    texts |= {"without_reach": WITHOUT_REACH, "measured": MEASURED}
    with project(folder, toy=TOY, together=TOGETHER, **texts) as folder:
        yield folder


@pytest.fixture(scope="module")
def pack(toy):
    """Two trials of one structure, which differ in a traced field and the seed, evaluated every five steps."""
    return Pack((toy_trial(evaluate_every=5), toy_trial(seed=1, rate=0.3, evaluate_every=5)))


@pytest.fixture(scope="module")
def undisturbed(pack, tmp_path_factory):
    store = Store.open(tmp_path_factory.mktemp("undisturbed"))
    run_pack(pack, destination(store))
    return store


def test_a_trial_becomes_a_row_with_metrics_curves_outcomes_and_what_it_keeps(pack, undisturbed):
    rows = undisturbed.trials().to_pylist()
    assert {(row["task"], row["baseline"], row["status"], row["lanes"]) for row in rows} == {
        ("toy", "experiment", "finished", 2)
    }
    assert {row["model"] for row in rows} == {None}
    curves = undisturbed.curves().to_pandas()
    steps = {name: sorted(of["step"].unique()) for name, of in curves.groupby("metric")}
    assert steps == {"pace": list(range(1, 13)), "distance": [5, 10, 12], "reach": [5, 10, 12]}
    assert undisturbed.outcomes().column_names[-1] == "far"
    assert undisturbed.outcomes().num_rows == 2 * 50
    loaded = load(pack.trial_ids[0], undisturbed)
    assert loaded.trial == pack.trials[0]
    (place,) = jax.tree.leaves(loaded.network)
    last = curves[(curves["metric"] == "distance") & (curves["trial_id"] == pack.trial_ids[0])]
    assert last["value"].iloc[-1] == pytest.approx(float(jnp.abs(place).mean()))


def test_an_interruption_anywhere_changes_no_bit(pack, undisturbed, tmp_path):
    store = Store.open(tmp_path)
    run_with_deaths(pack, store)
    assert science(store) == science(undisturbed)


def test_neither_the_place_in_a_pack_nor_the_number_of_lanes_changes_a_bit(pack, undisturbed, tmp_path):
    store = Store.open(tmp_path)
    for trials in ((pack.trials[1],), (pack.trials[0],)):
        run_pack(Pack(trials), destination(store))
    assert science(store) == science(undisturbed)


def test_a_lane_that_leaves_the_numbers_costs_itself_alone(tmp_path):
    store, sound = Store.open(tmp_path), toy_trial()
    run_pack(Pack((sound, toy_trial(seed=1, explode_at=7))), destination(store))
    rows = {row["seed"]: row for row in store.trials().to_pylist()}
    assert (rows[0]["status"], rows[0]["trial_id"]) == ("finished", trial_id(sound))
    failed = rows[1]
    assert (failed["status"], failed["error_kind"], failed["error_step"]) == ("failed", "non-finite pace", 7)
    assert failed["steps_done"] == 7


def test_a_metric_that_is_not_finite_costs_itself_and_the_row_says_so(tmp_path):
    store, trial = Store.open(tmp_path), trial_of(canonical(toy_trial()) | {"experiment": {"name": "without_reach"}})
    run_pack(Pack((trial,)), destination(store))
    (row,) = named(store.trials()).to_pylist()
    assert (row["status"], row["loss"], row["reach"]) == ("finished", None, None)
    assert row["distance"] > 0
    assert {name for name, value in json.loads(row["extra_metrics"]).items() if value is None} == {"loss", "reach"}
    assert load(row["trial_id"], store).network
    (shown,), _ = ready_questions.show(store, row["trial_id"])
    assert {name for name, value in zip(shown["name"], shown["value"], strict=True) if value == "not finite"} == {
        "loss", "reach",
    }  # fmt: skip


def test_data_are_an_argument_that_lanes_share(toy):
    """A program holds no array of the data, and as many lanes as one likes take no further memory for them."""
    large = toy_trial(points=1_000_000)
    one, many = (stack([large.model_copy(update={"seed": seed}) for seed in range(n)]) for n in (1, 64))
    data = experiments.data_of(one)
    assert data is experiments.data_of(many)
    state = jax.eval_shape(experiments.init, one, data)
    text = jax.jit(experiments.advance, static_argnums=3).lower(one, state, data, 3).as_text()
    assert len(text) < 200_000
    memory = [trainer_of(trials).memory(trials) for trials in (one, many)]
    assert memory[1] - memory[0] < data.nbytes


def test_data_of_a_cell_that_is_done_are_freed_and_equal_data_are_shared(toy):
    first = weakref.ref(experiments.data_of(toy_trial(points=60)))
    shared = experiments.data_of(toy_trial(points=60, rate=0.5))
    assert shared is first(), "a traced value makes no data of its own"
    del shared
    experiments.data_of(toy_trial(points=70))
    assert first() is None


SIZE = 200 * 2**20
LOADS = """
import sys
from pathlib import Path
import numpy as np
from sweeper.training import experiments

def peak():
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024

experiments._placed([np.ones(10)])
before = peak()
with experiments.jax_settings.one_thread():
    array = experiments._placed([np.load(sys.argv[1])])
experiments._digest(array)
print((peak() - before) / Path(sys.argv[1]).stat().st_size, array.dtype, float(array[-1]))
"""


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="needs Linux")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_file_of_data_takes_its_size_and_no_more(tmp_path, dtype):
    numbers = np.zeros(SIZE // np.dtype(dtype).itemsize, dtype)
    numbers[-1] = 0.1
    np.save(tmp_path / "large.npy", numbers)
    said = python("-c", LOADS, str(tmp_path / "large.npy"), env={"JAX_PLATFORMS": "cpu"}).stdout.split()
    assert float(said[0]) <= 1.3
    assert said[1:] == ["float32", str(float(np.float32(0.1)))]


@pytest.mark.parametrize(
    ("dtype", "form"),
    [("float64", "own"), ("float64", "shared"), ("float64", "columns"), ("int64", "read-only"), ("uint8", "own")],
)
def test_data_that_are_not_copied_are_those_that_jax_would_copy(dtype, form):
    numbers = (np.random.default_rng(0).normal(size=(3 * 2**19 + 1, 3)) * 100).astype(dtype)
    if form == "columns":
        numbers = np.asfortranarray(numbers)
    expected, keeper = jnp.asarray(numbers.copy()), [numbers] if form == "shared" else []
    numbers.flags.writeable = form != "read-only"
    leaves = [numbers]
    del numbers
    placed = experiments._placed(leaves)
    assert placed.dtype == expected.dtype
    np.testing.assert_array_equal(placed, expected)
    for kept in keeper:  # the array of somebody else stays as it was
        np.testing.assert_array_equal(jnp.asarray(kept), expected)


def test_lanes_together_agree_with_lanes_in_turns(undisturbed, pack):
    """By another summation order: to rounding. The form is that for an accelerator, too."""
    fields = [canonical(trial) for trial in pack.trials]
    together = [trial_of(each | {"experiment": each["experiment"] | {"name": "together"}}) for each in fields]
    assert all(trial.lanes_together for trial in together)

    def trained(trials):
        stacked = stack(trials)
        trainer = trainer_of(stacked)
        state, _ = trainer.stride(stacked, trainer.start(stacked), 12)
        _, place, _ = state.network
        return np.asarray(place)

    in_turns = trained(pack.trials)
    np.testing.assert_allclose(trained(together), in_turns, rtol=1e-5)
    with vectorisation.built_for("cuda"):
        np.testing.assert_allclose(trained(pack.trials), in_turns, rtol=1e-5)


# Starts


def begun(trials: list[Any], store: Store) -> Any:
    """The arrays of the first states of trials that start from the trials of a pack: key, place and walked."""
    return PackRun(Pack(tuple(trials)), list(map(trial_id, trials)), destination(store)).training.state.network


def from_each(pack, **fields) -> list[Any]:
    starts = [StartFrom(trial=key, setting="of these") for key in pack.trial_ids]
    return [toy_trial(seed=seed, start_from=start, **fields) for seed, start in enumerate(starts)]


def test_a_training_starts_from_what_another_has_kept_whatever_interrupts_it(pack, undisturbed, tmp_path):
    trials = from_each(pack, rate=0.2)
    _, place, walked = begun(trials, undisturbed)
    for lane, key in enumerate(pack.trial_ids):
        np.testing.assert_array_equal(place[lane], load(key, undisturbed).network["place"])
    assert walked.tolist() == [0, 0]

    whole, killed = (Store.open(tmp_path / name) for name in ("whole", "killed"))
    for store in (whole, killed):
        for trial in trials:
            start_from.copy_networks(trial, undisturbed, store)
    for trial in trials:
        run_pack(Pack((trial,)), destination(whole))
    continued = Pack(tuple(trials))
    while pending := [name for name in continued.trial_ids if name not in killed.committed()]:
        PackRun(continued, pending, destination(killed)).advance()
    assert science(killed) == science(whole)


def test_a_training_that_keeps_its_whole_state_goes_on_with_it(tmp_path):
    store, first = Store.open(tmp_path), toy_trial(name="wholly")
    run_pack(Pack((first,)), destination(store))
    (second,) = from_each(Pack((first,)), name="wholly", steps=3)
    key, _, walked = begun([second], store)
    kept = store.weights(store.seals()[trial_id(first)])
    assert walked.tolist() == [12]
    np.testing.assert_array_equal(key[0], kept["key.data"])


def test_an_experiment_that_does_not_say_what_the_rest_is_starts_from_no_other():
    with pytest.raises(ContractError, match=r"^experiments/partly\.py, line \d+: network\b"):
        kind_of(trial := toy_trial(name="partly")).startable(trial)


# Evaluations of what is stored


def evaluated(store: Store, keys: Sequence[str], **changes: Any) -> dict[str, dict[str, Any]]:
    """The evaluations of trials by changed fields, with named columns, by trial."""
    origin = destination(store).provenance
    planned = evaluation_plan(store, keys, changes, lambda: origin.code, None, False)
    for work in planned.plan.work:
        run = EvaluationRun(work, changes, store, origin)
        while run.advance().phase != "done":
            pass
    planned = evaluation_plan(store, keys, changes, lambda: origin.code, None, False)
    assert not planned.pending
    rows = results.evaluation_rows(store.trials(keys), planned.evaluations.values())
    return {row["trial_id"]: row for row in named(rows).to_pylist()}


def test_what_a_trial_has_kept_is_evaluated_again(tmp_path):
    store, pack = Store.open(tmp_path), Pack((toy_trial(name="wholly"), toy_trial(seed=1, rate=0.3, name="wholly")))
    run_pack(pack, destination(store))
    rows = {row["trial_id"]: row for row in named(store.trials()).to_pylist()}
    again = evaluated(store, pack.trial_ids)
    assert {key: (row["distance"], row["reach"]) for key, row in again.items()} == {
        key: (row["distance"], row["reach"]) for key, row in rows.items()
    }


def test_what_a_trial_has_kept_is_evaluated_by_changed_fields(tmp_path):
    store, trial = Store.open(tmp_path), toy_trial(name="measured")
    run_pack(Pack((trial,)), destination(store))
    (before,) = named(store.trials()).to_pylist()
    (after,) = evaluated(store, [trial_id(trial)], points=20).values()
    assert (before["experiment_points"], after["experiment_points"]) == (50, 20)
    assert after["distance"] == pytest.approx(before["distance"] * 20 / 50)
    assert (after["reach"], after["experiment_rate"]) == (before["reach"], before["experiment_rate"])
    assert len(results.evaluations_of(store, store.trials())) == 1
    (row,) = named(store.trials()).to_pylist()
    assert row == before


@pytest.mark.parametrize("changes", [{"votes": 3}, {"points": 0}, {"size": 4}, {"name": "toy"}])
def test_fields_by_which_nothing_stored_can_be_evaluated_are_refused(tmp_path, changes):
    store, trial = Store.open(tmp_path), toy_trial(name="measured")
    run_pack(Pack((trial,)), destination(store))
    with pytest.raises(ProtocolError, match=next(iter(changes)) if "size" not in changes else "place"):
        evaluated(store, [trial_id(trial)], **changes)


def test_what_cannot_be_evaluated_again_is_left_out_with_the_reason(tmp_path):
    store, trials = Store.open(tmp_path), (toy_trial(name="partly"), toy_trial(name="measured"))
    for trial in trials:
        run_pack(Pack((trial,)), destination(store))
    code = destination(store).provenance.code
    plan = evaluation_plan(store, map(trial_id, trials), {"size": 3}, lambda: code, None, False)
    assert plan.pending == [trial_id(trials[1])]
    assert [re.search("'size'", reason) is not None for reason in plan.left_out] == [True]
    (reason,) = evaluation_plan(store, [trial_id(trials[0])], {}, lambda: code, None, False).left_out
    assert reason.startswith("experiments/partly.py, line ")


SPACE = """
name: toy
trial: {experiment: {name: toy}, steps: 12}
search: {method: grid, early_stopping: {grace_steps: 4}}
"""


def test_early_stopping_needs_a_curve_or_a_metric_of_the_experiment(toy):
    (toy / "toy.yaml").write_text(SPACE)
    compared = "search.early_stopping={grace_steps: 4, every: 2, mode: min, metric: "
    for override in (None, f"{compared}loss}}"):
        with pytest.raises(SearchSpaceError, match=r"search\.early_stopping.*: .*pace"):
            search_space.read(toy / "toy.yaml", [override] if override else [])
    for metric in ("pace", "distance"):
        search_space.read(toy / "toy.yaml", [f"{compared}{metric}}}"])


def test_a_search_halves_trials_of_an_experiment_by_any_of_its_curves_and_deaths_change_nothing(toy, tmp_path):
    halving = "{method: halving, starts: 3, curve: pace, curve_mode: min, rungs: [{steps: 4, keep: 1}]}"
    (toy / "toy.yaml").write_text(SPACE.replace("{method: grid, early_stopping: {grace_steps: 4}}", halving))
    spec = search_space.read(toy / "toy.yaml", ["resources.lanes=1"])
    whole, killed = (Store.open(tmp_path / name) for name in ("whole", "killed"))
    run_halving(halving_work(spec, whole), whole, random.Random(0))
    for death in range(1, 30):
        run_halving(halving_work(spec, killed), killed, random.Random(death), strides=2)
    assert sorted(whole.trials()["steps_done"].to_pylist()) == [4, 4, 12]
    assert science(killed) == science(whole)


def test_data_that_were_edited_start_a_pack_anew_and_rows_of_both_are_told(tmp_path):
    """The space alone names the file, as it does in a sweep over data sets: no fingerprint has it."""
    with project(tmp_path, reads=READS.replace('"toy"', '"reads"')):
        store, of_file = Store.open(tmp_path / "results"), {"name": "reads", "path": "numbers.npy"}
        packs = [Pack(tuple(toy_trial(200, seed, **of_file) for seed in seeds)) for seeds in ((0, 1), (2, 3))]

        def begun(pack: Pack, values: np.ndarray) -> PackRun:
            np.save(tmp_path / "numbers.npy", values)
            experiments.KIND.forget_data()
            return PackRun(pack, pack.trial_ids, destination(store))

        before, after = np.linspace(-1, 1, 50, dtype=np.float32), np.ones(50, np.float32)
        first = begun(packs[0], before)
        while first.advance().phase != "done":
            pass
        begun(packs[1], before).advance()
        again = begun(packs[1], after)
        assert (again.training.step, again.refused_checkpoint) == (0, "was trained on other data")
        while again.advance().phase != "done":
            pass
        rows = store.trials().to_pylist()
        assert len({row["data"] for row in rows}) == 2
        assert len({(row["fingerprint"], row["programs"]) for row in rows}) == 1
        (line,) = odd_numbers(rows)
        assert line.startswith("trained on several data by one code")
        assert line.count("2 trials") == 2
        assert odd_numbers(rows[:1]) == []


def test_metrics_and_curves_may_be_grouped_by_a_slash(tmp_path):
    text = TOY.replace('"reach"', '"val/reach"').replace('"pace"', '"train/pace"').replace('"toy"', '"slashes"')
    (tmp_path / "own").mkdir()
    with project(tmp_path / "own", slashes=text):
        run_pack(Pack((toy_trial(name="slashes"),)), destination(store := Store.open(tmp_path / "store")))
        asked = sql.frame('select t."val/reach", c.value from trials t join curves c using (trial_id)', store)
    assert len(asked) == 12
    assert asked.notna().all(axis=None)
