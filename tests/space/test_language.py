"""The language of search spaces: the examples of docs/search-space.md hold, and draws have their distributions."""

import contextlib
import copy
import itertools
import logging
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import optuna
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sweeper.events import PackProgressed
from sweeper.space import formulas, holes, other_tools
from sweeper.space.early_stopping import Asha, Pruner
from sweeper.space.problems import Problem, Refused, SearchSpaceError
from sweeper.space.search_methods import Sampler, Search
from sweeper.space.search_space import of_text
from sweeper.space.sweep_spec import SweepSpec
from sweeper.space.yaml_tree import RESERVED, Node, document_tree, plain
from sweeper.trial.plugins import ROOT

ONE = """
trial:
  task: {name: coloring, vertices: 5}
  model: {name: transformer, width: 8}
  baseline: Aq_R
  objective: {q: 2, m: 10}
  optimizer: {learning_rate: 1e-3}
  steps: 200
"""
"""A space of one setting."""

RANDOM = "search={method: random, trials: 1000}"


def space(*overrides: str) -> SweepSpec:
    return of_text(Path("space.yaml"), ONE, overrides)


def refused(*overrides: str) -> Problem:
    """The one problem, or the first of those that follow from it, for which a space is refused."""
    with pytest.raises(SearchSpaceError) as caught:
        space(*overrides)
    assert len(str(caught.value).splitlines()) == len(caught.value.problems)
    return caught.value.problems[0]


def table(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading of docs/search-space.md."""
    text = (ROOT / "docs/search-space.md").read_text().partition(f"# {heading}\n")[2]
    lines = list(itertools.takewhile(lambda line: line.startswith("|"), text[text.index("|") :].splitlines()))
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


# Worked examples

SEARCH = "search={method: random, trials: 20}"
RATES = "trial.optimizer.learning_rate={log_uniform: [1e-4, 1e-2]}"
OTHERS = {
    "a range with a step": (["trial.optimizer.beta1={uniform: [0.5, 0.9], step: 0.1}"], "5 trials"),
    "range(8, 65, 8)": (["trial.model.width={int: [8, 64], step: 8}"], "8 trials"),
    "integers, uniform in the logarithm": (["trial.batch_size={int: [8, 4096], log: true}", SEARCH], "20 trials"),
    "a linear grid": (["trial.objective.q={linspace: [1, 10, 4]}"], "4 trials"),
    "a logarithmic grid": (["trial.optimizer.learning_rate={logspace: [1e-4, 1e-1, 4]}"], "4 trials"),
    "a spaced grid in a random search": (
        ["trial.objective.q={each: {linspace: [1, 10, 4]}}", RATES, SEARCH],
        "80 trials",
    ),
    "a normal draw": (["trial.optimizer.beta1={normal: [0.8, 0.02]}", SEARCH], "20 trials"),
    "a log-normal draw": (["trial.optimizer.learning_rate={log_normal: [-7, 0.5]}", SEARCH], "20 trials"),
}
"""What the table of holes in the document says."""
EXAMPLES = {wanted: (codes(written), summary) for wanted, written, summary in table("Worked examples")} | OTHERS


@pytest.mark.parametrize("wanted", EXAMPLES)
def test_a_worked_example_has_the_settings_that_the_document_says(wanted):
    written, summary = EXAMPLES[wanted]
    spec = space(*written)
    assert spec.expand().summary == summary
    if spec.search.DRAWS:
        method = "search.method=optuna"
        drawn = space(*written, method)
        assert drawn.trials_of(drawn.search.study(drawn.tree).ask()).settings >= 1
    else:
        halving = space(*written, "search={method: halving, starts: 3, rungs: [{steps: 100, keep: 1}]}")
        assert halving.expand().settings == 3 * spec.expand().settings


def test_the_document_has_a_row_for_every_kind_of_hole_and_says_which_have_a_grid():
    grids: dict[str, list[bool]] = {}
    for written, taken, _ in table("Holes"):
        (code,) = codes(written)
        filled = re.sub(
            r"\ba\b", "2", re.sub(r"\bb\b", "8", re.sub(r"\b[nms]\b", "3", re.sub("a, b, c", "2, 8", code)))
        )
        problems: list[Problem] = []
        node = holes.with_holes(Node({"seed": document_tree(filled)}, "trial", 1), problems).value["seed"]
        assert not problems
        assert bool(node.value.options) == bool(re.search(r"\w", taken)), code
        grids.setdefault(re.findall(r"\w+", code)[0], []).append(bool(node.value.options))
    assert set(grids) == set(holes.KINDS)
    assert {*holes.KINDS, "formula"} == {*RESERVED, "seeds"}


# Coming from elsewhere

FIELDS = ("trial.model.width", "trial.optimizer.beta1", "trial.optimizer.learning_rate")
RANGES = "{uniform: [a, b]}, {log_uniform: [a, b]} or {int: [a, b]}"
ELSEWHERE = {
    # SEML
    "{type: choice, options: [8, 16]}": "{choice: […]}",
    "{type: range, min: 8, max: 64, step: 8}": RANGES,
    "{type: loguniform, min: 1e-4, max: 1e-1, num: 4}": "{linspace: […]} or {logspace: […]}",
    # W&B
    "{values: [8, 16]}": "{choice: […]}",
    "{values: [8, 16], probabilities: [0.1, 0.9]}": "weights: [1, 2, 3]",
    "{value: 8}": "the value alone",
    "{distribution: log_uniform_values, min: 1e-4, max: 1e-1}": RANGES,
    "{distribution: q_uniform, min: 0.1, max: 0.5, q: 0.1}": "{uniform: [a, b], step: s}",
    "{distribution: normal, mu: 0.5, sigma: 0.01}": "{normal: [m, s]}",
    "search.method=bayes": "'optuna'?",
    "search.metric={name: loss, goal: minimize}": "search.mode",
    # Hydra
    "range(8, 64, 8)": RANGES,
    "tag(log, interval(1e-4, 1e-1))": None,
    "${steps}": "{formula: 4 * trial.model.width}",
    # Optuna
    "{type: int, low: 8, high: 64, log: true}": RANGES,
    "'trial.suggest_int(\"w\", 8, 64, step=8)'": "{int: [a, b]}, which has both ends",
    "'trial.suggest_float(\"w\", 1e-4, 1e-1, log=True)'": RANGES,
    "'IntDistribution(low=8, high=64, log=True)'": "{int: [a, b]}, which has both ends",
    "'optuna.distributions.CategoricalDistribution(choices=[8, 16])'": "{choice: […]}",
    "search.method=tpe": "{method: optuna, sampler: {name: …}}",
    "search.mode=minimize": "'min'?",
    # Ray Tune and Hyperopt
    "{grid_search: [8, 16]}": "{choice: […]}",
    "tune.quniform(0.1, 0.5, 0.1)": "{uniform: [a, b], step: s}",
    "'tune.lograndint(lower=8, upper=64)'": "{int: [a, b], log: true}",
    "tune.qrandint(8, 64, 8)": "{int: [a, b]}, which has both ends",
    "{sample_from: 'lambda spec: 4 * spec.config.width'}": "{formula: 4 * trial.model.width}",
    "'hp.choice(\"w\", [8, 16])'": "{choice: […]}",
    # NNI, Guild, Determined and DVC, numpy
    "{_type: quniform, _value: [10, 50, 10]}": "such as {uniform: [a, b]}",
    "{type: int, minval: 8, maxval: 64, count: 4}": "{linspace: […]} or {logspace: […]}",
    "{range: {start: 8, stop: 64, step: 8}}": RANGES,
    "{of: trial.model.width, times: 4}": "{formula: 4 * trial.model.width}",
    "'range[8:64:8]'": RANGES,
    "{geomspace: [8, 64, 4]}": "{logspace: [a, b, n]}",
    "'np.linspace(8, 64, num=8)'": "{linspace: [a, b, n]}",
    # nobody
    "'[8:64:8]'": None,
}
"""What a tool writes, and what is to be written here."""


def _placed(code: str) -> list[str]:
    """Overrides that write a value: the code itself if it has a path, else the value in several fields."""
    return [code] if re.match(r"[a-z]+(\.\w+)+=", code) else [f"{field}={code}" for field in FIELDS]


@pytest.mark.parametrize("there", ELSEWHERE)
def test_what_other_tools_write_is_refused_with_what_it_is_here(there):
    here, of_search = ELSEWHERE[there], there.startswith("search")
    search = [] if of_search else ["search={method: random, trials: 3}"]
    for override in _placed(there):
        problem = refused(*search, override)
        assert (problem.path, problem.where) == (override.partition("=")[0], override)
        assert here in problem.message if here else other_tools.PAGE not in problem.message
        assert other_tools.PAGE in problem.message or not here or "'?" in here


def test_the_holes_and_names_that_users_of_other_tools_are_told_exist():
    told = " ".join(other_tools._THERE)
    assert set(re.findall(r"\{(\w+): ", told)) == {*RESERVED, "method", "name"} - {"each"}
    for name in re.findall(r"search\.(\w+)", told):
        assert name in Search.model_fields
    heading = other_tools.PAGE.partition("#")
    assert f"## {heading[2].capitalize()}\n" in (ROOT / heading[0]).read_text()


OPTUNA = "search={method: optuna, trials: 3"


@pytest.mark.parametrize(
    ("overrides", "path", "named"),
    [
        # another tool's words
        (["trial.steps={choice: [1, 2], probabilities: [0.1, 0.9]}"], "trial.steps.probabilities",
         "weights: [1, 2, 3]"),
        (["trial.optimizer.beta1={uniform: [0.1, 0.9], q: 0.2}"], "trial.optimizer.beta1.q",
         "{uniform: [a, b], step: s}"),
        (["trial.optimizer.beta1={uniform: [0.1, 0.9], log: true}"], "trial.optimizer.beta1.log",
         "{log_uniform: [a, b]}"),
        (["trial.optimizer.beta1={log_uniform: [0.1, 0.9], step: 0.2}"], "trial.optimizer.beta1.step", "log_uniform"),
        (["trial.steps={choice: {min: 1, max: 5}}"], "trial.steps.choice", "{uniform: [a, b]}, "),
        (["trial.steps={choice: 'range(1, 5)'}"], "trial.steps.choice", "{uniform: [a, b]}, "),
        (["trial.model.width={linspace: {start: 8, stop: 64, num: 8}}"], "trial.model.width.linspace",
         "{linspace: […]}"),
        (["trial.optimizer.beta1={logspace: {min: 0.1, max: 0.9, num: 3}}"], "trial.optimizer.beta1.logspace",
         "{linspace: […]}"),
        (["trial.optimizer.beta1={normal: {mu: 0.5, sigma: 0.1}}"], "trial.optimizer.beta1.normal",
         "{normal: [m, s]}"),
        (["trial.optimizer={values: [1, 2]}"], "trial.optimizer.values", "{choice: […]}"),
        (["trial={model.width: 8}"], "trial.'model.width'", "'model'?"),
        (["trial.steps='1" + ",    2" * 200 + ",'"], "trial.steps", "{choice: [...]}"),  # read in no time
        (["trial.trial=5"], "trial.trial", "task, model"),
        ([f"{OPTUNA}, sampler: {{trial: 3}}}}"], "search.sampler.trial", "n_startup_trials"),
        (["trial.zip={steps: [1, 2]}"], "trial.zip", "variants: [{…}, {…}]"),
        (["variants={a: {steps: 5}, b: {steps: 6}}"], "variants", ""),
        (["parameters={steps: {values: [1, 2]}}"], "parameters", "under trial"),
        (["method=nsga2"], "method", "'search.method'?"),
        (["early_terminate={type: hyperband}"], "early_terminate", "search.early_stopping"),
        (["n_trials=20"], "n_trials", "search.trials"),
        (["search={method: random, num_samples: 20}"], "search.num_samples", "search.trials"),
        ([f"{OPTUNA}, directions: [minimize, maximize]}}"], "search.directions", "search.mode"),
        ([f"{OPTUNA}, pruner: MedianPruner}}"], "search.pruner", "search.early_stopping"),
        ([f"{OPTUNA}, gaol: minimize}}"], "search.gaol", "method, trials, seed"),
        (["search={method: asha}"], "search.method", "search.early_stopping"),
        (["search={method: TPESampler}"], "search.method", "{method: optuna, sampler: {name: …}}"),
        ([f"{OPTUNA}, sampler: {{name: CmaEsSampler}}}}"], "search.sampler.name", "'cma_es'?"),
        ([f"{OPTUNA}, sampler: tpe}}"], "search.sampler", "'tpe'"),
        (["exclude={trial.model.width: [8, 12]}"], "exclude", ""),
        (["exclude=[{trial.model.width: 8, model: {heads: 3}}]"], "exclude[0]",
         ""),
        (["exclude='trial.steps > 3'"], "exclude", "'trial.steps > 3'"),
        # holes of this language
        (["trial.model.width={formula: {choice: [8]}}"], "trial.model.width.formula", ""),
        (["trial.model.width={each: {int: [8, 64]}}"], "trial.model.width.each", ""),
        (["trial.model.width={each: {int: [8, 200000], step: 1}}"], "trial.model.width.each", "50,000"),
        (["trial.model.width={each: []}"], "trial.model.width.each", ""),
        (["trial.model.width={each: {linspace: [1, 9, 3]}, step: 2}"], "trial.model.width.step", "each"),
        (["trial.steps={linspace: [1, 9]}"], "trial.steps.linspace[2]", ""),
        (["trial.steps={linspace: [1, 9, 1]}"], "trial.steps.linspace[2]", "2, got 1"),
        (["trial.steps={linspace: [1, 9, 3, 4]}"], "trial.steps.linspace", "3"),
        (["trial.steps={formula: 5, log: true}"], "trial.steps.log", "formula"),
        (["trial.steps={linspace: [1, 9, 4]}"], "trial.steps.linspace", ""),
        (["trial.optimizer.beta1={logspace: [-4, -1, 4]}"], "trial.optimizer.beta1.logspace[0]", "-4"),
        (["trial.steps={int: [1, 9], step: 0.5}"], "trial.steps.step", "0.5"),
        (["trial.steps={int: [1, 9], step: 20}"], "trial.steps.step", "20"),
        (["trial.optimizer.beta1={uniform: [0.1, 0.5], step: 1e-30}", f"{OPTUNA}}}"], "trial.optimizer.beta1.step",
         "1e-30"),
        (["trial.steps={int: [1, 9], step: 2, log: true}"], "trial.steps.log", "logspace"),
        (["trial.steps={int: [0, 9], log: true}"], "trial.steps.int[0]", "0"),
        (["trial.steps={int: [1, 9], log: 2}"], "trial.steps.log", "2"),
        (["trial.steps={int: [{formula: trial.model.width}, 9]}"], "trial.steps.int[0]", "formula"),
        (["trial.steps={normal: [100, 0]}"], "trial.steps.normal[1]", "0"),
        (["trial.steps={normal: [100, 5]}", SEARCH], "trial.steps.normal[0]", "{int: [a, b]}"),
        (["trial.optimizer.beta1={normal: [0.5, 0.1]}"], "trial.optimizer.beta1", "search.method random or optuna"),
        (["trial.model.width={each: {linspace: [1, 12, 12]}}", RANDOM.replace("000", "00000")], "trial", "1,200,000"),
        # searches
        (["search={method: random, trials: [3, 4]}"], "search.trials", "2"),
        ([f"{OPTUNA}, metric: [loss, success], mode: min}}"], "search.mode", "2"),
        (["search={method: random, trials: 3, metric: [loss, success], mode: [min, max]}"], "search.metric", "random"),
        (["search={early_stopping: {metric: loss, mode: min, grace_steps: 5}}"], "search.early_stopping.metric",
         "'every: 1000'"),
        (["search={early_stopping: {name: median}}"], "search.early_stopping", "'every: 1000'"),
        (["search={early_stopping: {metric: los, mode: min, every: 5, grace_steps: 5}}"],
         "search.early_stopping.metric", "'loss'?"),
    ],
)  # fmt: skip
def test_each_mistake_is_told_with_its_path_and_what_to_write(overrides, path, named):
    problem = refused(*overrides)
    assert problem.path == path
    assert named in problem.message
    assert problem.message.isprintable()


def test_a_range_with_a_step_may_be_taken_in_full():
    in_full = space("trial.model.width={each: {int: [8, 64], step: 8}}", "search={method: random, trials: 3}")
    assert in_full.expand().summary == "24 settings, 16 equal to others, 8 trials"


def test_samplers_that_need_further_packages_name_them(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name, package in (("gp", "torch"), ("cma_es", "cmaes")):
        problem = refused(f"{OPTUNA}, sampler: {{name: {name}}}}}")
        assert problem.path == "search.sampler.name"
        assert f"pip install {package}" in problem.message


def names_of(record: Any) -> tuple[str, ...]:
    return get_args(record.model_fields["name"].annotation)


@pytest.mark.parametrize("name", names_of(Sampler))
def test_every_sampler_is_optunas_with_the_arguments_beside_its_name(name, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    made = Sampler.model_validate({"name": name}).with_arguments(seed=3)
    assert type(made) is getattr(optuna.samplers, type(made).__name__)
    assert re.sub("[a-z]", "", type(made).__name__)[0] == name[0].upper()


@pytest.mark.parametrize("name", ["asha", *names_of(Pruner)])
def test_every_method_of_early_stopping_lets_the_best_go_on(name):
    needed = {"threshold": {"upper": 0.3}, "percentile": {"percentile": 25}, "asha": {"grace_steps": 5}}
    method = (Asha if name == "asha" else Pruner).model_validate({"name": name, "every": 5, **needed.get(name, {})})
    rule = method.rule()
    packs = [
        PackProgressed(f"pack {n}", "training", 5, 9, 1, {}, 0.5 - n / 20, 1.0, None, (5, 0.5 - n / 20))
        for n in range(9)
    ]
    stopped = [rule.stops(progress) for progress in packs]
    assert not stopped[-1], "the best of all"
    assert not any(map(rule.stops, packs)), "a pack that comes to a step again is not compared again"
    for progress in packs:
        rule.ended(progress.pack_id)


MEDIAN = "search={early_stopping: {name: median, every: 5"
PERCENTILE = "search={early_stopping: {name: percentile, every: 5, percentile: 50.0"


@pytest.mark.parametrize(
    ("override", "path", "named"),
    [
        (f"{OPTUNA}, sampler: {{name: tpe, n_startup_trials: x}}}}", "search.sampler.n_startup_trials", "'x'"),
        (f"{OPTUNA}, sampler: {{name: tpe, n_startup_trials: true}}}}", "search.sampler.n_startup_trials", "true"),
        (f"{OPTUNA}, sampler: {{n_strtup_trials: 3}}}}", "search.sampler.n_strtup_trials", "'n_startup_trials'?"),
        (f"{OPTUNA}, sampler: {{seed: 3}}}}", "search.sampler.seed", "n_startup_trials"),
        (f"{OPTUNA}, sampler: {{gamma: 3}}}}", "search.sampler.gamma", "n_startup_trials"),
        (
            f"{OPTUNA}, sampler: {{name: nsga2, population_size: 1}}}}",
            "search.sampler.population_size",
            "population_size",
        ),
        (f"{OPTUNA}, sampler: {{name: qmc, qmc_type: sobel}}}}", "search.sampler.qmc_type", "sobol"),
        (f"{MEDIAN}, n_warmup: 1}}}}", "search.early_stopping.n_warmup", "'n_warmup_steps'?"),
        (f"{MEDIAN}, n_startup_trials: -1}}}}", "search.early_stopping.n_startup_trials", "-1"),
        (
            "search={early_stopping: {name: hyperband, every: 5, min_resource: 0}}",
            "search.early_stopping",
            "zero",
        ),
        ("search={early_stopping: {name: percentile, every: 5}}", "search.early_stopping.percentile", ""),
        (f"{PERCENTILE}, n_startup_trials: x}}}}", "search.early_stopping.n_startup_trials", "'x'"),
        (f"{PERCENTILE}, interval_steps: 0}}}}", "search.early_stopping.interval_steps", "0"),
        (f"{PERCENTILE}, n_warmup: 1}}}}", "search.early_stopping.n_warmup", "'n_warmup_steps'?"),
        (f"{PERCENTILE}, mode: up}}}}", "search.early_stopping.mode", "'up'"),
        ("search={early_stopping: {name: threshold, every: 5}}", "search.early_stopping", "lower"),
    ],
)
def test_an_argument_that_optuna_does_not_know_or_take_is_told_with_its_place(override, path, named):
    with pytest.raises(SearchSpaceError) as caught:
        space(override)
    (problem,) = caught.value.problems
    assert (problem.path, problem.where) == (path, override)
    assert named in problem.message


def test_all_arguments_that_optuna_does_not_know_are_told_whatever_their_names():
    with pytest.raises(SearchSpaceError) as caught:
        space(f"{OPTUNA}, sampler: {{name: tpe, N: 1, 'a b': 2, trials: 3}}}}")
    assert [problem.path for problem in caught.value.problems] == [
        f"search.sampler.{name}" for name in ("N", "'a b'", "trials")
    ]


def test_optuna_says_nothing_of_its_own_when_a_pruner_is_made(caplog, monkeypatch):
    optuna.logging.set_verbosity(optuna.logging.INFO)  # as at the start of a process
    monkeypatch.setattr(logging.getLogger("optuna"), "propagate", True)
    Pruner(name="median", every=5).rule()
    assert caplog.messages == []


def test_asha_stops_all_but_the_best_share_at_each_rung():
    rule = Asha(grace_steps=10, reduction_factor=2).rule()

    def stops(pack_id: str, step: int, loss: float) -> bool:
        return rule.stops(PackProgressed(pack_id, "training", step, 99, 1, {}, loss, 1.0))

    assert not stops("a", 9, 9.0), "before the first rung"
    assert [stops(name, 12, loss) for name, loss in zip("abcd", (0.1, 0.5, 0.3, 0.4), strict=True)] == [0, 1, 0, 1]
    assert [stops(name, step, 0.3 - step / 100) for name, step in (("c", 19), ("c", 20), ("a", 22))] == [0, 0, 0]
    assert stops("e", 25, 0.2), "compared at the second rung alone"
    assert not stops("f", 12, math.nan)


# Formulas


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("0.7 % 0.1 + 0.3 // 0.1 + floor(0.3 / 0.1) + ceil(0.1 * 3 / 0.1)", 9),  # by the digits, not by the bits
        ("16 // 0.5 + 7 // 2.5", 34),
        ("4 * trial.model.width", 32),
        ("trial.model.width / 2", 4),  # of integers that divide each other an integer
        ("2 + 3 * 4 ** 2 // 5 % 7 - -1", 2 + 3 * 4**2 // 5 % 7 - -1),
        ("-2 ** 2 + 8", 4),
        ("max(3, min(trial.model.width, 100)) + abs(-1) + floor(2.9) + ceil(2.1) + round(2.5)", 17),
        ("sqrt(16) * log2(8) + log10(100) + exp(0) + log(1)", 15),
    ],
)
def test_a_formula_has_the_value_of_its_arithmetic(formula, value):
    (trial,) = space(f"trial.optimizer.eps={{formula: '{formula}'}}").expand().trials
    assert trial.optimizer.eps == value


@pytest.mark.parametrize("place", ["objective.q={}", "model={{choice: [{{name: transformer, width: {}}}]}}",
                                   "evaluation={{votes: [5, {}]}}", "batch_size={{choice: [3, {}]}}",
                                   "seed={}", "baseline={{formula: AE_R}}"])  # fmt: skip
def test_a_formula_stands_wherever_a_value_may_stand(place):
    trials = space(f"trial.{place.format('{formula: trial.steps / 20}')}").expand().trials
    assert "10" in str(trials[-1].model_dump()) or "AE_R" in place


def test_a_formula_may_need_another_and_real_values_have_twelve_digits():
    spec = space("trial.optimizer.beta1={formula: trial.optimizer.beta2 / 3}", "trial.optimizer.beta2={formula: 1 / 3}")
    (trial,) = spec.expand().trials
    assert (trial.optimizer.beta2, trial.optimizer.beta1) == (0.333333333333, 0.111111111111)


NESTED = {
    "chain": ("1 < (", "2", ") < 1"),
    "chain of a missing entry": ("0 == (", "trial.x", ") == 0"),
    "in": ("(", "1", ") in [true, false]"),
    "members": ("1 in [1 < 2 < 3, ", "2", "]"),
    "and": ("(true and ", "1 == 1", ") == true != false"),
    "not": ("not (", "1 == 1 == 1", ")"),
    "function": ("max(1, ", "2", ")"),
    "minus": ("1 - (", "2", ") - 1"),
}


@pytest.mark.parametrize("kind", NESTED)
def test_a_formula_takes_a_time_that_is_linear_in_its_length(kind):
    """Each part is read and computed once, however deep it is; counted by the calls of Python functions."""
    before, within, after = NESTED[kind]

    def calls(depth):
        count = itertools.count()
        sys.setprofile(lambda frame, event, argument: event == "call" and next(count))
        try:
            with contextlib.suppress(Refused, formulas.NoValue):
                node = Node(formulas.Formula(before * depth + within + after * depth), "exclude[0]", None)
                formulas.exclusion_in(Node({}, "trial", None), [node])
        finally:
            sys.setprofile(None)
        return next(count)

    assert calls(12) < 2.5 * calls(6)


@pytest.mark.parametrize("formula", ["{0} or {0}", "{0} == 1 or {0} == 2", "max({0}, {0})"])
@pytest.mark.parametrize("first", ["trial.x", "1"])
def test_formulas_that_need_each_other_are_computed_once_each(formula, first):
    """Also those that need an entry that is not there."""
    above = [Node(formulas.Formula(first), "variables.v0", 1)]
    for number in range(1, 40):
        text = formula.format(f"variables.v{number - 1}")
        above.append(Node(formulas.Formula(text), f"variables.v{number}", 1))
    names = {f"v{number}": node for number, node in reversed(list(enumerate(above)))}
    tree = Node({"trial": Node({}, "trial", 1), "variables": Node(names, "variables", 1)}, "", 1)
    count = itertools.count()
    sys.setprofile(lambda frame, event, argument: event == "call" and next(count) > 20_000 and pytest.fail("too long"))
    try:
        with contextlib.suppress(Refused):
            formulas.resolved(tree)
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize(
    ("formula", "named"),
    [
        ("trial.modle.width", "'model'"),
        ("trial.objective.final_q", "trial.objective.final_q"),
        ("trial.steps + 1", "trial.steps.formula → trial.steps.formula"),
        ("trial.baseline * 2", "trial.baseline is 'Aq_R'"),
        ("trial.model * 2", "trial.model"),
        ("width * 2", "'width'"),
        ("model.width * 2", "'model.width'"),
        ("trial.model.width / 3", "2.66666666667; write round(…)"),
        ("trial.model.width * 1.5", "12.0; write round(…)"),
        ("1 / 0", "0"),
        ("9 ** 9 ** 9", ""),
        ("1.5 ** 1e9", ""),
        ("(-8) ** 0.5", "-8, 0.5"),
        ("log(0)", "log"),
        ("sin(1)", "sin (known: abs, "),
        ("max", "'max'"),
        ("2 *", "'2 *'"),
        ("2 3", "'3'"),
        ("trial.steps = 3", "=="),
        ("1 if true else 2", "variants"),
        ("trial.steps in []", "'[]'"),
        ("4 * 2 # 3", "'# 3'"),
        ("trial.steps in 3", "'3'"),
        ("trial.steps in [1] == 2", "'[1]'"),
        ('__import__("os").system("x")', "__import__("),
        ("[x for x in [1]]", "'[x for x in [1]]'"),
        ("trial.steps[trial.seed]", "'trial.steps[trial.seed]'"),
        ("trial.steps[True]", "'trial.steps[True]'"),
        ("1j", "'1j'"),
        ("(" * 100, "'('"),
        ("1 +" * 800 + "1", "2,000"),
        ("not " * 200 + "true", "100"),
        ("-" * 900 + "1", "100"),
        ("1 \\0", ""),
    ],
)
def test_a_formula_without_value_is_told_with_its_place_and_its_part(formula, named):
    problem = refused(f"trial.steps={{formula: '{formula}'}}")
    assert problem.path == "trial.steps.formula"
    assert named in problem.message


def test_the_longest_formula_has_a_value():
    longest = (f"trial.steps={{formula: {'1+' * 99}1}}", f"exclude=[{' or '.join(['trial.steps > 999'] * 50)}]")
    (trial,) = space(*longest).expand().trials
    assert trial.steps == 100


@pytest.mark.slow
def test_formulas_in_a_circle_name_all_of_it():
    problem = refused("trial.steps={formula: trial.batch_size}", "trial.batch_size={formula: trial.steps}")
    assert "trial.steps.formula → trial.batch_size.formula → trial.steps.formula" in problem.message
    chain = ", ".join(f"{{formula: 'trial.evaluation.votes[{n}]'}}" for n in range(1, 900))
    assert refused(f"trial.evaluation={{seeds: 900, votes: [{chain}, 3]}}").path.startswith("trial.evaluation.votes[")


_ATOMS = st.sampled_from(["1", "2", "3", "0.5", "trial.a", "trial.b"])
_SUMS = st.recursive(
    _ATOMS,
    lambda below: (
        st.builds("({} {} {})".format, below, st.sampled_from(["+", "-", "*", "//", "%"]), below)
        | st.builds("2 ** (({}) % 3) ** 2".format, below)
        | st.builds("-({}) ** 2 // 3".format, below)
        | st.builds("{} {} {}".format, below, st.sampled_from(["+", "-", "*"]), below)
        | st.builds("max({}, {})".format, below, below)
        | below.map("-{}".format)
    ),
    max_leaves=8,
)
_CONDITIONS = st.recursive(
    st.builds("{} {} {}".format, _SUMS, st.sampled_from(["<", "<=", "==", "!=", ">"]), _SUMS)
    | st.builds("{} in [{}, {}]".format, _SUMS, _SUMS, _SUMS)
    | st.builds("{} < {} <= {}".format, _SUMS, _SUMS, _SUMS),
    lambda below: (
        st.builds("{} and {}".format, below, below)
        | st.builds("({} or {})".format, below, below)
        | below.map("not {}".format)
    ),
    max_leaves=4,
)


@pytest.mark.slow
@given(text=_SUMS | _CONDITIONS, a=st.integers(-5, 5), b=st.floats(-4, 4).map(lambda x: round(x, 2)))
@settings(max_examples=300)
def test_formulas_have_the_precedence_and_the_values_of_python(text, a, b):
    trial = Node({"a": Node(a, "trial.a", 1), "b": Node(b, "trial.b", 1)}, "trial", 1)
    setting = Node({"trial": trial}, "", 1)
    python = text.replace("trial.", "")
    try:
        # Fractions divide with rest in decimals, as formulas do.
        expected = eval(
            re.sub(r"0\.5", "half", python), {"max": max}, {"a": a, "b": Fraction(repr(b)), "half": Fraction(1, 2)}
        )
    except (ZeroDivisionError, OverflowError):
        expected = None
    try:
        found = formulas.Resolution(setting).value(Node(formulas.Formula(text), "x", 1))
    except (Refused, formulas.NoValue):
        found = None
    if found is None:
        assert expected is None or isinstance(expected, complex) or abs(expected) > 1e15
    else:
        assert found == pytest.approx(expected, nan_ok=True)


_HOSTILE = st.recursive(
    _ATOMS | st.sampled_from(["1e308", "9 ** 9", "true", "'a'", "[]", "trial", "trial.c", "1j", "\\0", "é", ""]),
    lambda below: (
        st.builds(
            "({}){}({})".format, below, st.sampled_from(["<", "<<", " in ", " if ", "**", ",", " and ", "//"]), below
        )
        | st.builds("{}({})".format, st.sampled_from(["", "not ", "-", "max", "exp", "log", "lambda: "]), below)
        | st.builds("1{0}({1}){0}1".format, st.sampled_from(["<", "==", "<="]), below)
    ),
    max_leaves=6,
)


@pytest.mark.slow
@given(
    part=_HOSTILE,
    around=st.sampled_from(["1<({})<1", "-({})", "max({}, 1)", "({})**2", "({})"]),
    deep=st.integers(0, 40),
)
@settings(max_examples=300, deadline=1000)
def test_no_formula_is_a_traceback_or_takes_long(part, around, deep):
    before, _, after = around.partition("{}")
    text = before * deep + part + after * deep
    trial = Node({"a": Node(3, "trial.a", 1), "b": Node(0.5, "trial.b", 1)}, "trial", 1)
    with contextlib.suppress(Refused, formulas.NoValue):
        formulas.Resolution(trial).value(Node(formulas.Formula(text), "x", 1))


# Settings, by a plain second implementation


def naive(data: Any) -> Iterator[Any]:
    """Every setting of a space of the test below, formulas not yet computed."""
    if isinstance(data, list):
        yield from map(list, itertools.product(*(list(naive(item)) for item in data)))
    elif not isinstance(data, dict):
        yield data
    elif "choice" in data or "each" in data:
        for entry in data.get("choice", data.get("each")):
            yield from naive(entry)
    elif "linspace" in data:
        first, last, number = data["linspace"]
        yield from (first + (last - first) * i / (number - 1) for i in range(number))
    elif "logspace" in data:
        first, last, number = data["logspace"]
        yield from (round(first * (last / first) ** (i / (number - 1)), 9) for i in range(number))
    elif "step" in data:
        low, high = data.get("int", data.get("uniform"))
        value = low
        while value <= high + 1e-9:
            yield value
            value += data["step"]
    else:
        for values in itertools.product(*(list(naive(entry)) for entry in data.values())):
            yield dict(zip(data, values, strict=True))


def naive_settings(data: dict[str, Any], excluded: str) -> list[dict[str, Any]]:
    kept = []
    trial = {key: value for key, value in data["trial"].items() if not _is_formula(value)}
    for setting in map(copy.deepcopy, naive(data | {"trial": trial})):
        names = {section: SimpleNamespace(**values) for section, values in setting.items()}
        for key, value in data["trial"].items():
            if _is_formula(value):
                setting["trial"][key] = eval(value["formula"], {}, names)
                setattr(names["trial"], key, setting["trial"][key])
        if not eval(excluded, {}, names):
            kept.append(setting)
    return kept


def _is_formula(value: Any) -> bool:
    return isinstance(value, dict) and "formula" in value


_NUMBERS = st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True)
_LEAF = (
    st.integers(1, 9)
    | st.builds(lambda a, n: {"linspace": [a, a + 2 * (n - 1), n]}, st.integers(1, 5), st.integers(2, 4))
    | st.builds(lambda a, n: {"logspace": [a, a * 2 ** (n - 1), n]}, st.integers(1, 4), st.integers(2, 4))
    | st.builds(
        lambda a, s, n: {"int": [a, a + s * n], "step": s}, st.integers(1, 5), st.integers(1, 3), st.integers(1, 3)
    )
    | st.builds(lambda a, n: {"uniform": [a, a + 0.25 * n], "step": 0.25}, st.integers(1, 5), st.integers(1, 3))
    | _NUMBERS.map(lambda values: {"choice": values})
    | _NUMBERS.map(lambda values: {"each": values})
)
_TRIALS = st.fixed_dictionaries(
    {
        "a": _LEAF,
        "b": _LEAF | st.builds(lambda leaf: {"choice": [leaf, 77]}, _LEAF),
        "c": st.sampled_from([{"formula": "2 * trial.a"}, {"formula": "trial.a % 3 + variables.x"}]),
        "d": st.lists(_LEAF, min_size=1, max_size=2),
        "e": st.fixed_dictionaries({"x": _LEAF}),
    }
)
_SPACES = st.fixed_dictionaries({"variables": st.fixed_dictionaries({"x": _LEAF}), "trial": _TRIALS})


@pytest.mark.slow
@given(
    data=_SPACES, excluded=st.sampled_from(["trial.a > trial.b", "trial.c % 2 == 0", "trial.a == 1 or variables.x < 3"])
)
@settings(max_examples=60)
def test_a_space_has_the_settings_of_a_plain_second_implementation(data, excluded):
    problems: list[Any] = []
    read = document_tree(yaml.safe_dump(data, sort_keys=False))
    tree = read.with_children([holes.with_holes(section, problems) for section in read.children])
    assert not problems
    condition = Node(formulas.Formula(excluded), "exclude[0]", 1)
    trees = list(map(formulas.resolved, holes.grid(tree)))
    assert len(trees) == holes.grid_size(tree) == len(list(naive(data)))
    found = [plain(each) for each in trees if not formulas.exclusion_in(each, [condition])]
    assert sorted(map(_canonical, found)) == sorted(map(_canonical, naive_settings(data, excluded)))
    if "each" not in str(data):
        return
    setting = {each.path: each.value.drawn(0.4) for each in holes.holes_in(tree) if each.value.DRAWN}
    assert len(list(holes.grid(holes.filled(tree, setting)))) <= holes.grid_size(tree, draws=True)


def _canonical(value: Any) -> str:
    if isinstance(value, dict):
        return str({key: _canonical(entry) for key, entry in sorted(value.items())})
    return str([_canonical(item) for item in value]) if isinstance(value, list) else f"{value:.5g}"


# Draws

DRAWN = {
    "optimizer.learning_rate": ("{log_normal: [-6, 0.5]}", stats.lognorm(0.5, scale=math.exp(-6))),
    "optimizer.beta1": ("{normal: [0.5, 0.02]}", stats.norm(0.5, 0.02)),
    "optimizer.weight_decay": ("{log_uniform: [1e-5, 1e-1]}", stats.loguniform(1e-5, 1e-1)),
    "optimizer.clip_norm": ("{uniform: [1, 3]}", stats.uniform(1, 2)),
    "optimizer.beta2": ("{uniform: [0.5, 0.9], step: 0.1}", dict.fromkeys((0.5, 0.6, 0.7, 0.8, 0.9), 0.2)),
    "optimizer.eps": ("{logspace: [1e-8, 1e-5, 4]}", dict.fromkeys((1e-8, 1e-7, 1e-6, 1e-5), 0.25)),
    "optimizer.warmup_steps": ("{int: [10, 70], step: 20}", dict.fromkeys((10, 30, 50, 70), 0.25)),
    "objective.q": ("{linspace: [1, 10, 4]}", dict.fromkeys((1, 4, 7, 10), 0.25)),
    "batch_size": ("{int: [1, 8], log: true}",
                   {n: math.log((n + 0.5) / (n - 0.5)) / math.log(17) for n in range(1, 9)}),
}  # fmt: skip


def _value(trial: Any, path: str) -> Any:
    for part in path.split("."):
        trial = getattr(trial, part)
    return trial


@pytest.mark.slow
def test_a_thousand_draws_have_their_distributions_and_are_independent():
    spec = space(RANDOM, *(f"trial.{path}={text}" for path, (text, _) in DRAWN.items()))
    trials = spec.expand().trials
    assert len(trials) == 1000
    for path, (_, expected) in DRAWN.items():
        values = [_value(trial, path) for trial in trials]
        assert all(float(f"{value:.6g}") == value for value in values)
        if isinstance(expected, dict):
            counts = Counter(values)
            assert set(counts) <= set(expected)
            found = [counts[value] for value in expected]
            p = stats.chisquare(found, [1000 * share for share in expected.values()]).pvalue
        else:
            p = stats.kstest(values, expected.cdf).pvalue
        assert p > 1e-3, path
    for one, other in itertools.combinations(DRAWN, 2):
        correlation = stats.spearmanr([_value(t, one) for t in trials], [_value(t, other) for t in trials])
        assert correlation.pvalue > 1e-4, (one, other)


@pytest.mark.parametrize(
    ("kind", "rate", "named"),
    [
        ("log_normal[0]", "{log_normal: [0, 60]}", "3.4e+38"),
        ("log_normal[0]", "{log_normal: [-60, 30]}", "1.18e-38"),
        ("formula", "{formula: 10 ** -(trial.steps + trial.batch_size)}", "1.18e-38"),
        ("normal[0]", "{normal: [1, 1]}", "greater than 0"),
    ],
)
def test_every_draw_and_every_result_of_a_formula_fits_its_field(kind, rate, named):
    sums = ["trial.steps={choice: [10, 25]}", "trial.batch_size={choice: [10, 25]}"]
    spec = space("search={method: random, trials: 50}", *sums, f"trial.optimizer.learning_rate={rate}")
    with pytest.raises(SearchSpaceError) as caught:
        spec.expand()
    assert {problem.path for problem in caught.value.problems} == {f"trial.optimizer.learning_rate.{kind}"}
    assert named in caught.value.problems[0].message
    assert len(caught.value.problems) <= 2, "one line for each kind of mistake, not for each draw"


def test_draws_stay_when_a_hole_a_step_or_a_condition_joins_and_a_longer_search_extends_a_shorter():
    rate = "trial.optimizer.learning_rate={log_normal: [-6, 0.5]}"
    size = "trial.batch_size={int: [1, 100], log: true}"
    before = [
        trial.optimizer.learning_rate for trial in space("search={method: random, trials: 50}", rate).expand().trials
    ]
    more = space("search={method: random, trials: 80}", rate, size, "trial.steps={int: [100, 200], step: 50}")
    trials = more.expand().trials
    assert [trial.optimizer.learning_rate for trial in trials[:50]] == before
    fewer = space(*more.overrides, "exclude=[trial.batch_size > 50]").expand()
    assert list(fewer.trials) == [trial for trial in trials if trial.batch_size <= 50]
    assert fewer.left_out == {"trial.batch_size > 50": 80 - len(fewer.trials)}


@pytest.mark.parametrize("method", ["grid", "random", "optuna"])
@pytest.mark.parametrize(
    ("ends", "step", "values"),
    [
        ([0.1234567, 0.1234569], 1e-7, {0.1234567, 0.1234568, 0.1234569}),
        ([0.1234567, 0.5], 0.1, {0.1234567, 0.2234567, 0.3234567, 0.4234567}),
        ([0.1, 0.4], 0.1, {0.1, 0.2, 0.3, 0.4}),
    ],
)
def test_steps_are_the_decimal_sums_of_what_is_written(method, ends, step, values):
    search = ["search.trials=20"] if method != "grid" else []
    spec = space(f"trial.optimizer.beta1={{uniform: {ends}, step: {step}}}", f"search.method={method}", *search)
    if method == "optuna":
        study = spec.search.study(spec.tree)
        trials = [trial for _ in range(20) for trial in spec.trials_of(study.ask()).trials]
    else:
        trials = list(spec.expand().trials)
    assert {_value(trial, "optimizer.beta1") for trial in trials} == values


def test_variants_with_own_numbers_of_draws_are_drawn_apart():
    variants = "variants=[{}, {model: {attention: softmax}}]"
    rate = "trial.optimizer.learning_rate={log_uniform: [1e-4, 1e-1]}"
    linear, softmax = [], []
    for first in (3, 9):
        trials = space(f"search={{method: random, trials: [{first}, 4]}}", variants, rate).expand().trials
        for rates, kind in ((linear, "linear"), (softmax, "softmax")):
            own = [trial for trial in trials if trial.model.model_dump()["attention"] == kind]
            rates.append([trial.optimizer.learning_rate for trial in own])
    assert [len(rates) for rates in (*linear, *softmax)] == [3, 9, 4, 4]
    assert linear[0] == linear[1][:3]
    assert softmax[0] == softmax[1]
    assert not set(linear[1]) & set(softmax[1])


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("trial.optimizer.learning_rate == 0.1 + 0.2", 1),
        ("trial.optimizer.learning_rate in [0.1 + 0.2, 0.1 * 6]", 2),
        ("trial.optimizer.learning_rate <= 0.1 * 3", 3),
        ("trial.optimizer.learning_rate < 0.1 * 3", 2),
        ("trial.optimizer.learning_rate % 0.1 == 0 and 0.1 * 6 >= trial.optimizer.learning_rate", 6),
        ("trial.optimizer.learning_rate * 3 == trial.optimizer.eps", 1),
    ],
)
def test_real_numbers_in_conditions_are_compared_by_their_digits(condition, count):
    rates = ["trial.optimizer.learning_rate={linspace: [0.1, 0.7, 7]}", "trial.optimizer.eps=0.9"]
    assert space(*rates, f"exclude=['{condition}']").expand().left_out == {condition: count}


@pytest.mark.parametrize(
    ("condition", "named"),
    [
        ("steps == 200", "trial.steps"),
        ("trial.model.width == 8 and heads in [3]", "trial.model.heads"),
        ("trial.model.heads == width", "trial.model.width"),
        ("AE_R == trial.baseline", "'AE_R'"),
        ("1 > 2", ""),
        ("trial.model.haeds > 1", "'trial.model.heads'?"),
    ],
)
def test_a_condition_that_could_never_matter_is_refused(condition, named):
    problem = refused("trial.model.heads={choice: [1, 3]}", f"exclude=['{condition}']")
    assert problem.path == "exclude[0]"
    assert named in problem.message


MODELS = "trial.model={choice: [{name: transformer, width: 8, heads: {choice: [1, 3]}}, {name: deep_sets, width: 8}]}"


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("trial.model.name == deep_sets or trial.model.heads > 1", [1]),
        ("trial.model.heads > 1 or trial.model.name == deep_sets", [1]),
        ("trial.model.heads > 1 and trial.model.width == 8", [1, None]),
        ("trial.model.width != 8 and trial.model.heads > 1", [1, 3, None]),
        ("not trial.model.heads > 1", [3, None]),
        ("not (trial.model.heads > 1 or trial.model.width == 9)", [3, None]),
    ],
)
def test_a_comparison_with_an_entry_that_is_not_there_neither_holds_nor_fails(condition, kept):
    trials = space(MODELS, f"exclude=['{condition}']").expand().trials
    assert [getattr(trial.model, "heads", None) for trial in trials] == kept


def test_a_condition_on_an_entry_that_a_setting_does_not_have_leaves_the_setting_in():
    expansion = space(MODELS, "exclude=[trial.model.width % trial.model.heads != 0]").expand()
    assert [trial.model.name for trial in expansion.trials] == ["transformer", "deep_sets"]
    assert "trial.model.haeds" in refused(MODELS, "exclude=[trial.model.haeds > 1]").message
    with pytest.raises(SearchSpaceError, match=r"exclude: .* 3$"):
        space(MODELS, "exclude=[trial.steps > 1]").expand()
    assert "trial.model.width % 3 != 0" in refused(MODELS, "exclude=[trial.model.width % 3]").message


@pytest.mark.slow
def test_names_are_known_although_conditions_leave_out_many_values_before_them():
    steps = "trial={steps: {choice: [1, " + ", ".join(map(str, range(-1002, 0))) + "]}"
    tasks = "task: {choice: [{name: coloring, vertices: 5}, {name: recall, keys: 3, value_bits: 2, seed_bits: 2}]}"
    rest = "model: {name: transformer, width: 8}, baseline: Aq_R, objective: {m: 10}}"
    found = space(f"{steps}, {tasks}, {rest}", "exclude=[trial.steps < 0]", "search={metric: stored_items, mode: max}")
    assert found.names.tasks == ["coloring", "recall"]


@pytest.mark.slow  # the first use of optax
def test_an_adaptive_search_of_experiments_must_name_its_metric():
    trial = "trial: {experiment: {name: classification, width: {choice: [8, 16]}}, steps: 2}"
    search = "search: {method: optuna, trials: 2"
    with pytest.raises(SearchSpaceError) as caught:
        of_text(Path("space.yaml"), f"name: s\n{trial}\n{search}}}\n", ())
    assert caught.value.problems[0].path == "search.metric"
    named = of_text(Path("space.yaml"), f"name: s\n{trial}\n{search}, metric: accuracy, mode: max}}\n", ())
    assert named.search.metric == ("accuracy",)


@pytest.mark.slow
def test_a_metric_of_an_experiment_has_the_direction_that_its_class_declares():
    def search(written: str) -> Search:
        trial = "trial: {experiment: {name: classification, width: 8}, steps: 2}"
        return of_text(Path("space.yaml"), f"{trial}\nsearch: {{method: optuna, trials: 2, {written}}}\n", ()).search

    assert search("metric: [loss, accuracy]").mode == ("min", "max")
    assert search("metric: loss, mode: max").mode == ("max",)
    assert search("metric: loss").goal == ("loss", "min")
    with pytest.raises(SearchSpaceError) as caught:
        search("metric: [loss, train_loss]")
    assert [problem.path for problem in caught.value.problems] == ["search.mode"]


@pytest.mark.parametrize(
    ("scale", "path"),
    [
        ("{coloring: [1, 1]}", "search.scale"),
        ("{coloring: [0, 1], recal: [0, 1]}", "search.scale.recal"),
        ("{recall: [0, 1]}", "search.scale"),  # which lacks the task
        ("{coloring: [0]}", "search.scale.coloring"),
        ("{coloring: [0, 1]}, metric: [loss, success], mode: [min, max]", "search.scale"),
    ],
)
def test_a_scale_has_two_rising_numbers_for_each_task_of_the_space(scale, path):
    assert refused(f"{OPTUNA}, scale: {scale}}}").path == path
