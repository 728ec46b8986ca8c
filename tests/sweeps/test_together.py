"""Several spaces in one start: one source of work, one view, and a result for each."""

import dataclasses
import re
from pathlib import Path

import pytest

from sweeper import events
from sweeper.commands import run
from sweeper.interruption import Interruption
from sweeper.packs.packing import shape
from sweeper.packs.plan import ListedWork, Segment, done_statuses, plan
from sweeper.packs.work_sources import JointWork
from sweeper.space import search_space
from sweeper.store.store import Store
from sweeper.sweeps.sweep_plan import unchecked_plan
from sweeper.sweeps.training import of_one_sweep, planned_by
from sweeper.trial.trial import trial_id
from tests.filled_stores import commit
from tests.heard import Heard
from tests.results import result
from tests.tiny_sweeps import with_seeds
from tests.trials import coloring_trial

TRIALS = [coloring_trial(seed=seed) for seed in range(4)]
DONE = done_statuses(early_stopping=False, retry_failed=False)


def listed(*seeds: int) -> ListedWork:
    return ListedWork(plan([TRIALS[seed] for seed in seeds], 1, {}, DONE))


def seed_of(work) -> int:
    return int(work.pack.trials[0].seed)


def test_a_pack_of_two_sweeps_is_run_once_and_both_learn_of_its_end():
    first, second = listed(0, 1), listed(1, 2)
    joint = JointWork([first, second])
    assert [seed_of(work) for work in joint.upcoming()] == [0, 1, 1, 2]
    handed_out = list(iter(joint.next, None))
    assert [seed_of(work) for work in handed_out] == [0, 1, 2]
    assert joint.exhausted
    assert set(joint.planned) == set(map(trial_id, TRIALS[:3]))
    settled: list[tuple[str, str]] = []
    for name, source in (("first", first), ("second", second)):
        source.settle = lambda pack_id, whole, name=name: settled.append((name, pack_id))
    for work in handed_out:
        joint.settle(work.pack.pack_id)
    packs = [work.pack.pack_id for work in handed_out]
    assert settled == [("first", packs[0]), ("first", packs[1]), ("second", packs[1]), ("second", packs[2])]


def test_programs_have_the_same_numbers_in_a_start_and_in_its_sweeps():
    longer, other = coloring_trial(steps=20), coloring_trial(objective={"q": 3, "m": 4})
    one = listed(0, 1)
    two = ListedWork(plan([other, TRIALS[0], longer], 1, {}, DONE))
    joint = JointWork([one, two])
    steps = TRIALS[0].steps
    assert one.programs({}) == {1: events.Program(2 * steps)}
    assert two.programs({shape(longer): 0.5}) == {
        2: events.Program(steps, alike=2), 1: events.Program(steps, 1, 0.5), 3: events.Program(20, 1, 0.5)
    }  # fmt: skip
    assert [joint.program(work.pack) for work in iter(joint.next, None)] == [1, 1, 2, 3]


def test_a_start_tells_what_steps_have_cost_in_rows_of_its_sweeps(tmp_path):
    spaces = [written(tmp_path, name, with_seeds(seeds)) for name, seeds in (("a", 2), ("b", 3))]
    row = result({}, timings={"steps_done": 300.0, "train_seconds": 60.0, "evaluation_seconds": 30.0})
    commit(Store.open(tmp_path / "results"), search_space.read(spaces[0]).expand().trials[0], row)
    plans = [unchecked_plan(space, tmp_path / "results") for space in spaces]
    assert planned_by(plans).programs == {1: events.Program(300 + 2 * 300, 1, 0.3)}


def test_a_pack_that_no_worker_took_up_is_handed_out_again():
    joint = JointWork([listed(0), listed(0)])
    work = joint.next()
    assert joint.next() is None
    joint.put_back(work)
    assert [seed_of(again) for again in iter(joint.next, None)] == [0]


def test_another_part_of_a_training_under_way_waits_for_its_end():
    first, second = listed(0), listed(0, 1)
    first._waiting[0] = dataclasses.replace(first._waiting[0], segment=Segment(10, "pause"))
    joint = JointWork([first, second])
    part = joint.next()
    assert joint.next() is None
    assert not joint.exhausted
    joint.settle(part.pack.pack_id)
    assert [seed_of(work) for work in iter(joint.next, None)] == [0, 1]


def written(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / f"{name}.yaml"
    path.write_text(text)
    return path


def start(tmp_path: Path, *spaces: Path, **options) -> int:
    return run.start(spaces, str(tmp_path / "results"), Interruption(), **options)


@pytest.mark.slow
def test_a_listener_of_one_sweep_hears_of_its_own_trials(tmp_path):
    spaces = [written(tmp_path, "a", with_seeds(1)), written(tmp_path, "b", with_seeds(2))]
    one, two = (unchecked_plan(space, tmp_path / "results") for space in spaces)
    heard = Heard()
    of_one = of_one_sweep(one, heard.hear)
    (own,), (_, other) = one.trials, two.trials
    of_one(events.SweepPlanned("a, b", trials=3, done=0, failed=0, programs={}))
    for key in (own, other):
        of_one(events.PackStarted("pack", "words", (key,), 300))
        of_one(events.TrialCommitted("pack", key, "finished"))
    of_one(events.Ticked())
    assert heard.events == [
        one.event(), events.PackStarted("pack", "words", (own,), 300), events.TrialCommitted("pack", own, "finished"),
        events.Ticked(),
    ]  # fmt: skip


@pytest.mark.slow
def test_each_sweep_is_told_and_recorded_under_its_own_name(tmp_path, capsys):
    spaces = [written(tmp_path, name, with_seeds(seeds)) for name, seeds in (("a", 1), ("b", 2))]
    store = Store.open(tmp_path / "results")
    for trial in search_space.read(spaces[1]).expand().trials:
        commit(store, trial)
    assert start(tmp_path, *spaces) == 0
    said = capsys.readouterr().out
    assert re.findall(r"^(\d) of \d trials? committed", said, re.MULTILINE) == ["1", "2"]
    assert {record.name: len(record.trial_ids) for record in store.sweeps()} == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("name: a\n", "a.yaml"),
        ("resources: {cpus: 2}\n", "b.yaml: resources"),
        ("search: {early_stopping: {grace_steps: 100}}\n", "b.yaml: search.early_stopping"),
    ],
)
def test_spaces_that_cannot_share_workers_are_refused(tmp_path, capsys, text, named):
    spaces = [written(tmp_path, "a", with_seeds(1)), written(tmp_path, "b", with_seeds(2) + text)]
    assert start(tmp_path, *spaces) == 2
    said = capsys.readouterr().err
    assert named in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "results").exists()


def test_one_trial_is_one_of_a_single_space(tmp_path, capsys):
    spaces = [written(tmp_path, "a", with_seeds(1)), written(tmp_path, "b", with_seeds(2))]
    assert start(tmp_path, *spaces, trial="") == 2
    assert capsys.readouterr().err.startswith("--trial")
