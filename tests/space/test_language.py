"""The language of search spaces: the examples of docs/search-space.md hold, and draws have their distributions."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sweeper.events import PackProgressed
from sweeper.space import formulas, holes
from sweeper.space.early_stopping import AnyEarlyStopping, Asha
from sweeper.space.optuna_search import AnySampler, Sampler
from sweeper.space.problems import Refused, SearchSpaceError
from sweeper.space.search_space import of_text
from sweeper.space.sweep_spec import SweepSpec
from sweeper.space.yaml_tree import Node, document_tree, plain
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


def refusal(*overrides: str) -> str:
    with pytest.raises(SearchSpaceError) as caught:
        space(*overrides)
    return str(caught.value)


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
        assert drawn.trials_of(drawn.search.study(drawn.variants).ask()).settings >= 1
    else:
        halving = space(*written, "search={method: halving, starts: 3, rungs: [{steps: 100, keep: 1}]}")
        assert halving.expand().settings == 3 * spec.expand().settings


# Coming from elsewhere

FIELDS = ("trial.model.width", "trial.optimizer.beta1", "trial.optimizer.learning_rate")
ELSEWHERE = [
    ("SEML", "{type: choice, options: [8, 16]}", "{choice: [8, 16]}"),
    ("SEML", "{type: range, min: 8, max: 64, step: 8}", "{int: [8, 56], step: 8}"),
    ("SEML", "{type: randint, min: 8, max: 64}", "{int: [8, 63]}"),
    ("SEML", "{type: uniform, min: 0.1, max: 0.5}", "{uniform: [0.1, 0.5]}"),
    ("SEML", "{type: loguniform, min: 1e-4, max: 1e-1}", "{log_uniform: [0.0001, 0.1]}"),
    ("SEML", "{type: loguniform, min: 1e-4, max: 1e-1, num: 4}", "{logspace: [0.0001, 0.1, 4]}"),
    ("W&B", "{values: [8, 16]}", "{choice: [8, 16]}"),
    ("W&B", "{value: 8}", "8"),
    ("W&B", "{distribution: int_uniform, min: 8, max: 64}", "{int: [8, 64]}"),
    ("W&B", "{distribution: log_uniform_values, min: 1e-4, max: 1e-1}", "{log_uniform: [0.0001, 0.1]}"),
    ("W&B", "{distribution: q_uniform, min: 0.1, max: 0.5, q: 0.1}", "{uniform: [0.1, 0.5], step: 0.1}"),
    ("W&B", "{distribution: normal, mu: 0.5, sigma: 0.01}", "{normal: [0.5, 0.01]}"),
    ("W&B", "search.method=bayes", "search.method=optuna"),
    ("W&B", "search.metric={name: loss, goal: minimize}", "search={metric: loss, mode: min}"),
    ("Hydra", "choice(8, 16)", "{choice: [8, 16]}"),
    ("Hydra", "range(8, 64, 8)", "{int: [8, 56], step: 8}"),
    ("Hydra", "interval(0.1, 0.5)", "{uniform: [0.1, 0.5]}"),
    ("Hydra", "tag(log, interval(1e-4, 1e-1))", "{log_uniform: [0.0001, 0.1]}"),
    ("Hydra", "${steps}", "{formula: trial.steps}"),
    ("Optuna", "{type: int, low: 8, high: 64, log: true}", "{int: [8, 64], log: true}"),
    ("Optuna", "{type: float, low: 0.1, high: 0.5, step: 0.1}", "{uniform: [0.1, 0.5], step: 0.1}"),
    ("Optuna", "{type: categorical, choices: [8, 16]}", "{choice: [8, 16]}"),
    ("Optuna", "search.method=tpe", "search.method=optuna"),
    ("Optuna", "search.mode=minimize", "search.mode=min"),
    ("Ray Tune", "{grid_search: [8, 16]}", "{each: [8, 16]}"),
    ("Ray Tune", "tune.quniform(0.1, 0.5, 0.1)", "{uniform: [0.1, 0.5], step: 0.1}"),
    ("Ray Tune", "tune.loguniform(1e-4, 1e-1)", "{log_uniform: [0.0001, 0.1]}"),
    ("Ray Tune", "tune.lograndint(8, 64)", "{int: [8, 63], log: true}"),
    ("Ray Tune", "tune.qrandint(8, 64, 8)", "{int: [8, 64], step: 8}"),
    ("Ray Tune", "{sample_from: 'lambda spec: 4 * spec.config.width'}", "{formula: 4 * trial.model.width}"),
]
"""What a tool writes, and the words with which it is refused."""


def _placed(code: str) -> list[str]:
    """Overrides that write a value: the code itself if it has a path, else the value in several fields."""
    return [code] if re.match(r"[a-z]+(\.\w+)*=", code) else [f"{field}={code}" for field in FIELDS]


def _is_read(*overrides: str) -> bool:
    try:
        return bool(space(*overrides).variants)
    except SearchSpaceError:
        return False


@pytest.mark.parametrize(
    ("there", "here"),
    [pytest.param(there, here, id=f"{tool}: {there}") for tool, there, here in ELSEWHERE],
)
def test_what_other_tools_write_is_refused_with_the_words_of_this_language(there, here):
    search = ["search={method: random, trials: 3}"] if "=" not in there else []
    words = here.partition("=")[2] if "=" in here else here
    assert all(words in refusal(*search, override) for override in _placed(there))
    assert any(_is_read("search={method: random, trials: 3}", override) for override in _placed(here))


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["trial.steps={choice: [1, 2], probabilities: [0.1, 0.9]}"], "equally likely: leave 'probabilities' out"),
        (["trial.steps={values: [1, 2], probabilities: [0.1, 0.9]}"], "{choice: [1, 2]}, whose entries are equally"),
        (["trial.optimizer.beta1={uniform: [0.1, 0.9], q: 0.2}"], "a step is written {uniform: [0.1, 0.9], step: 0.2}"),
        (["trial.optimizer.beta1={uniform: [0.1, 0.9], log: true}"], "is written {log_uniform: [0.1, 0.9]}"),
        (["trial.optimizer.beta1={log_uniform: [0.1, 0.9], step: 0.2}"], "'log_uniform' has no step"),
        (["trial.steps={choice: {min: 1, max: 5}}"], "write {choice: [1, 5]}"),
        (["trial.steps={choice: 'range(1, 5)'}"], "write {int: [1, 4], step: 1}"),
        (["trial.steps={_type: quniform, _value: [10, 50, 10]}"], "{uniform: [10, 50], step: 10}"),
        (["trial.steps={type: const, val: 5}"], "here this is written 5"),
        (["trial.steps={of: trial.model.width, times: 4}"], "{formula: 4 * trial.model.width}"),
        (["trial.optimizer={values: [1, 2]}"], "trial.optimizer: here this is written {choice: [1, 2]}"),
        (["trial={model.width: 8}"], "a key has no dots: write model: {width: 8}"),
        (["trial.zip={steps: [1, 2]}"], "values that change together are variants"),
        (["variants={a: {steps: 5}, b: {steps: 6}}"], "variants have no names: write [{steps: 5}, {steps: 6}]"),
        (["parameters={steps: {values: [1, 2]}}"], "parameters stand in place: under trial"),
        (["method=bayes"], "unknown key 'method': is written search: {method: optuna}"),
        (["method=nsga2"], "is written search: {method: optuna, sampler: {name: nsga2}}"),
        (["early_terminate={type: hyperband}"], "is written search: {early_stopping: {grace_steps: …}}"),
        (["n_trials=20"], "is written search: {trials: 20}"),
        (["mode=maximize"], "is written search: {mode: max}"),
        (["search={method: random, samples: 20}"], "search.samples: unknown key 'samples': is written search: {trials"),
        (["search={method: random, num_samples: 20}"], "is written search: {trials: 20}"),
        (["search={method: optuna, trials: 20, goal: minimize}"], "is written search: {mode: min}"),
        (["search={method: optuna, trials: 20, directions: [minimize, maximize]}"], "search: {mode: [min, max]}"),
        (["search={method: optuna, trials: 20, pruner: MedianPruner}"],
         "is written search: {early_stopping: {name: median, every: …}}"),
        (["search={method: optuna, trials: 20, gaol: minimize}"], "unknown key 'gaol' (known: method"),
        (["search={method: asha}"], "write search: {method: random, early_stopping: {grace_steps: …}}"),
        (["search={method: TPESampler}"], "write search: {method: optuna, sampler: {name: tpe}}"),
        (["search={method: qmc}"], "write search: {method: optuna, sampler: {name: qmc}}"),
        (["exclude={trial.model.width: [8, 12]}"], "write trial.model.width in [8, 12]"),
        (["trial.model.width={formula: {choice: [8]}}"], "expected a formula, got a mapping"),
        (["trial.model.width='${.heads}'"], "here this is written {formula: trial.model.heads}"),
        (["trial.model.width='${..heads}'"], "here this is written {formula: 4 * trial.model.width}"),
        (["trial.model.width={linspace: {start: 8, stop: 64, num: 8}}"], "write {linspace: [8, 64, 8]}"),
        (["trial.optimizer.beta1={normal: {mu: 0.5, sigma: 0.1}}"], "write {normal: [0.5, 0.1]}"),
        (["trial.model.width={each: {int: [8, 64]}}"], "a range that is taken in full needs a step"),
        (["trial.model.width={each: {int: [8, 200000], step: 1}}"], "has at most 50,000 values"),
        (["exclude=[{trial.model.width: 8, model: {heads: 3}}]"],
         "write trial.model.width == 8 and trial.model.heads == 3"),
        (["exclude='trial.steps > 3'"], "expected a list, got 'trial.steps > 3'; write ['trial.steps > 3']"),
        (["search={method: optuna, trials: 3, sampler: {name: CmaEsSampler}}"], "did you mean 'cma_es'?"),
        (["search={method: optuna, trials: 3, sampler: tpe}"], "is written {name: tpe}"),
        # holes of this language
        (["trial.steps={linspace: [1, 9]}"], "expected a list of first, last and number of values, got 2"),
        (["trial.steps={linspace: [1, 9, 4]}"], "integers belong here: both ends must be integers, and all values"),
        (["trial.optimizer.beta1={logspace: [-4, -1, 4]}"], "ends are the values themselves, not exponents"),
        (["trial.steps={int: [1, 9], step: 0.5}"], "trial.steps.step: expected an integer above 0, got 0.5"),
        (["trial.steps={int: [1, 9], step: 20}"], "20 is longer than the range"),
        (["trial.optimizer.beta1={uniform: [0.1, 0.5], step: 1e-30}", "search={method: optuna, trials: 3}"],
         "trial.optimizer.beta1.step: 1e-30 is so short"),
        (["trial.steps={int: [1, 9], step: 2, log: true}"], "a step or a logarithmic scale; for both write logspace"),
        (["trial.steps={int: [0, 9], log: true}"], "trial.steps.int[0]: must be above 0 on a logarithmic scale"),
        (["trial.steps={int: [{formula: trial.model.width}, 9]}"], "a formula is no end"),
        (["trial.steps={normal: [100, 0]}"], "the standard deviation must be above 0"),
        (["trial.steps={normal: [100, 5]}", SEARCH], "an integer belongs here"),
        (["trial.optimizer.beta1={normal: [0.5, 0.1]}"], "'normal' needs search.method random or optuna"),
        (["search={method: random, trials: [3, 4]}"], "2 numbers for 1 variant; write one number for all, or one for"),
        (["search={method: optuna, trials: 3, metric: [loss, success], mode: min}"], "2 metrics need as many"),
        (["search={method: random, trials: 3, metric: [loss, success], mode: [min, max]}"], "ranks by one metric"),
        (["search={early_stopping: {metric: loss, mode: min, grace_steps: 5}}"], "write 'every: 1000'"),
        (["search={early_stopping: {name: median}}"], "median compares packs at equal steps: write 'every: 1000'"),
        (["search={early_stopping: {metric: los, mode: min, every: 5, grace_steps: 5}}"], "did you mean 'loss'?"),
        (["trial.model.width={each: []}"], "trial.model.width.each: the axis is empty"),
        (["trial.model.width={each: {linspace: [1, 9, 3]}, step: 2}"], "nothing beside it, not 'each', 'step'"),
        (["trial.model.width={each: {linspace: [1, 12, 12]}}", RANDOM.replace("000", "00000")], "are too many"),
    ],
)  # fmt: skip
def test_each_mistake_has_one_message_with_the_right_words(overrides, words):
    message = refusal(*overrides)
    assert words in message
    assert message.isprintable() or "is missing" in message


@pytest.mark.parametrize(
    ("there", "here"),
    [
        ("{range: {start: 8, stop: 64, step: 8}}", "{int: [8, 56], step: 8}"),
        ("{distribution: constant, value: 8}", "8"),
        ("{geomspace: [8, 64, 4]}", "{logspace: [8, 64, 4]}"),
        ("{type: int, minval: 8, maxval: 64, count: 4}", "{linspace: [8, 64, 4]}"),
        ("'shuffle(range(8, 64))'", "{int: [8, 63], step: 1}"),
        ("'int(interval(8, 64))'", "{int: [8, 64]}"),
        ("'tag(log, int(interval(8, 64)))'", "{int: [8, 64], log: true}"),
        ("'tune.lograndint(8, 64)'", "{int: [8, 63], log: true}"),
        ("'tune.lograndint(lower=8, upper=64)'", "{int: [8, 63], log: true}"),
        ("'tune.qrandint(8, 64, 8)'", "{int: [8, 64], step: 8}"),
        ("'tune.qrandint(8, 64, 1)'", "{int: [8, 63], step: 1}"),
        ("'trial.suggest_int(\"w\", 8, 64)'", "{int: [8, 64]}"),
        ("'trial.suggest_int(\"w\", 8, 64, step=8)'", "{int: [8, 64], step: 8}"),
        ("'trial.suggest_float(\"w\", 1e-4, 1e-1, log=True)'", "{log_uniform: [0.0001, 0.1]}"),
        ("'IntDistribution(low=8, high=64, log=True)'", "{int: [8, 64], log: true}"),
        ("'optuna.distributions.CategoricalDistribution(choices=[8, 16])'", "{choice: [8, 16]}"),
        ("'hp.choice(\"w\", [8, 16])'", "{choice: [8, 16]}"),
        ("'hp.quniform(\"w\", 8, 64, 8)'", "{uniform: [8, 64], step: 8}"),
        ("'[8:64:8]'", None),
        ("'range[8:64:8]'", "{int: [8, 56], step: 8}"),
        ("'np.linspace(8, 64, num=8)'", "{linspace: [8, 64, 8]}"),
        ("'hp.choice(\"w\", [8, [16]'", None),
    ],
)
def test_an_integer_of_another_tool_is_told_in_words_that_mean_the_same(there, here):
    message = refusal(f"trial.model.width={there}")
    assert message.endswith(f"here this is written {here}") if here else "written" not in message


def test_a_range_with_a_step_may_be_taken_in_full():
    in_full = space("trial.model.width={each: {int: [8, 64], step: 8}}", "search={method: random, trials: 3}")
    assert in_full.expand().summary == "24 settings, 16 equal to others, 8 trials"


def test_dotted_keys_have_one_message_in_words_of_this_language():
    message = refusal("trial={optimizer.learning_rate: 0.1}")
    assert "a key has no dots: write optimizer: {learning_rate: 0.1}" in message
    assert "default factory" not in message


def test_samplers_that_need_further_packages_name_them(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name, package in (("gp", "torch"), ("cma_es", "cmaes")):
        sampler = f"search={{method: optuna, trials: 3, sampler: {{name: {name}}}}}"
        assert f"'{name}' needs {package}: pip install {package}" in refusal(sampler)


@pytest.mark.parametrize("record", [*get_args(get_args(AnySampler)[0]), *get_args(get_args(AnyEarlyStopping)[0])])
def test_every_sampler_and_pruner_takes_the_fields_of_its_record(record, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    name = record.model_fields["name"].annotation.__args__[0]
    if issubclass(record, Sampler):
        assert type(record(name=name).sampler(3)).__name__ == f"{record.__name__}Sampler"
    else:
        needed = {"grace_steps": 5} if name == "asha" else {"every": 5}
        rule = record(name=name, **needed, **({"upper": 0.3} if name == "threshold" else {})).rule()
        packs = [
            PackProgressed(f"pack {n}", "training", 5, 9, 1, {}, 0.5 - n / 20, 1.0, None, (5, 0.5 - n / 20))
            for n in range(9)
        ]
        stopped = [rule.stops(progress) for progress in packs]
        assert not stopped[-1], "the best of all"
        assert not any(map(rule.stops, packs)), "a pack that comes to a step again is not compared again"
        for progress in packs:
            rule.ended(progress.pack_id)


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


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("trial.modle.width", "trial.steps.formula: this trial has no trial.modle; did you mean 'model'?"),
        ("trial.objective.final_q", "has no trial.objective.final_q; a formula names what the space writes"),
        ("trial.steps + 1", "needs its own value: trial.steps.formula → trial.steps.formula"),
        ("trial.baseline * 2", "trial.steps.formula: 'trial.baseline * 2': trial.baseline is 'Aq_R', not a number"),
        ("trial.model * 2", "trial.model is a mapping, no single value"),
        ("width * 2", "'width' is a word, not a number; an entry is written from the top, such as trial.model.width"),
        ("model.width * 2", "'model.width' is no path; an entry is written from the top"),
        ("trial.model.width / 3", "trial.steps.formula: expected an integer, got 2.66666666667; write round(…)"),
        ("trial.model.width * 1.5", "trial.steps.formula: expected an integer, got 12.0; write round(…)"),
        ("1 / 0", "divides by 0"),
        ("9 ** 9 ** 9", "too large"),
        ("1.5 ** 1e9", "too large"),
        ("(-8) ** 0.5", "no real value"),
        ("log(0)", "log has no value at 0"),
        ("sin(1)", "there is no function sin (known: abs, "),
        ("max", "expected an integer, got 'max'"),
        ("2 *", "cannot be read from '2 *' on"),
        ("2 3", "cannot be read from '"),
        ("trial.steps = 3", "'=' is written =="),
        ("1 if true else 2", "a formula has no conditions"),
        ("trial.steps in []", "expected a list such as [a, b] after in, got '[]'"),
        ("4 * 2 # 3", "cannot be read from '# 3' on"),
        ("trial.steps in 3", "expected a list such as [a, b] after in, got '3'"),
        ('__import__("os").system("x")', "there is no function __import__("),
        ("[x for x in [1]]", "cannot be read from"),
        ("trial.steps[trial.seed]", "'trial.steps[trial.seed]' is no path"),
        ("trial.steps[True]", "'trial.steps[True]' is no path"),
        ("1j", "cannot be read from '1j' on"),
        ("(" * 100, "cannot be read from"),
        ("1 +" * 800 + "1", "at most 2,000 characters"),
        ("not " * 200 + "true", "more than 100 operations inside each other"),
        ("-" * 900 + "1", "more than 100 operations inside each other"),
        ("1 \\0", "cannot be read"),
    ],
)
def test_a_formula_without_value_says_why_and_where(formula, words):
    assert words in refusal(f"trial.steps={{formula: '{formula}'}}")


def test_the_longest_formula_has_a_value():
    longest = (f"trial.steps={{formula: {'1+' * 99}1}}", f"exclude=[{' or '.join(['trial.steps > 999'] * 50)}]")
    (trial,) = space(*longest).expand().trials
    assert trial.steps == 100


def test_formulas_in_a_circle_name_all_of_it():
    chain = ", ".join(f"{{formula: 'trial.evaluation.votes[{n}]'}}" for n in range(1, 900))
    assert "too many formulas need each other" in refusal(f"trial.evaluation={{seeds: 900, votes: [{chain}, 3]}}")
    message = refusal("trial.steps={formula: trial.batch_size}", "trial.batch_size={formula: trial.steps}")
    assert "trial.steps.formula → trial.batch_size.formula → trial.steps.formula" in message


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


@given(text=_SUMS | _CONDITIONS, a=st.integers(-5, 5), b=st.floats(-4, 4).map(lambda x: round(x, 2)))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_formulas_have_the_precedence_and_the_values_of_python(text, a, b):
    trial = Node({"a": Node(a, "trial.a", 1), "b": Node(b, "trial.b", 1)}, "trial", 1)
    python = text.replace("trial.", "")
    try:
        # Fractions divide with rest in decimals, as formulas do.
        expected = eval(
            re.sub(r"0\.5", "half", python), {"max": max}, {"a": a, "b": Fraction(repr(b)), "half": Fraction(1, 2)}
        )
    except (ZeroDivisionError, OverflowError):
        expected = None
    try:
        found = formulas.Resolution(trial).value(formulas.parsed(Node(text, "x", 1)))
    except Refused:
        found = None
    if found is None:
        assert expected is None or isinstance(expected, complex) or abs(expected) > 1e15
    else:
        assert found == pytest.approx(expected, nan_ok=True)


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
    for setting in naive({key: value for key, value in data.items() if not _is_formula(value)}):
        for key, value in data.items():
            if _is_formula(value):
                setting[key] = eval(value["formula"].replace("trial.", ""), {}, setting)
        if not eval(excluded.replace("trial.", ""), {}, setting):
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
_SPACES = st.fixed_dictionaries(
    {
        "a": _LEAF,
        "b": _LEAF | st.builds(lambda leaf: {"choice": [leaf, 77]}, _LEAF),
        "c": st.sampled_from([{"formula": "2 * trial.a"}, {"formula": "trial.a % 3 + trial.b"}]),
        "d": st.lists(_LEAF, min_size=1, max_size=2),
        "e": st.fixed_dictionaries({"x": _LEAF}),
    }
)


@given(data=_SPACES, excluded=st.sampled_from(["trial.a > trial.b", "trial.c % 2 == 0", "trial.a == 1 or trial.b < 3"]))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_space_has_the_settings_of_a_plain_second_implementation(data, excluded):
    problems: list[Any] = []
    tree = holes.with_holes(document_tree(yaml.safe_dump(data)), problems)
    assert not problems
    condition = formulas.parsed(Node(excluded, "exclude[0]", 1))
    trees = list(map(formulas.resolved, holes.grid(tree)))
    assert len(trees) == holes.grid_size(tree) == len(list(naive(data)))
    found = [plain(each) for each in trees if not formulas.exclusion_in(each, [condition])]
    assert sorted(map(_canonical, found)) == sorted(map(_canonical, naive_settings(data, excluded)))
    if not any("each" in str(value) for value in data.values()):
        return
    setting = {path.path: holes.drawn(path.value, 0.4) for path in holes.holes_in(tree) if path.value.drawn}
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


@pytest.mark.parametrize("seed", [0, 1])
def test_a_thousand_draws_have_their_distributions_and_are_independent(seed):
    spec = space(RANDOM, f"search.seed={seed}", *(f"trial.{path}={text}" for path, (text, _) in DRAWN.items()))
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
    ("rate", "words"),
    [
        ("{log_normal: [0, 60]}", "log_normal[0]: must be at most 3.4e+38 in single precision, got"),
        ("{log_normal: [-60, 30]}", "log_normal[0]: is 0 in single precision, got"),
        ("{formula: 10 ** -(trial.steps + trial.batch_size)}", "formula: is 0 in single precision, got"),
        ("{normal: [1, 1]}", "normal[0]: must be above 0, got"),
        ("{normal: [1, 1]}", "; {log_normal: […]} draws numbers above 0"),
    ],
)
def test_every_draw_and_every_result_of_a_formula_fits_its_field(rate, words):
    sums = ["trial.steps={choice: [10, 25]}", "trial.batch_size={choice: [10, 25]}"]
    spec = space("search={method: random, trials: 50}", *sums, f"trial.optimizer.learning_rate={rate}")
    with pytest.raises(SearchSpaceError) as caught:
        spec.expand()
    assert words in str(caught.value)
    assert len({problem.path for problem in caught.value.problems}) == 1
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
        study = spec.search.study(spec.variants)
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
    ("condition", "words"),
    [
        ("steps == 200", "exclude[0]: 'steps' is a word; an entry is written trial.steps"),
        ("trial.model.width == 8 and heads in [3]", "'heads' is a word; an entry is written trial.model.heads"),
        ("trial.model.heads == width", "'width' is a word; an entry is written trial.model.width"),
        ("AE_R == trial.baseline", "'AE_R' is a word; an entry is written from the top"),
        ("1 > 2", "names no entry, such as trial.model.width"),
        ("trial.model.haeds > 1", "no setting has trial.model.haeds; did you mean 'trial.model.heads'?"),
    ],
)
def test_a_condition_that_could_never_matter_is_refused(condition, words):
    assert words in refusal("trial.model.heads={choice: [1, 3]}", f"exclude=['{condition}']")


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
    assert "exclude[0]: no setting has trial.model.haeds" in refusal(MODELS, "exclude=[trial.model.haeds > 1]")
    with pytest.raises(SearchSpaceError, match="exclude: leaves out every setting, all 3"):
        space(MODELS, "exclude=[trial.steps > 1]").expand()
    assert "write trial.model.width % 3 != 0" in refusal(MODELS, "exclude=[trial.model.width % 3]")
