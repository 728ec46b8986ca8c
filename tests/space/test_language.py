"""The language of search spaces: the examples of docs/search-space.md hold, and formulas, draws and samplers do."""

import itertools
import math
import re
from pathlib import Path

import optuna
import pytest

from sweeper.events import PackProgressed
from sweeper.space import holes
from sweeper.space.early_stopping import EarlyStopping, StoppingRule
from sweeper.space.problems import Problem, SearchSpaceError
from sweeper.space.search_methods import Search
from sweeper.space.search_space import of_text
from sweeper.space.sweep_spec import SweepSpec
from sweeper.space.yaml_tree import RESERVED, Node, document_tree
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
OTHERS = {
    "a range with a step": (["trial.optimizer.beta1={uniform: [0.5, 0.9], step: 0.1}"], "5 trials"),
    "range(8, 65, 8)": (["trial.model.width={int: [8, 64], step: 8}"], "8 trials"),
    "integers, uniform in the logarithm": (["trial.batch_size={int: [8, 4096], log: true}", SEARCH], "20 trials"),
    "a logarithmic grid": (["trial.optimizer.learning_rate={logspace: [1e-4, 1e-1, 4]}"], "4 trials"),
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
        filled = code.replace("a, b, c", "a, b")
        for letter, number in (("a", "2"), ("b", "8"), ("n", "3"), ("s", "3")):
            filled = re.sub(rf"\b{letter}\b", number, filled)
        problems: list[Problem] = []
        node = holes.with_holes(Node({"seed": document_tree(filled)}, "trial", 1), problems).value["seed"]
        assert not problems
        assert bool(node.value.options) == bool(re.search(r"\w", taken)), code
        grids.setdefault(re.findall(r"\w+", code)[0], []).append(bool(node.value.options))
    assert set(grids) == set(holes.KINDS)
    assert {*holes.KINDS, "formula"} == {*RESERVED, "seeds"}


@pytest.mark.parametrize(
    ("overrides", "path"),
    [
        (["trial.model.width={formula: {choice: [8]}}"], "trial.model.width.formula"),
        (["trial.steps={logspace: [1, 9]}"], "trial.steps.logspace[2]"),
        (["trial.steps={logspace: [1, 10, 3]}"], "trial.steps.logspace"),  # whose middle is no integer
        (["trial.steps={int: [1, 9], step: 20}"], "trial.steps.step"),
        (["trial.steps={int: [1, 9], step: 2, log: true}"], "trial.steps.log"),
        (["variants={a: {steps: 5}, b: {steps: 6}}"], "variants"),
        (["exclude={trial.model.width: [8, 12]}"], "exclude"),
        (["search={method: random, trials: 3, metric: [loss, success], mode: [min, max]}"], "search.metric"),
        (["search={method: optuna, trials: 3, metric: [loss, success], mode: min}"], "search.mode"),
        (["search={early_stopping: {metric: loss, mode: min, grace_steps: 5}}"], "search.early_stopping.metric"),
        (["search={early_stopping: {metric: los, mode: min, every: 5, grace_steps: 5}}"],
         "search.early_stopping.metric"),
        (["search={early_stopping: {every: 5}}"], "search.early_stopping.grace_steps"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_hole_or_a_search_is_told_with_its_path(overrides, path):
    assert refused(*overrides).path == path


# Samplers and early stopping

OPTUNA = "search={method: optuna, trials: 3"


@pytest.mark.parametrize(
    ("sampler", "named"),
    [
        ("{name: TPSampler}", "'TPESampler'?"),
        ("{name: NSGAIISampler, population_size: 1}", "population_size"),
        ("{name: GridSampler}", "search_space"),
        ("{name: CmaEsSampler}, metric: [loss, success], mode: [min, max]", "CmaEsSampler"),  # improves one metric
    ],
)
def test_what_optuna_raises_of_a_sampler_is_told_with_its_place(sampler, named):
    problem = refused(f"{OPTUNA}, sampler: {sampler}}}", "trial.batch_size={int: [1, 9]}")
    assert problem.path == "search.sampler"
    assert named in problem.message


def test_a_sampler_is_optunas_with_the_arguments_beside_its_name():
    search = space(f"{OPTUNA}, sampler: {{name: NSGAIISampler, population_size: 7}}}}").search
    made = search.sampler.made(seed=3)
    assert type(made) is optuna.samplers.NSGAIISampler
    assert made._population_size == 7


def test_packs_but_the_best_share_are_stopped_at_each_rung():
    rule = StoppingRule(EarlyStopping(grace_steps=10, reduction_factor=2))

    def stops(pack_id: str, step: int, loss: float) -> bool:
        return rule.stops(PackProgressed(pack_id, "training", step, 99, 1, {}, loss, 1.0))

    assert not stops("a", 9, 9.0), "before the first rung"
    assert [stops(name, 12, loss) for name, loss in zip("abcd", (0.1, 0.5, 0.3, 0.4), strict=True)] == [0, 1, 0, 1]
    assert not stops("b", 12, 0.5), "a pack that comes to a step again is not compared again"
    assert [stops(name, step, 0.3 - step / 100) for name, step in (("c", 19), ("c", 20), ("a", 22))] == [0, 0, 0]
    assert stops("e", 25, 0.2), "compared at the second rung alone"
    assert [stops(name, 12, loss) for name, loss in (("f", math.nan), ("g", math.inf), ("h", 0.9))] == [0, 1, 1]


# Formulas


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("4 * trial.model.width", 32),
        ("trial.model.width / 2", 4),  # whole, so an integer
        ("2 + 3 * 4 ** 2 // 5 % 7 - -1", 2 + 3 * 4**2 // 5 % 7 - -1),
        ("-2 ** 2 + 8", 4),
        ("max(3, min(trial.model.width, 100)) + abs(-1) + floor(2.9) + ceil(2.1) + round(2.6)", 17),
        ("sqrt(16) * log2(8) + log10(100) + exp(0) + log(1)", 15),
        ("10 ** 30", 1e30),
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
    "formula",
    [
        "trial.modle.width", "trial.steps + 1", "trial.batch_size", "trial.model * 2", "width * 2", "model.width * 2",
        "trial.model.width / 3", "1 / 0", "9 ** 9 ** 9", "(-8) ** 0.5", "log(0)", "sin(1)", "max", "max()", "2 *",
        "2 3", "2 ^ 3", "trial.steps = 3", "1 if true else 2", "trial.seed in 3", "[1, 2]", "trial.seed is 0",
        '__import__("os").system("x")', "[x for x in [1]]", "trial.steps[trial.seed]", "trial.baseline.upper", "1j",
        "(" * 100, "1 +" * 3000 + "1", "1 \\0",
    ],
)  # fmt: skip
def test_a_formula_without_a_value_that_fits_is_told_with_its_place(formula):
    problem = refused(f"trial.steps={{formula: '{formula}'}}", "trial.batch_size={formula: trial.steps}")
    assert problem.path == "trial.steps.formula"


def test_an_entry_that_a_setting_lacks_is_told_with_the_nearest():
    assert "'width'?" in refused("trial.steps={formula: trial.model.widht}").message


@pytest.mark.parametrize("text", ["trial.steps={formula: 2 * sede}", "exclude=['16 % sede != 0']"])
def test_a_word_is_no_number(text):
    assert "sede is a word" in refused(text).message


MODELS = "trial.model={choice: [{name: transformer, width: 8, heads: {choice: [1, 3]}}, {name: deep_sets, width: 8}]}"


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("trial.model.name == deep_sets or trial.model.heads > 1", [1]),
        ("trial.model.heads > 1", [1, None]),
        ("not trial.model.heads > 1", [3, None]),
        ("trial.model.width % trial.model.heads", [1, None]),
        ("trial.model.haeds > 1", [1, 3, None]),  # which the plan shows: it leaves out 0
    ],
)
def test_a_condition_that_comes_to_an_entry_which_is_not_there_leaves_the_setting_in(condition, kept):
    trials = space(MODELS, f"exclude=['{condition}']").expand().trials
    assert [getattr(trial.model, "heads", None) for trial in trials] == kept


def test_conditions_without_a_value_and_those_that_leave_out_everything_are_told():
    assert refused("exclude=[trial.baseline > 3]").path == "exclude[0]"
    with pytest.raises(SearchSpaceError, match=r"exclude: .* 2$"):
        space("trial.seed={seeds: 2}", "exclude=[trial.steps > 1]").expand()


# Draws


def test_draws_stay_when_a_hole_a_step_or_a_condition_joins_and_a_longer_search_extends_a_shorter():
    rate = "trial.optimizer.learning_rate={log_uniform: [1e-4, 1e-2]}"
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
    assert {trial.optimizer.beta1 for trial in trials} == values


@pytest.mark.slow
def test_names_are_known_although_conditions_leave_out_many_values_before_them():
    steps = "trial={steps: {choice: [1, " + ", ".join(map(str, range(-1002, 0))) + "]}"
    tasks = "task: {choice: [{name: coloring, vertices: 5}, {name: recall, keys: 3, value_bits: 2, seed_bits: 2}]}"
    rest = "model: {name: transformer, width: 8}, baseline: Aq_R, objective: {m: 10}}"
    found = space(f"{steps}, {tasks}, {rest}", "exclude=[trial.steps < 0]", "search={metric: stored_items, mode: max}")
    assert [trial.folder.task for trial in found.names.trials] == ["coloring", "recall"]


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
