"""Plan minus store, and Optuna searches that can be interrupted anywhere."""

import math
import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.packs import plan, work_sources
from sweeper.packs.work_sources import AdaptiveWork
from sweeper.space import search_methods, search_space
from sweeper.space.problems import SearchSpaceError
from sweeper.space.sweep_spec import SweepSpec
from sweeper.trial.trial import trial_id
from tests.results import record
from tests.tiny_sweeps import with_seeds
from tests.trials import coloring_trial

TRIALS = [coloring_trial(seed=seed, objective={"q": q, "m": 2}) for q in (1.5, math.inf) for seed in range(2)]
PLANNED = {trial_id(trial): trial for trial in TRIALS}
IDS = list(PLANNED)

DONE = plan.done_statuses(early_stopping=False, retry_failed=False)

OPTUNA = (
    with_seeds(2)
    .replace("q: 3", "q: {uniform: [1, 10]}")
    .replace("baseline: Aq_R", "baseline: {choice: [Aq_R, Aq_r0]}")
    .replace("{warmup_steps: 10}", "{learning_rate: {log_uniform: [1.0e-5, 1.0e-1]}}")
    .replace("steps: 300", "steps: 10")
    + "search: {method: optuna, trials: 20, metric: loss, mode: min, seed: 7}\n"
)


@settings(max_examples=50)
@pytest.mark.slow  # draws a hundred plans
@given(
    committed=st.dictionaries(
        st.sampled_from([*IDS, "of another sweep"]), st.sampled_from(["finished", "failed", "stopped"])
    ),
    lanes=st.sampled_from([None, 1, 2, 4, 100]),
    early_stopping=st.booleans(),
    retry=st.booleans(),
)
def test_what_runs_is_planned_minus_done(committed, lanes, early_stopping, retry):
    statuses = plan.done_statuses(early_stopping, retry)
    made = plan.plan(PLANNED, lanes, committed, statuses)
    done = {
        key
        for key, status in committed.items()
        if key in IDS
        and (status == "finished" or (status == "stopped" and early_stopping) or (status == "failed" and not retry))
    }
    assert [key for work in made.work for key in work.pending] == [key for key in IDS if key not in done]
    assert set(made.committed) == done
    fresh = plan.plan(PLANNED, lanes, {}, statuses)
    # A pack keeps its name and its lanes when trials are committed, so that its checkpoint still fits.
    assert {work.pack.pack_id for work in made.work} <= {work.pack.pack_id for work in fresh.work}
    assert (made.cells, made.packs) == (fresh.cells, fresh.packs)
    assert sum(len(work.pending) for work in made.work) == len(IDS) - len(done)


def test_lanes_are_for_execution_only():
    narrow, wide = (plan.plan(PLANNED, lanes, {}, DONE) for lanes in (1, 4))
    assert (narrow.cells, narrow.packs, wide.packs) == (1, 4, 1)
    assert list(narrow.trials) == list(wide.trials) == IDS


def test_the_first_pack_of_every_program_goes_first():
    trials = [
        coloring_trial(baseline=baseline, objective={"q": q, "m": 2})
        for baseline in ("Aq_R", "AE_R", "Aq_r0", "AE_r0")
        for q in (1.5, 2.0)
    ]
    source = plan.ListedWork(plan.plan({trial_id(trial): trial for trial in trials}, None, {}, DONE))
    order = [work.pack.trials[0].baseline.value for work in iter(source.next, None)]
    assert order == ["Aq_R", "Aq_r0", "Aq_R", "AE_R", "Aq_r0", "AE_r0"]


class Results:
    """A store that gives every trial the loss of its learning rate's distance from 1e-3."""

    def __init__(self) -> None:
        self.losses: dict[str, float] = {}
        self.stopped: set[str] = set()

    def commit(self, work: plan.Work) -> None:
        for trial, key in zip(work.pack.trials, work.pack.trial_ids, strict=True):
            self.losses[key] = abs(math.log(trial.optimizer.learning_rate / 1e-3)) + trial.seed

    def values(self, trials: Iterable[TrialSpec], metric: str) -> list[float] | None:
        if any(trial_id(trial) in self.stopped for trial in trials):
            return None
        sign = 1 if metric == "loss" else -1
        return [sign * self.losses[trial_id(trial)] for trial in trials if trial_id(trial) in self.losses]


@pytest.fixture
def spec(tmp_path: Path) -> SweepSpec:
    path = tmp_path / "adaptive.yaml"
    path.write_text(OPTUNA)
    return search_space.read(path)


def study(spec: SweepSpec, results: Results) -> AdaptiveWork:
    return AdaptiveWork(spec, dict.fromkeys(results.losses, "finished"), DONE, results.values)


def run(study: AdaptiveWork, results: Results, workers: int, rng: random.Random, packs: int = 1000) -> None:
    """Work through the study with so many workers that end in random order, for so many packs."""
    running: list[plan.Work] = []
    while packs and not study.exhausted:
        while len(running) < workers and (work := study.next()) is not None:
            running.append(work)
        work = running.pop(rng.randrange(len(running)))
        results.commit(work)
        study.settle(work.pack.pack_id)
        packs -= 1


@pytest.mark.slow
@pytest.mark.parametrize("packs", [7, 1000])
def test_a_setting_that_is_added_first_later_adds_its_trials_alone(spec, packs, local):
    results = Results()

    def planned(*first: str, trials: int = 20) -> tuple[AdaptiveWork, tuple[str, ...]]:
        overrides = (f"search.first=[{', '.join(first)}]", f"search.trials={trials}")
        committed = dict.fromkeys(results.losses, "finished")
        now = search_space.read(spec.path, overrides)
        source, _ = work_sources.work_source(now, local, committed, DONE, results.values, str)
        return source, overrides

    def ended(source: AdaptiveWork, overrides: tuple[str, ...], packs: int = 1000) -> None:
        run(source, results, 3, random.Random(0), packs)
        local.record_sweep(record("adaptive", source.planned, spec.text, overrides))

    guess, other = "{objective: {q: 2}}", "{objective: {q: 3}}"
    source, overrides = planned(guess)
    ended(source, overrides, packs)
    before = list(source.planned)
    source, overrides = planned(other, guess)
    assert set(before) <= set(source.planned), "what was planned stays"
    if packs == 1000:
        assert len(source.planned) == len(before) + 2
    ended(source, overrides)
    assert len(source.planned) == 2 * 22
    tried = [trial.objective.q for trial in source.planned.values()]
    assert (tried[0], tried.count(3)) == (2, 2)
    for again, _ in (planned(other, guess), planned(guess, other)):
        assert list(again.planned) == list(source.planned)
    more, _ = planned(other, guess, trials=25)
    assert list(more.planned)[: len(tried)] == list(source.planned)
    anew, _ = planned(other)
    assert next(iter(anew.planned.values())).objective.q == 3, "without an entry it is another search"


@pytest.mark.slow
def test_a_search_of_which_conditions_leave_out_everything_ends_in_time(tmp_path, monkeypatch):
    path = tmp_path / "adaptive.yaml"
    path.write_text(OPTUNA)
    with pytest.raises(search_space.SearchSpaceError, match="exclude"):
        study(search_space.read(path, ["exclude=[trial.steps > 0]", "search.trials=50000"]), Results())
    monkeypatch.setattr(work_sources, "MOST_LEFT_OUT", 2)
    results = Results()
    some = study(search_space.read(path, ["exclude=[trial.optimizer.learning_rate > 0.01]"]), results)
    run(some, results, 1, random.Random(0))
    assert some.exhausted
    assert 0 < len(some.planned) < 40
    assert len(some.impossible) == 1


def test_an_optuna_search_expects_as_many_trials_as_its_settings_have_in_all(spec):
    """Those that are not proposed yet too: 20 settings with two training seeds."""
    results = Results()
    search = study(spec, results)
    assert len(search.expected(list(search.planned))) == 40
    run(search, results, 1, random.Random(0), packs=3)
    pending = [key for key in search.planned if key not in results.losses]
    assert len(search.expected(pending)) == 40 - len(results.losses)


@pytest.mark.slow
def test_an_optuna_search_does_not_depend_on_workers_order_or_interruptions(spec):
    alone = Results()
    undisturbed = study(spec, alone)
    run(undisturbed, alone, 1, random.Random(0))
    assert undisturbed.exhausted
    assert len(undisturbed.planned) == len(alone.losses) == 40

    for seed in range(3):
        rng, results, starts = random.Random(seed), Results(), 0
        while not (again := study(spec, results)).exhausted:
            run(again, results, workers=rng.randrange(1, 12), rng=rng, packs=rng.randrange(1, 9))
            starts += 1
        assert starts > 2
        assert list(again.planned) == list(undisturbed.planned)
        assert results.losses == alone.losses


def test_an_optuna_search_of_which_every_setting_is_left_out_is_refused(spec):
    spec = search_space.read(spec.path, ["exclude=[trial.objective.q >= 1]"])
    with pytest.raises(SearchSpaceError, match=r"exclude.* 40"):
        study(spec, Results())


@pytest.mark.slow
@pytest.mark.parametrize(
    "search",
    [
        "{trials: 9, sampler: {name: NSGAIISampler, population_size: 4}, metric: [loss, success], mode: [min, max]}",
        "{trials: 9, sampler: {name: QMCSampler, scramble: true}}",
        "{trials: 9, sampler: {n_startup_trials: 3, multivariate: true, group: true}}",
    ],
)
def test_every_sampler_proposes_the_same_settings_at_every_start_and_knows_what_is_left_out(spec, search, monkeypatch):
    left_out: list[int] = []
    told = search_methods.OptunaStudy.leave_out
    monkeypatch.setattr(search_methods.OptunaStudy, "leave_out", lambda self, n: left_out.append(n) or told(self, n))
    overrides = [f"search={search}", "search.method=optuna", "variants=[{steps: 10}, {steps: 20}]"]
    spec = search_space.read(spec.path, [*overrides, "exclude=['trial.objective.q > 7']"])
    alone = Results()
    undisturbed = study(spec, alone)
    run(undisturbed, alone, 1, random.Random(0))
    assert undisturbed.exhausted
    assert 0 < len(left_out) < 9
    assert dict(undisturbed.left_out) == {"trial.objective.q > 7": 2 * len(left_out)}
    assert len(undisturbed.planned) == 18 - 2 * len(left_out)
    results = Results()
    while not (again := study(spec, results)).exhausted:
        run(again, results, workers=3, rng=random.Random(1), packs=2)
    assert list(again.planned) == list(undisturbed.planned)


def test_a_setting_is_told_as_failed_unless_all_of_its_seeds_have_a_value(spec, monkeypatch):
    """A mean over the seeds that did not diverge would reward instability; one that was stopped early was pruned."""
    results, told, pruned = Results(), {}, []
    prune = search_methods.OptunaStudy.prune
    monkeypatch.setattr(search_methods.OptunaStudy, "prune", lambda self, n: pruned.append(n) or prune(self, n))
    tell = search_methods.OptunaStudy.tell

    def recorded(study, number, value):
        told[number] = value
        tell(study, number, value)

    monkeypatch.setattr(search_methods.OptunaStudy, "tell", recorded)
    search = study(spec, results)
    for number, work in enumerate(iter(search.next, None)):
        results.commit(work)
        if number == 2:
            del results.losses[work.pack.trial_ids[1]]
        if number == 4:
            results.stopped.add(work.pack.trial_ids[0])
        search.settle(work.pack.pack_id)
    assert [number for number, value in told.items() if value is None] == [2]
    assert (len(told), pruned) == (19, [4])
