"""Fields whose value is the network of another trial: which trial that is, what is refused, and what comes of it."""

from pathlib import Path

import jax
import numpy as np
import pytest

import sweeper
from sweeper.analysis.settings_table import settings
from sweeper.packs import start_from
from sweeper.packs.network_evaluation import EvaluationRun, evaluation_plan
from sweeper.packs.pack_run import Destination, PackRun
from sweeper.packs.packing import Pack, cells, packs
from sweeper.space.problems import SearchSpaceError
from sweeper.store.store import NoNetworkError, Store
from sweeper.trial import provenance
from tests import guides
from tests.experiments.student import STUDENT
from tests.experiments.toy import TOY, project
from tests.tiny_sweeps import start
from tests.whole_packs import run_pack

pytestmark = pytest.mark.slow  # the first of them trains for all

WIDE = """\
trial:
  experiment: {name: toy, points: {choice: [50, 60]}}
  steps: 120
  seed: {seeds: 2}
"""
SMALL = """\
trial:
  experiment:
    name: student
    teacher: {sweep: wide, same: [seed, experiment.points]}
  steps: 40
  seed: {seeds: 2}
"""
OF_60 = {"trial.experiment.teacher": {"sweep": "wide60"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with project(tmp_path_factory.mktemp("project"), toy=TOY, student=STUDENT) as folder:
        for name, text in (("wide", WIDE), ("small", SMALL)):
            Path(f"{name}.yaml").write_text(text)
        yield folder
    guides.forget("experiments.toy", "experiments.student")


def train(space: str, results: str, **entries) -> sweeper.SweepPlan:
    plan = sweeper.plan(sweeper.read_space(space, entries), results)
    assert sweeper.train(plan, in_process=True, on_event=lambda event: None).complete
    return plan


@pytest.fixture(scope="module")
def students(folder) -> sweeper.SweepPlan:
    """Two students, trained with the teachers of 60 points and their own seeds; there are teachers of 50 points too."""
    train("wide.yaml", "results")
    train("wide.yaml", "results", **{"name": "wide60", "trial.experiment.points": 60})
    return train("small.yaml", "results", **OF_60)


def refusal(**entries) -> str:
    with pytest.raises(SearchSpaceError) as refused:
        sweeper.plan(sweeper.read_space("small.yaml", entries), "results")
    assert {problem.path for problem in refused.value.problems} == {"trial.experiment.teacher"}
    return str(refused.value)


def test_what_is_not_there_several_or_no_entry_is_refused_by_dry_runs_too(students, capsys):
    assert start(Path("small.yaml"), results="elsewhere", dry_run=True) == 2
    assert "small.yaml:4: trial.experiment.teacher: " in capsys.readouterr().err
    assert not Path("elsewhere").exists()
    assert "experiment.points" in refusal()
    assert "2 trials" in refusal(**{"trial.experiment.teacher": {"sweep": "wide"}})
    assert "ab" * 10 in refusal(**{"trial.experiment.teacher": "ab" * 10})
    assert "itself" in refusal(name="wide60", **OF_60)


def test_a_file_whose_field_has_no_default_is_checked_with_a_space(students):
    said = guides.run("sweeper check experiments/student.py", 2)
    assert "teacher" in said
    assert "--dry-run" in said


def test_each_student_has_learnt_from_the_teacher_of_its_seed(students):
    assert len(cells(students.trials.values())) == len(packs(students.trials.values(), None)) == 1
    for key, trial in students.trials.items():
        teacher = sweeper.load(trial.experiment.teacher.trial, "results")
        assert (teacher.trial.seed, teacher.trial.experiment.points) == (trial.seed, 60)
        place = sweeper.load(key, "results").network["place"]
        np.testing.assert_allclose(place, teacher.network["place"].mean(), rtol=1e-4)


def test_seeds_are_one_setting_and_the_teachers_fields_are_columns(students):
    rows = sweeper.sql("select * from trials where task = 'student'", "results")
    (setting,) = settings(rows)
    assert sorted(setting.rows["seed"]) == [0, 1]
    assert set(rows["experiment_teacher_experiment_points"]) == {60}
    assert len(set(rows["experiment_teacher_trial"])) == 2


def test_entries_that_are_the_same_choose_among_settings(students):
    """Also none, if the sweep has one trial; and another trial as teacher is another student."""
    once = {"trial.seed": 0, "name": "again"}
    by_rate = {"trial.experiment.teacher": {"sweep": "wide60", "same": ["seed", "steps"]}, "trial.steps": 120}
    (trial,) = sweeper.plan(sweeper.read_space("small.yaml", once | by_rate), "results").trials.values()
    assert (trial.experiment.teacher.steps, trial.experiment.teacher.experiment.points) == (120, 60)
    ids = {trial.experiment.teacher.trial: key for key, trial in students.trials.items()}
    for teacher, key in ids.items():
        entries = once | {"trial.experiment.teacher": teacher}
        (found,) = sweeper.plan(sweeper.read_space("small.yaml", entries), "results").trials
        assert (found == key) == (students.trials[key].seed == 0)


def test_an_interruption_changes_no_bit_and_a_lost_teacher_leaves_its_student_pending(students, tmp_path):
    origin, pack = provenance.capture("test"), Pack(tuple(students.trials.values()))
    source = Store.open("results")
    ends = []
    for name in ("whole", "cut"):
        store = Store.open(tmp_path / name)
        for trial in pack.trials:
            start_from.copy_networks(trial, source, store)
        if name == "cut":
            PackRun(pack, pack.trial_ids, Destination(store, origin, checkpoint_seconds=0.0)).advance()
        run_pack(pack, Destination(store, origin))
        seals = store.seals(pack.trial_ids)
        ends.append([jax.tree.map(np.ndarray.tobytes, store.weights(seals[key])) for key in pack.trial_ids])
    assert ends[0] == ends[1]
    with pytest.raises(NoNetworkError):
        PackRun(pack, pack.trial_ids, Destination(Store.open(tmp_path / "empty"), origin))


def test_it_is_debugged_copied_and_evaluated_by_another_protocol(students, tmp_path, capsys):
    (key, _) = students.trials
    guides.run(f"sweeper run small.yaml --set trial.experiment.teacher.sweep=wide60 --trial {key} "
               "--set trial.experiment.teacher.same=[seed]")  # fmt: skip
    for sweep in ("wide60", "small"):
        guides.run(f"sweeper copy {sweep} --to {tmp_path / 'copy'}")
    entries = OF_60 | {"name": "small"}
    assert not sweeper.plan(sweeper.read_space("small.yaml", entries), tmp_path / "copy").pending
    store, origin = Store.open("results"), provenance.capture("test")
    plan = evaluation_plan(store, list(students.trials), {"rate": 0.25}, lambda: origin.code, None, False)
    for work in plan.plan.work:
        run = EvaluationRun(work, {"rate": 0.25}, store, origin)
        while run.advance().phase != "done":
            pass
        assert set(run.rows) == set(work.pending)
