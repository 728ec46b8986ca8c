"""Successive halving: which starts go on, and that nothing but the space decides it.

Packs have one lane unless lanes are what is tested: their programs are those of all tests (`coloring_trial`).
"""

import dataclasses
import random

import jax
import numpy as np
import pytest

from sweeper.packs import pack_run
from sweeper.packs.halving import HalvingWork, stored_losses, winners_of
from sweeper.packs.pack_run import Destination
from sweeper.packs.packing import Pack
from sweeper.packs.plan import Work, done_statuses
from sweeper.space import search_space
from sweeper.space.problems import SearchSpaceError
from sweeper.space.sweep_spec import SweepSpec
from sweeper.store.store import Store
from sweeper.trial import provenance
from sweeper.trial.trial import trial_id
from tests import tiny_sweeps
from tests.whole_packs import run_pack

pytestmark = pytest.mark.slow  # the first of them compiles for all

SPACE = (
    tiny_sweeps.SPACE.replace("q: 3", "q: {choice: [2, 4]}").replace("{seeds: 1}", "{choice: [3]}")
    + "search: {method: halving, starts: 4, rungs: [{steps: 100, keep: 2}, {steps: 200, keep: 1}]}\n"
    + "resources: {lanes: 1}\n"
)

ONE_RUNG = "search.rungs=[{steps: 100, keep: 2}]"

ORIGIN = provenance.capture("test")
DONE = done_statuses(early_stopping=True, retry_failed=False)


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    path = tmp_path_factory.mktemp("space") / "halving.yaml"
    path.write_text(SPACE)
    return lambda *overrides: search_space.read(path, overrides)


def source_of(spec: SweepSpec, store: Store, origin=ORIGIN) -> HalvingWork:
    assert spec.search.halving is not None
    return HalvingWork(spec, spec.search.halving, store, store.committed(), DONE, origin.fingerprint)


@pytest.fixture
def one(space, tmp_path) -> tuple[SweepSpec, Store, HalvingWork]:
    """A search of one setting, an empty store, and the source of its work."""
    spec, store = space("trial.objective.q=2"), Store.open(tmp_path)
    return spec, store, source_of(spec, store)


def train(work: Work, store: Store, strides: int | None = None, origin=ORIGIN) -> bool:
    """Train a pack, to its end or for so many strides; returns whether the end was reached."""
    run = pack_run.PackRun(
        work.pack, work.pending, Destination(store, origin, checkpoint_seconds=0.0), segment=work.segment
    )
    while run.progress().phase != "done":
        if strides == 0:
            return False
        run.advance()
        strides = None if strides is None else strides - 1
    return True


def run(source: HalvingWork, store: Store, rng: random.Random, workers: int = 1, strides: int = 10**6) -> None:
    """Work through the search with so many workers that end in random order; dies after so many strides."""
    running: list[Work] = []
    while not source.exhausted:
        while len(running) < workers and (work := source.next()) is not None:
            running.append(work)
        work = running.pop(rng.randrange(len(running)))
        granted = rng.randrange(1, 4) if strides < 10**6 else None
        strides -= granted or 0
        if strides < 0:
            return
        if train(work, store, granted):
            source.settle(work.pack.pack_id)
        else:
            running.append(work)


def after_step(step: int, source: HalvingWork, store: Store) -> Work:
    """Train all packs until this step; the first pack of a later step, which waits."""
    while (work := source.next()) is not None and work.until <= step:
        train(work, store)
        source.settle(work.pack.pack_id)
    assert work is not None
    return work


def rows(store: Store) -> dict[str, tuple]:
    """What the rows say of their trials, by id."""
    names = ("status", "seed", "q", "steps_done", "train_loss", "loss", "success", "extra_metrics")
    return {row["trial_id"]: tuple(row[name] for name in names) for row in store.trials().to_pylist()}


@pytest.fixture(scope="module")
def undisturbed(space, tmp_path_factory) -> Store:
    store = Store.open(tmp_path_factory.mktemp("undisturbed"))
    source = source_of(space(), store)
    run(source, store, random.Random(0))
    return store


def losses_at(store: Store, step: int) -> dict[str, float]:
    curves = store.curves().to_pandas().query(f"metric == 'train_loss' and step == {step}")
    return dict(zip(curves["trial_id"], curves["value"], strict=True))


def test_the_lowest_losses_go_on_and_one_of_each_search_finishes(space, undisturbed):
    source = source_of(space(), undisturbed)
    assert source.exhausted
    assert len(source.searches) == 2
    committed = rows(undisturbed)
    for search in source.searches:
        assert [source.planned[key].seed for key in search] == [12, 13, 14, 15]
        by_loss = sorted(search, key=losses_at(undisturbed, 100).__getitem__)
        last = sorted(by_loss[:2], key=losses_at(undisturbed, 200).__getitem__)
        done = {key: committed[key][0:4:3] for key in search}
        assert done == {
            by_loss[2]: ("stopped", 100), by_loss[3]: ("stopped", 100),
            last[1]: ("stopped", 200), last[0]: ("finished", 300),
        }  # fmt: skip
    assert not undisturbed.listing("checkpoints")


def test_a_winner_is_the_trial_that_was_never_interrupted(space, undisturbed, tmp_path):
    store = Store.open(tmp_path)
    committed = rows(undisturbed)
    for key, trial in source_of(space(), store).planned.items():
        if committed[key][0] == "finished":
            run_pack(Pack((trial,)), Destination(store, ORIGIN))
            assert rows(store)[key] == committed[key]
    assert len(rows(store)) == 2


@pytest.mark.parametrize("lanes", ["1", "2", *(pytest.param(lanes, marks=pytest.mark.long) for lanes in ("null", "3"))])
def test_neither_workers_nor_order_nor_deaths_nor_lanes_change_a_bit(space, undisturbed, tmp_path, lanes):
    spec, rng = space(f"resources.lanes={lanes}"), random.Random(lanes)
    store, starts = Store.open(tmp_path), 0
    while not (source := source_of(spec, store)).exhausted:
        run(source, store, rng, workers=rng.randrange(1, 6), strides=rng.randrange(3, 25))
        starts += 1
    assert starts > 1
    assert rows(store) == rows(undisturbed)
    assert store.curves().sort_by("trial_id").num_rows == undisturbed.curves().num_rows


def test_other_rungs_continue_from_the_rows(space, undisturbed, tmp_path):
    """What was stopped at rung 0 goes on when more are kept, and is stopped again later."""
    store, wider = Store.open(tmp_path), space("search.rungs[0].keep=3")
    run(source_of(space(), store), store, random.Random(1))
    source = source_of(wider, store)
    assert sorted(work.until for work in source.upcoming()) == [200, 200]
    run(source, store, random.Random(2))
    fresh = Store.open(tmp_path / "fresh")
    run(source_of(wider, fresh), fresh, random.Random(3))
    assert rows(store) == rows(fresh)
    assert source_of(wider, store).exhausted


@pytest.mark.parametrize(
    ("seed", "rungs"),
    [
        (0, "[{steps: 100, keep: 2}, {steps: 200, keep: 1}]"),
        (1, "[{steps: 100, keep: 3}, {steps: 200, keep: 2}]"),
        (2, "[{steps: 200, keep: 1}]"),
        pytest.param(3, "[{steps: 200, keep: 1}]", marks=pytest.mark.long),
    ],
)
def test_two_sweeps_that_share_trials_and_run_at_once_have_their_winners(space, undisturbed, tmp_path, seed, rungs):
    """Either may commit, replace and remove what the other is just using."""
    rng, store = random.Random(seed), Store.open(tmp_path / "both")
    ours, theirs = space(), space(f"search.rungs={rungs}")
    alone = Store.open(tmp_path / "alone")
    run(source_of(theirs, alone), alone, random.Random(0))
    sources = [source_of(spec, store) for spec in (ours, theirs)]
    running = []
    while running or not all(source.exhausted for source in sources):
        for source in sources:
            while sum(each[0] is source for each in running) < 3 and (work := source.next()) is not None:
                given = Destination(store, ORIGIN, checkpoint_seconds=0.0)
                running.append((source, work, pack_run.PackRun(work.pack, work.pending, given, segment=work.segment)))
        source, work, training = rng.choice(running)
        if training.progress().phase == "done" or training.advance().phase == "done":
            running.remove((source, work, training))
            source.settle(work.pack.pack_id)
    for spec, source, expected in zip((ours, theirs), sources, (undisturbed, alone), strict=True):
        assert source.held_up == ()
        assert source_of(spec, store).exhausted
        won = winners_of(spec, source.searches, store)
        assert won == winners_of(spec, source.searches, expected)
        for key in won:
            assert rows(store)[key] == rows(expected)[key]
    assert not store.listing("superseded")


def test_narrower_rungs_stop_trials_where_a_fresh_sweep_does(space, tmp_path):
    """A checkpoint of a later step than that of the stop serves nobody."""
    store, narrower = Store.open(tmp_path), space("trial.objective.q=2", "search.rungs=[{steps: 100, keep: 1}]")
    after_step(200, source_of(space("trial.objective.q=2"), store), store)
    run(source_of(narrower, store), store, random.Random(1))
    fresh = Store.open(tmp_path / "fresh")
    run(source_of(narrower, fresh), fresh, random.Random(2))
    assert sorted(row[0:4:3] for row in rows(fresh).values()) == [("finished", 300), *[("stopped", 100)] * 3]
    assert rows(store) == rows(fresh)


def _spoil(work: Work, store: Store, until: int) -> None:
    """Train a pack whose first lane gets infinite weights after so many steps."""
    run = pack_run.PackRun(work.pack, work.pending, Destination(store, ORIGIN), segment=work.segment)
    while run.progress().phase != "done":
        run.advance()
        if run.training.step == until:
            state = jax.tree.map(np.array, run.training.state)
            jax.tree.leaves(state)[0][0] = np.inf
            run.training = dataclasses.replace(run.training, state=state)


def test_a_start_that_fails_before_a_rung_does_not_go_on(space, tmp_path):
    store, spec = Store.open(tmp_path), space("trial.objective.q=2", "search.rungs=[{steps: 200, keep: 2}]")
    source = source_of(spec, store)
    work = source.next()
    assert work is not None
    _spoil(work, store, until=100)
    (failed,) = work.pack.trial_ids
    assert store.committed() == {failed: "failed"}
    again = source_of(spec, store)
    source.settle(work.pack.pack_id)
    for either in (source, again):
        assert failed not in {key for each in either.upcoming() for key in each.pending}
        assert sorted(each.until for each in either.upcoming()) == [200] * 3
    run(again, store, random.Random(0))
    assert sorted(store.committed().values()) == ["failed", "finished", "finished", "stopped"]


@pytest.mark.parametrize(
    ("overrides", "rung", "fails_at", "others"),
    [([ONE_RUNG], 100, 200, ["finished", "stopped", "stopped"]), ([], 200, 300, ["stopped"] * 3)],
    ids=["another one wins", "the winner itself"],
)
def test_a_start_that_fails_after_a_rung_has_won_it_all_the_same(space, tmp_path, overrides, rung, fails_at, others):
    spec, store = space("trial.objective.q=2", *overrides), Store.open(tmp_path)
    source = source_of(spec, store)
    work = after_step(rung, source, store)
    _spoil(work, store, until=fails_at)
    source.settle(work.pack.pack_id)
    run(source, store, random.Random(0))
    assert source_of(spec, store).exhausted
    assert sorted(store.committed().values()) == ["failed", *others]
    (row,) = [row for row in store.trials().to_pylist() if row["status"] == "failed"]
    assert (row["error_step"], row["seed"]) == (fails_at, source.planned[work.pending[0]].seed)


def test_work_that_was_lost_is_for_the_next_start(one):
    spec, store, source = one
    lost = source.next()
    assert lost is not None
    source.settle(lost.pack.pack_id, whole=False)
    run(source, store, random.Random(0))
    assert source.exhausted
    assert set(source.held_up) == set(source.planned)
    again = source_of(spec, store)
    assert [work.pending for work in again.upcoming()] == [lost.pending]


def test_checkpoints_of_other_code_are_not_counted_on(one):
    spec, store, _ = one
    before = ORIGIN.model_copy(update={"code": ORIGIN.code.model_copy(update={"always": {}})})
    source = source_of(spec, store, before)
    work = source.next()
    assert work is not None
    train(work, store, origin=before)
    assert len(list(source_of(spec, store, before).upcoming())) == 3
    assert len(list(source_of(spec, store).upcoming())) == 4


def test_what_is_expected_of_the_pending_starts(one):
    _, _, source = one
    assert sorted(trial.steps for trial in source.expected(list(source.planned))) == [100, 100, 200, 300]
    assert [trial.steps for trial in source.expected(list(source.planned)[1:])] == [100, 200, 300]
    assert len({trial_id(trial) for trial in source.planned.values()}) == 4


def test_any_training_curve_may_decide_and_high_values_may_be_the_good_ones(space, undisturbed):
    halving = space("search={method: halving, starts: 4, rungs: [{steps: 100, keep: 2}], curve: mean_loss, "
                    "curve_mode: max}").search.halving  # fmt: skip
    assert halving is not None
    _, losses = stored_losses(halving, undisturbed, list(rows(undisturbed)))
    points = undisturbed.curves().to_pandas().query("metric == 'mean_loss' and step == 100")
    expected = {key: (pytest.approx(-value),) for key, value in zip(points["trial_id"], points["value"], strict=True)}
    assert losses == expected
    with pytest.raises(SearchSpaceError, match=r"search\.curve: .*'no_loss'"):
        space("search.curve=no_loss", "search.curve_mode=min")


BY_METRIC = ("trial.objective.q=2", "search.curve=loss", "search.curve_mode=min")


@pytest.mark.long  # trains the search twice
def test_a_metric_of_evaluations_while_trials_train_may_decide(space, tmp_path):
    """Whatever is interrupted, also a trial that fails after a rung which it has passed."""
    alone, again = Store.open(tmp_path / "alone"), Store.open(tmp_path / "again")
    spec, rng = space(*BY_METRIC, "trial.evaluate_every=100"), random.Random(3)
    run(source_of(spec, alone), alone, rng)
    points = alone.curves().to_pandas().query("metric == 'loss'")
    assert not points.duplicated(["trial_id", "step"]).any()  # also of trials that end at an evaluation
    at = {step: dict(zip(own["trial_id"], own["value"], strict=True)) for step, own in points.groupby("step")}
    (search,) = source_of(spec, alone).searches
    two = sorted(search, key=at[100].__getitem__)[:2]
    winner = min(two, key=at[200].__getitem__)
    ends = {key: 300 if key == winner else 200 if key in two else 100 for key in search}
    assert {key: row[3] for key, row in rows(alone).items()} == ends
    while not (source := source_of(spec, again)).exhausted:
        run(source, again, rng, workers=2, strides=3)
    assert rows(again) == rows(alone)


@pytest.mark.parametrize(
    ("overrides", "path"),
    [
        (["search.rungs[1].steps=300"], "search.rungs[1].steps"),
        (["search.rungs[0].keep=4"], "search.rungs"),
        (["search.rungs[0].steps=50"], "search.rungs[0].steps"),
        (["search.curve=mean_loss"], "search.curve"),
        ([*BY_METRIC, "trial.evaluate_every=null"], "search.curve"),
        ([*BY_METRIC, "trial.evaluate_every={choice: [null, 100]}"], "search.curve"),
        ([*BY_METRIC, "trial.evaluate_every=100", "search.rungs[1].steps=250"], "search.rungs[1].steps"),
        ([*BY_METRIC, "trial.evaluate_every=50", "search.rungs[0].steps=50"], "search.rungs[0].steps"),
    ],
)
def test_rungs_that_make_no_sense_are_refused_with_their_path(space, tmp_path, overrides, path):
    with pytest.raises(SearchSpaceError) as caught:
        source_of(space(*overrides), Store.open(tmp_path))
    assert [problem.path for problem in caught.value.problems] == [path]
