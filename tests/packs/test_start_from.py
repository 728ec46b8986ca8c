"""Trials that start from other trials: which ones a plan finds or refuses, and what starts from their networks."""

import dataclasses
import json
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from sweeper.packs import start_from
from sweeper.packs.halving import searches_of
from sweeper.packs.pack_run import Destination, PackRun
from sweeper.packs.packing import Pack, cells, packs
from sweeper.space import search_space
from sweeper.space.halving import Halving, Rung
from sweeper.space.problems import SearchSpaceError
from sweeper.store.store import NoNetworkError, Store
from sweeper.training.kind import kind_of
from sweeper.training.named_weights import network_of, weights_of
from sweeper.trial import provenance
from sweeper.trial.fingerprint import Code
from sweeper.trial.record import canonical
from sweeper.trial.start_from import StartFrom, setting_digest
from sweeper.trial.trial import Trial, trial_id, trial_of
from tests.results import PROVENANCE, failure, record, result
from tests.tiny_sweeps import SPACE
from tests.trials import coloring_trial
from tests.whole_packs import run_pack

ORIGIN = provenance.capture("test")
CODE = ORIGIN.code
OTHER_CODE = CODE.model_copy(update={"always": {}})


def weights(trial: Trial) -> dict[str, np.ndarray]:
    """Made-up weights of a trial's network; those of two training seeds differ."""
    built = kind_of(trial).built(trial)
    return weights_of(jax.tree.map(lambda leaf: np.full(leaf.shape, 1 + trial.seed, leaf.dtype), built))


def trained(store: Store, code: Code = CODE, **changes) -> Trial:
    """A trial that a store has as if it had been trained."""
    made = result(changes, provenance=PROVENANCE.model_copy(update={"code": code}))
    store.commit(dataclasses.replace(made, network=weights(made.trial)))
    return made.trial


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with the sweep `first` of two training seeds."""
    return with_first(tmp_path / "results")


def with_first(folder: Path) -> Store:
    store = Store.open(folder)
    trials = [trained(store, seed=seed) for seed in range(2)]
    store.record_sweep(record("first", map(trial_id, trials), SPACE))
    return store


def planned(store: Store, start: str, *overrides: str, **checks) -> tuple[Trial, ...]:
    """The trials of a space with this `start_from`."""
    path = Path(store.root).parent / "second.yaml"
    path.write_text(SPACE.replace("trial:\n", f"trial:\n  start_from: {start}\n"))
    return start_from.of_store(search_space.read(path, overrides), store, **checks).expand().trials


# Which trial


def test_a_sweep_means_its_trial_with_the_same_training_seed_and_the_id_is_that_of_the_trial_itself(store):
    trials = planned(store, "{sweep: first}", "trial.seed={seeds: 2}")
    assert [trial.start_from.trial for trial in trials] == [trial_id(coloring_trial(seed=seed)) for seed in range(2)]
    by_id = [planned(store, f"'{trial.start_from.trial}'", f"trial.seed={trial.seed}")[0] for trial in trials]
    assert by_id == list(trials)
    assert [trial_of(json.loads(json.dumps(canonical(trial)))) for trial in trials] == list(trials)
    others = coloring_trial(seed=0), coloring_trial(seed=1)
    assert len({*map(trial_id, trials), *map(trial_id, others)}) == 4


def test_trials_that_go_on_from_the_seeds_of_a_setting_are_of_one_setting(store):
    """Also in a chain; and a start from another setting is another setting."""
    found = planned(store, "{sweep: first}", "trial.seed={seeds: 2}")
    other = trained(store, objective={"q": 2.0, "m": 2})
    elsewhere = found[0].model_copy(
        update={"start_from": StartFrom(trial=trial_id(other), setting=setting_digest(canonical(other)))}
    )
    assert [pack.trials for pack in packs((*found, elsewhere), None)] == [found, (elsewhere,)]
    assert Halving(starts=2, rungs=(Rung(steps=100, keep=1),)).searches((*found, elsewhere)) == [found, (elsewhere,)]
    assert setting_digest(canonical(found[0])) == setting_digest(canonical(found[1]))
    assert setting_digest(canonical(found[0])) != setting_digest(canonical(elsewhere))


def test_fresh_and_continued_trainings_share_their_programs_and_no_pack(store):
    found = planned(store, "{sweep: first}", "trial.seed={seeds: 2}")
    fresh = coloring_trial(seed=0), coloring_trial(seed=1)
    assert len(cells([*found, *fresh])) == 1
    assert [pack.trials for pack in packs([found[0], fresh[0], found[1], fresh[1]], 4)] == [found, fresh]


def test_a_halving_means_the_winner_of_the_search_of_the_same_training_seed(tmp_path):
    """A loser that another sweep has trained to the end is none."""
    store = Store.open(tmp_path / "results")
    text = SPACE.replace("{seeds: 1}", "{choice: [1]}") + (
        "search: {method: halving, starts: 2, rungs: [{steps: 100, keep: 1}]}\n"
    )
    spec = search_space.of_text("first.yaml", text)
    (search,) = searches_of(spec)
    for seed, loss in ((2, 0.3), (3, 0.2)):
        made = result({"seed": seed}, curves=[(100, "train_loss", loss), (300, "train_loss", 0.1)])
        store.commit(dataclasses.replace(made, network=weights(made.trial)))
    store.record_sweep(record("first", search, text))
    (found,) = planned(store, "{sweep: first}", "trial.seed=1")
    assert found.start_from.trial == search[1]
    with pytest.raises(SearchSpaceError):
        planned(store, "{sweep: first}", "trial.seed=3")


def test_after_a_change_of_the_sweep_other_trials_are_planned(store):
    before = planned(store, "{sweep: first}")
    store.record_sweep(record("first", [trial_id(trained(store, batch_size=4))], SPACE, captured="2026-02-01"))
    after = planned(store, "{sweep: first}")
    assert before != after
    assert planned(store, f"'{before[0].start_from.trial}'") == before


# Refusals


def refusal(store: Store, start: str, *overrides: str) -> str:
    """What is refused about a start, at its place."""
    with pytest.raises(SearchSpaceError) as refused:
        planned(store, start, *overrides, code=CODE)
    (problem,) = refused.value.problems
    assert (problem.path, problem.where) == ("trial.start_from", 3)
    return problem.message


def test_what_is_not_there_or_several_is_refused(store):
    assert "'frist'" in refusal(store, "{sweep: frist}")
    assert "got seed 2" in refusal(store, "{sweep: first}", "trial.seed={choice: [0, 1, 2, 3]}")
    assert "ab" * 10 in refusal(store, f"'{'ab' * 10}'")
    ids = [trial_id(trained(store, objective={"q": q, "m": 2})) for q in (2.0, 4.0)]
    store.record_sweep(record("several", ids, SPACE))
    assert "2 trials" in refusal(store, "{sweep: several}")


def test_a_sweep_does_not_start_from_itself(store):
    """Else every start would plan other trials."""
    store.record_sweep(record("second", [trial_id(coloring_trial())], SPACE))
    assert "itself" in refusal(store, "{sweep: second}")


def test_a_trial_without_a_network_that_stays_or_of_other_code_is_refused(store):
    for made, word in (
        (failure({"seed": 7}), "failed"),
        (result({"seed": 8}, status="stopped"), "stopped"),
        (result({"seed": 9}, network=None), "resources.networks"),
    ):
        store.commit(made)
        assert word in refusal(store, f"'{trial_id(made.trial)}'")
    assert "other code" in refusal(store, f"'{trial_id(trained(store, code=OTHER_CODE, seed=5))}'")


def test_a_trial_of_another_version_is_refused(store, monkeypatch):
    older = trained(store, task={"name": "recall", "keys": 2, "value_bits": 2})
    name = trial_id(older)
    monkeypatch.setattr(type(older.task), "VERSION", 99)
    assert trial_id(older) != name
    assert name in refusal(store, f"'{name}'")


def test_a_network_of_other_shapes_is_refused_with_its_weight(store):
    wide = trained(store, model={"name": "transformer", "blocks": 1, "width": 8, "key_size": 4})
    assert trial_id(wide) in refusal(store, f"'{trial_id(wide)}'")
    deep = trained(store, model={"name": "transformer", "blocks": 2, "width": 4, "key_size": 4})
    assert "missing" in refusal(store, f"'{trial_id(deep)}'")


def test_a_trial_that_has_its_row_is_not_refused_for_the_past_of_another(store):
    """Its start was of this code once; what is done is neither trained nor refused again."""
    old = trial_id(trained(store, code=OTHER_CODE, seed=5))
    (done,) = planned(store, f"'{old}'")
    assert planned(store, f"'{old}'", code=CODE, settled={trial_id(done)}.__contains__) == (done,)


# Training


@pytest.fixture
def continued(store) -> Pack:
    return going_on(store)


def going_on(store: Store) -> Pack:
    """Two trials that go on, from the networks of two training seeds."""
    return Pack(planned(store, "{sweep: first}", "trial.seed={seeds: 2}"))


def run(store: Store, pack: Pack, pending=None) -> PackRun:
    return PackRun(pack, pending or pack.trial_ids, Destination(store, ORIGIN, checkpoint_seconds=0.0))


def science(store: Store, pack: Pack) -> list:
    rows = store.trials(pack.trial_ids).select(["trial_id", "status", "steps_done", "loss", "success", "spec"])
    seals = store.seals(pack.trial_ids)
    networks = {key: {name: leaf.tobytes() for name, leaf in store.weights(seals[key]).items()} for key in seals}
    return [rows.to_pylist(), store.curves(pack.trial_ids).to_pylist(), networks]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> list:
    store = with_first(tmp_path_factory.mktemp("undisturbed") / "results")
    pack = going_on(store)
    run_pack(pack, Destination(store, ORIGIN))
    found = science(store, pack)
    assert {row["status"] for row in found[0]} == {"finished"}
    return found


@pytest.mark.slow  # compiles
def test_a_training_starts_from_the_network(store, continued):
    begun = run(store, continued).training.state.network
    for lane, trial in enumerate(continued.trials):
        expected = network_of(trial, weights(coloring_trial(seed=trial.seed)))
        for leaf, wanted in zip(jax.tree.leaves(begun), jax.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(leaf[lane], wanted)


@pytest.mark.slow  # trains
def test_an_interruption_changes_no_bit_and_after_a_checkpoint_the_network_may_go(undisturbed, store, continued):
    run(store, continued).advance()
    for seal in store.seals().values():
        store.delete(seal.name)
    while pending := [key for key in continued.trial_ids if key not in store.committed()]:
        run(store, continued, pending).advance()
    assert science(store, continued) == undisturbed


@pytest.mark.slow  # compiles
def test_the_centre_of_an_evolution_strategy_is_the_network(store):
    trials = planned(store, "{sweep: first}", "trial.seed={seeds: 2}", "trial.optimizer={name: pgpe, population: 4}")
    state = run(store, Pack(trials)).training.state
    for lane in range(2):
        flat, _ = ravel_pytree(network_of(trials[lane], weights(coloring_trial(seed=lane))))
        np.testing.assert_array_equal(state.strategy.mean[lane], flat)
    np.testing.assert_allclose(state.strategy.std, 0.03)


def test_a_network_that_is_gone_leaves_the_trials_pending(store, continued):
    for seal in store.seals().values():
        store.delete(seal.name)
    with pytest.raises(NoNetworkError):
        run(store, continued)
    assert not store.committed()
