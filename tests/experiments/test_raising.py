"""A program that raises for one of its lanes: its trial has a failed row, with the author's sentence; others go on."""

import operator

import pytest

from sweeper.packs import conformance
from sweeper.packs.failures import PluginRaised
from sweeper.packs.network_evaluation import EvaluationRun, evaluation_plan
from sweeper.packs.packing import Pack
from sweeper.store.store import Store
from tests.experiments.runs import destination, run_with_deaths
from tests.experiments.toy import TOY, project, toy_trial
from tests.whole_packs import run_pack

pytestmark = pytest.mark.slow  # programs are compiled

RAISES = TOY.replace("import jax\n", "import jax\nimport numpy as np\n", 1).replace(
    "class Experiment(",
    '''def checked(value, rate, index):
    """The value; at some rates and steps there is none."""

    def look(value, rate, index):
        if rate > 0.5 and index == WHEN:
            raise ValueError(f"no step at the rate {rate:.1f}")
        return np.float32(value)

    return jax.pure_callback(look, jax.ShapeDtypeStruct(value.shape, value.dtype), value, rate, index)


class Experiment(''',
)

WHERE = {
    "init": ("jax.random.normal(at.key, (3,)),", "checked(jax.random.normal(at.key, (3,)), self.rate, 0),", "0"),
    "step": ('place = state["place"] + move', 'place = checked(state["place"] + move, self.rate, at.index)', "6"),
    "evaluate": ('jnp.abs(state["place"])', 'checked(jnp.abs(state["place"]), self.rate, at.index)', "12"),
}


def raises(method):
    old, new, when = WHERE[method]
    assert old in RAISES
    return RAISES.replace(old, new).replace("WHEN", when)


def numbers(store, trial_ids):
    """What follows from trials alone: metrics, curves and networks."""
    rows = store.trials(trial_ids).select(["trial_id", "status", "steps_done", "extra_metrics"]).to_pylist()
    curves = [row for row in store.curves().to_pylist() if row["trial_id"] in trial_ids]
    order = operator.itemgetter("trial_id", "metric", "step")
    networks = {key: store.weights(store.seals()[key])["place"].tolist() for key in trial_ids}
    return sorted(rows, key=operator.itemgetter("trial_id")), sorted(curves, key=order), networks


@pytest.mark.parametrize("method", WHERE)
def test_a_lane_that_raises_alone_has_a_failed_row_and_the_others_have_their_bits(tmp_path, method):
    """Whatever interrupts the pack."""
    kept, killed, undisturbed = (Store.open(tmp_path / name) for name in ("kept", "killed", "undisturbed"))
    with project(tmp_path, toy=raises(method)):
        # Strides of two steps: some before the one that raises, and some after it
        trials = [toy_trial(rate=rate, curve_every=2, seed=seed) for seed, rate in enumerate((0.1, 0.9, 0.3))]
        pack, bad = Pack(tuple(trials)), Pack((trials[1],)).trial_ids[0]
        run_pack(pack, destination(kept))
        run_with_deaths(pack, killed)
        run_pack(Pack((trials[0], trials[2])), destination(undisturbed))
    rows = {row["trial_id"]: row for row in kept.trials().to_pylist()}
    assert (rows[bad]["status"], rows[bad]["error_kind"]) == ("failed", "ValueError")
    assert rows[bad]["error_message"].startswith("no step at the rate 0.9 (experiments/toy.py, line ")
    assert killed.committed() == kept.committed()
    others = [trial_id for trial_id in pack.trial_ids if trial_id != bad]
    assert numbers(kept, others) == numbers(killed, others) == numbers(undisturbed, others)


def run_to_its_end(run):
    while run.advance().phase != "done":
        pass


def test_a_stored_network_whose_evaluation_raises_is_told_after_the_others_are_evaluated(tmp_path):
    store = Store.open(tmp_path / "store")
    old, new, _ = WHERE["evaluate"]
    text = RAISES.replace(old, new.replace("at.index", "at.index + (self.points == 60)")).replace("WHEN", "13")
    with project(tmp_path, toy=text):
        pack = Pack(tuple(toy_trial(rate=rate) for rate in (0.1, 0.9, 0.3)))
        run_pack(pack, to := destination(store))
        planned = evaluation_plan(store, pack.trial_ids, {"points": 60}, lambda: to.provenance.code, 3, False)
        (work,) = planned.plan.work
        run = EvaluationRun(work, {"points": 60}, store, to.provenance)
        with pytest.raises(PluginRaised, match=r"^ValueError: no step at the rate 0\.9"):
            run_to_its_end(run)
    assert list(run.rows) == [pack.trial_ids[0], pack.trial_ids[2]]


INFINITE = TOY.replace('"walked": 0}', '"walked": 0, "best": jnp.inf}').replace(
    '"walked": state["walked"] + 1}', '"walked": state["walked"] + 1, "best": NEXT}'
)
KEPT_WHOLLY = INFINITE.partition("    def network")[0]


@pytest.mark.parametrize(
    ("text", "after", "status"),
    [
        (KEPT_WHOLLY, 'state["best"]', "failed"),
        (KEPT_WHOLLY, 'jnp.minimum(state["best"], 1.0)', "finished"),
        (INFINITE, 'state["best"]', "finished"),
    ],
    ids=["kept for good", "gone after a step", "not kept"],
)
def test_an_infinity_of_the_first_state_is_told_at_once_if_it_would_be_kept(tmp_path, text, after, status):
    store = Store.open(tmp_path / "store")
    with project(tmp_path, toy=text.replace("NEXT", after)):
        pack = Pack((toy_trial(curve_every=2, steps=1000), toy_trial(curve_every=2, steps=1000, seed=1)))
        said = list(conformance.mistakes(pack.trials[:1]))
        run_pack(pack, destination(store))
    rows = store.trials().to_pylist()
    assert {row["status"] for row in rows} == {status}
    assert len(said) == (status == "failed")
    for words in [*said, *(row["error_message"] for row in rows if row["error_message"])]:
        assert "best has inf" in words
        assert "`network`" in words
    assert {row["steps_done"] for row in rows} == {2.0 if said else 1000.0}
