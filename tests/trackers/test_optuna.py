"""Optuna and its dashboard read the exported journal, and a journal that was cut off is carried on."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sweeper
from sweeper.commands import export
from sweeper.messages import UserError
from sweeper.trackers import runs
from sweeper.trial.trial import trial_id
from tests.processes import refusal
from tests.results import record, result
from tests.tiny_sweeps import SPACE
from tests.trackers.exports import IDS, METRICS, asked, exported, grown, served, sweep_of, trial

pytestmark = pytest.mark.slow  # imports of Optuna take seconds


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "journal.log"


def storage_of(journal: Path):
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return JournalStorage(JournalFileBackend(str(journal)))


def study_of(journal: Path):
    from optuna import load_study

    return load_study(study_name="cycles", storage=storage_of(journal))


def tracker_of(journal: Path):
    return runs.tracker("optuna", str(journal))


def test_optuna_opens_the_journal(store, journal):
    grown(store, journal, "optuna")
    study = study_of(journal)
    assert study.best_trial.user_attrs["trial_id"] == IDS[1]
    assert (study.best_value, study.best_params) == (0.5, {"objective.q": 3.0})
    assert study.metric_names == ["success_worst5"]
    assert study.best_trial.intermediate_values == {100: 0.2, 200: 0.1}
    states = {each.user_attrs["trial_id"]: each.state.name for each in study.get_trials()}
    assert states == dict(zip(IDS, ("COMPLETE", "COMPLETE", "PRUNED"), strict=True))


def test_the_dashboard_shows_the_study(made, journal):
    from optuna_dashboard import wsgi

    exported(made, journal, "optuna")
    with served(wsgi(storage_of(journal))) as address:
        (study,) = asked(f"{address}/api/studies")["study_summaries"]
        assert (study["study_name"], study["directions"]) == ("cycles", ["maximize"])
        trials = asked(f"{address}/api/studies/{study['study_id']}?after=0")["trials"]
    shown = {each["value"]: shown for shown in trials for each in shown["user_attrs"] if each["key"] == "trial_id"}
    assert {key: each["state"] for key, each in shown.items()} == {IDS[0]: "Complete", IDS[1]: "Fail"}
    finished = shown[IDS[0]]
    (parameter,) = finished["params"]
    assert (parameter["name"], parameter["param_external_value"]) == ("objective.q", "1.0")
    assert finished["values"] == [0.25]
    assert finished["intermediate_values"] == [{"step": 100, "value": 0.2}, {"step": 200, "value": 0.1}]


CUT = {
    "nothing": lambda whole: b"", "5 bytes": lambda whole: whole[:5], "11 bytes": lambda whole: whole[:11],
    "60 bytes": lambda whole: whole[:60], "after a line": lambda whole: whole[: whole.rindex(b"\n", 0, -1) + 1],
    "within the last": lambda whole: whole[:-1], "zeros": lambda whole: whole[:-20] + bytes(20),
    "half a line more": lambda whole: whole[:-20] + b"\n",
}  # fmt: skip


@pytest.mark.parametrize("cut", CUT.values(), ids=CUT)
def test_a_journal_that_was_cut_off_is_carried_on(made, journal, cut):
    runs.export(made, tracker_of(journal))
    journal.write_bytes(cut(journal.read_bytes()))
    for added in (True, False):
        new, kept, _ = runs.export(made, tracker_of(journal))
        assert (new + kept, new > 0) == (2, added)
    assert sorted(each.user_attrs["trial_id"] for each in study_of(journal).get_trials()) == sorted(IDS[:2])


def test_a_journal_that_another_writer_cuts_off_meanwhile_is_carried_on(store, journal):
    tracker = tracker_of(journal)
    runs.export(store, tracker)
    with journal.open("ab") as file:
        file.write(b'{"op_code":4,"work')
    store.commit(result(trial(2), metrics=METRICS))
    assert runs.export(store, tracker)[0] == 3  # the range of q is wider now, and the study is written anew
    assert runs.export(store, tracker_of(journal))[1] == 3


@pytest.mark.parametrize("content", [b"hello", b"hello\n", b"[1, 2]\n", b'{"op_code":0}\n{"op_code"\n{"op_code":1}\n'])
def test_what_is_no_journal_stays_as_it_is(made, journal, content):
    journal.write_bytes(content)
    assert "journal.log" in refusal(export.app, journal, "--to", "optuna", "--results", made.url)
    assert journal.read_bytes() == content


def test_a_parameter_that_some_trials_lack_is_a_range_and_true_is_not_one(made, journal):
    import optuna

    sweep = sweep_of(made, IDS)
    first, second = sweep.runs[:2]
    values = [{"width": 4, "mixed": 1, "lists": (1,)}, {"mixed": True, "lists": "(1,)"}, {"width": 8, "mixed": 0.5}]
    runs_of = [replace(first, trial_id=str(number), entries=entries) for number, entries in enumerate(values)]

    def exported_again(made: list[runs.Run], kept: int) -> list[optuna.trial.FrozenTrial]:
        tracker = tracker_of(journal)
        present = tracker.present(replace(sweep, runs=tuple(made), varying=("width", "mixed", "lists")))
        assert len(present) == kept
        for run in made:
            if run.trial_id not in present:
                tracker.add(run)
        return study_of(journal).get_trials()

    assert len(exported_again(runs_of, kept=0)) == 3
    trials = exported_again(runs_of, kept=3)
    assert [trial.params for trial in trials] == [
        {"width": 4, "mixed": "1", "lists": "[1]"}, {"mixed": "true", "lists": '"(1,)"'}, {"width": 8, "mixed": "0.5"},
    ]  # fmt: skip
    assert trials[0].distributions["width"] == optuna.distributions.IntDistribution(4, 8)
    assert len(trials[0].distributions["mixed"].choices) == 3  # pyright: ignore
    exported_again([*runs_of, replace(second, entries={"width": 6})], kept=3)  # a trial with fewer parameters fits
    exported_again([*runs_of, replace(second, entries={"width": 16})], kept=0)  # a wider range does not


def test_a_study_is_minimised_where_the_sweep_is(made, journal):
    text = SPACE + "search: {method: random, trials: 3, metric: loss, mode: min}\n"
    tracker_of(journal).present(sweep_of(made, IDS, text))
    assert study_of(journal).direction.name == "MINIMIZE"


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")  # its plots are experiments
def test_a_sweep_is_a_study_without_a_file(store, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", Path("docs/trackers.md").read_text(), re.DOTALL)
    settings = [{"objective": {"q": 1.0 + number, "m": 2}, "seed": 5 + number % 2} for number in range(20)]
    further = [result(each, metrics={"success_worst5": place / 20}) for place, each in enumerate(settings)]
    for each in further:
        store.commit(each)
    store.record_sweep(record("quickstart", [IDS[1], *(trial_id(each.trial) for each in further)], SPACE))
    monkeypatch.chdir(Path(store.root).parent)
    names: dict[str, Any] = {}
    exec(code, names)
    states = [each.state.name for each in names["study"].get_trials()]
    assert (states.count("FAIL"), states.count("COMPLETE")) == (1, 20)
    assert (names["study"].best_value, names["study"].best_params["objective.q"]) == (0.95, 20.0)
    with pytest.raises(UserError, match="cycle"):
        sweeper.study("cycle")
