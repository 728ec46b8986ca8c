"""`search.first`: settings that a search tries before all others, in every method, and the same trials as ever."""

import pytest

from sweeper.space import search_space
from sweeper.space.problems import SearchSpaceError
from tests.tiny_sweeps import with_seeds

SPACE = (
    with_seeds(2)
    .replace("width: 4", "width: {choice: [4, 8]}")
    .replace("q: 3", "q: {log_uniform: [1, 30]}")
    .replace(
        "{warmup_steps: 10}",
        "{choice: [{name: adam, beta1: {uniform: [0, 0.75], step: 0.25}}, {name: sgd, momentum: {uniform: [0, 0.9]}}]}",
    )
    .replace("batch_size: 8", "batch_size: {int: [8, 32], step: 4}")
    + "search: {method: random, trials: 6}\n"
)
FULL = "{model: {width: 8}, objective: {q: 5}, optimizer: {name: sgd, momentum: 0.5}, batch_size: 12}"
PARTIAL = "{optimizer: {name: adam, beta1: 0.5}}"


def read(first, text=SPACE, **search):
    overrides = [f"search.first={first}", *(f"search.{key}={value}" for key, value in search.items())]
    return search_space.of_text("x.yaml", text, overrides)


def told(trial):
    optimizer = trial.optimizer
    return trial.model.width, trial.objective.q, optimizer.name, getattr(optimizer, "momentum", None), trial.batch_size


def test_a_random_search_tries_them_first_and_draws_what_they_leave_out():
    without, space = read("[]").expand(), read(f"[{FULL}, {PARTIAL}]").expand()
    assert [told(trial) for trial in space.trials[:2]] == [(8, 5.0, "sgd", 0.5, 12)] * 2
    assert [trial.seed for trial in space.trials[:4]] == [0, 1, 0, 1]
    assert (space.trials[2].optimizer.name, space.trials[2].optimizer.beta1) == ("adam", 0.5)
    assert space.trial_ids[4:] == without.trial_ids  # `trials` are drawn beside them, as before
    written = "model.width=8", "objective.q=5", "optimizer={name: sgd, momentum: 0.5}", "batch_size=12", "seed=1"
    same = search_space.of_text("x.yaml", SPACE, [f"trial.{entry}" for entry in written])
    assert same.expand().trial_ids == (space.trial_ids[1],)


def test_an_entry_that_is_added_later_brings_its_own_trials_alone():
    before, after = (set(read(first).expand().trial_ids) for first in (f"[{PARTIAL}]", f"[{FULL}, {{}}, {PARTIAL}]"))
    assert before < after
    assert len(after - before) == 4


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["TPESampler", "RandomSampler", "NSGAIISampler", "QMCSampler"])
def test_optuna_is_asked_for_them_first(sampler):
    search = {"method": "optuna", "metric": "loss", "mode": "min", "sampler": f"{{name: {sampler}}}"}
    space = read(f"[{FULL}, {PARTIAL}]", **search)
    assert space.search.draws == 8
    study = space.search.study(space.tree, space.first)
    full, partial, *_ = [space.trials_of(study.ask()).trials[0] for _ in range(4)]
    assert told(full) == (8, 5.0, "sgd", 0.5, 12)
    assert (partial.optimizer.name, partial.optimizer.beta1) == ("adam", 0.5)


def test_a_grid_and_a_halving_begin_with_them_and_have_no_more_trials():
    grid = with_seeds(2).replace("q: 3", "q: {choice: [1, 3, 10]}").replace("width: 4", "width: {choice: [4, 8]}")
    halving = "search={method: halving, starts: 3, rungs: [{steps: 100, keep: 1}]}"
    for overrides, starts in ((), 1), ((halving,), 3):
        plain = search_space.of_text("x.yaml", grid, overrides).expand()
        space = search_space.of_text("x.yaml", grid, [*overrides, "search.first=[{objective: {q: 10}}]"]).expand()
        assert [trial.objective.q for trial in space.trials[: 4 * starts]] == [10] * 4 * starts
        assert sorted(space.trial_ids) == sorted(plain.trial_ids)
        assert space.settings == plain.settings


def test_an_entry_means_the_variant_that_has_it_or_else_a_drawn_one():
    text = SPACE + "variants: [{baseline: AE_R}, {baseline: Aq_R}, {model: {name: deep_sets}}]\n"
    for baseline in ("AE_R", "Aq_R"):
        first, *_ = read(f"[{{baseline: {baseline}, objective: {{q: 5}}}}]", text).expand().trials
        assert (first.baseline, first.objective.q if baseline == "Aq_R" else 5) == (baseline, 5)
    drawn = {read("[{objective: {q: 5}}]", text, seed=seed).expand().trials[0].baseline for seed in range(12)}
    assert drawn == {"AE_R", "Aq_R"}
    more = SPACE + "variants: [{model: {mlp: true}}, {}]\n"
    plain = {read("[{objective: {q: 5}}]", more, seed=seed).expand().trials[0].model.mlp for seed in range(6)}
    assert plain == {False}, "what a variant adds was not asked for"


@pytest.mark.parametrize(
    ("entry", "message"),
    {
        "{model: {width: 5}}": "model.width: is none of the choice: 4, 8; got 5",
        "{objective: {q: 31}}": "objective.q: must be between 1.0 and 30.0, got 31",
        "{objective: {q: many}}": "objective.q: must be between 1.0 and 30.0, got 'many'",
        "{batch_size: 9}": "batch_size: is none of the 7 values from 8 to 32, got 9",
        "{model: {widht: 4}}": "model.widht: the space has no such entry; did you mean 'width'?",
        "{steps: 10}": "steps: is no hole: every setting of this space has 300",
        "{seed: 1}": "seed: is not drawn: every setting has all of its seeds",
        "{optimizer: {name: lion}}": "optimizer.name: must be 'adam' here, got 'lion'",
        "{optimizer: {name: sgd, momentum: 2}}": "optimizer.momentum: must be between 0.0 and 0.9, got 2",
        "{optimizer: 3}": "optimizer: must be a mapping here, got 3",
        "{variables: {x: 1}}": "variables.x: the space has no such entry",
        "3": " should be a valid dictionary, got 3",
    }.items(),
)
def test_what_no_hole_has_is_one_line_with_its_place(entry, message):
    text = SPACE.replace("trials: 6}", f"trials: 6, first: [{FULL},\n  {entry}]}}")
    with pytest.raises(SearchSpaceError) as refused:
        search_space.of_text("x.yaml", text)
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"x.yaml:{len(text.splitlines())}: search.first[1]")
    assert message in line
