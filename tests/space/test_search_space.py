"""Search spaces: every mistake is told with its path, its line and the nearest name, and ids of searches stay."""

import hashlib
import json
import math
import re
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from optuna import distributions

from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.space.early_stopping import EarlyStopping
from sweeper.space.panel_names import wrong_names
from sweeper.space.problems import SearchSpaceError
from sweeper.space.search_methods import GridSearch, Method
from sweeper.space.search_space import of_text, read, search_of
from sweeper.space.sweep_spec import SweepSpec, remarks
from sweeper.trial.trial import trial_id, trial_of
from tests.tiny_sweeps import SPACE

SPACES = Path(__file__).resolve().parents[2] / "search_spaces"

VALID = """\
name: small
description: Four models on a small cycle.
trial:
  task: {name: coloring, vertices: 5}
  model:
    name: transformer
    width: {choice: [8, 16]}
  baseline: {choice: [AE_r0, Aq_r0, AE_R, Aq_R]}
  objective:
    q: {choice: [1, 2.5, inf]}
    m: 4
  optimizer: {learning_rate: 1e-3}
  steps: 300
  evaluation: {seeds: 30, votes: [5, 30]}
  seed: {seeds: 2}
variants:
  - {}
  - model: {attention: softmax}
search: {method: grid}
resources: {lanes: 8, cpus: 1}
"""

RANDOM = (
    VALID.replace("{method: grid}", "{method: random, trials: 6, seed: 3}")
    .replace("learning_rate: 1e-3", "learning_rate: {log_uniform: [1e-4, 1e-2]}, warmup_steps: {int: [10, 50]}")
    .replace("[1, 2.5, inf]", "[1, {uniform: [2, 9]}]")
)


def space(text: str, overrides: Sequence[str] = (), name: str = "space.yaml") -> SweepSpec:
    return of_text(name, text, overrides)


def _line_of(text: str, fragment: str) -> int:
    return text[: text.index(fragment)].count("\n") + 1


def _mistakes(act: Callable[..., object], *arguments: Any) -> SearchSpaceError:
    with pytest.raises(SearchSpaceError) as caught:
        act(*arguments)
    return caught.value


COLORING = "{name: coloring, vertices: 5}"


# Mistakes

RATE, RATES = "1e-3", "{learning_rate: 1e-3}"
PANEL = "panels: [{kind: histogram, name: a, metric: success, split: q}]\nresources:"
MISTAKES = {
    # keys
    "typo at the top": ("search:", "serach:", "serach", "'search'?"),
    "typo in an objective": ("m: 4", "m: 4\n    Q: 3", "trial.objective.Q", "'q'?"),
    "typo in a rung": ("method: grid", "method: halving, starts: 3, rungs: [{steps: 9, keep: 2}, {steps: 99, keep: 1, "
        "kep: 1}]", "search.rungs[1].kep", "'keep'?"),
    "typo in a variant": ("attention:", "atention:", "variants[1].model.atention", "'attention'?"),
    "key that is a number": ("m: 4", "m: 4\n    7: 1", "trial.objective.7", "word"),
    "key twice": ("steps: 300", "steps: 300\n  steps: 400", "trial.steps", "twice"),
    "key that is a list": ("m: 4", "m: 4\n    [a]: 4", "trial.objective", "a list"),
    "no steps": ("  steps: 300\n", "", "trial.steps", "missing"),
    # names
    "unknown task": ("coloring", "colouring", "trial.task.name", "'coloring'?"),
    "unknown metric": ("method: grid", "metric: majority_31, mode: max", "search.metric", "'majority_30'?"),
    "metric without a mode": ("method: grid", "metric: loss", "search.mode", "min or max"),
    "unknown curve": ("method: grid", "method: halving, starts: 2, curve: los, curve_mode: min, "
        "rungs: [{steps: 9, keep: 1}]", "search.curve", "train_loss"),
    "unknown kind of panel": ("resources:", PANEL.replace("histogram", "histogran"), "panels[0].kind", "'histogram'?"),
    # values
    "negative q": ("[1, 2.5,", "[1, -2.5,", "trial.objective.q.choice[1]", "1, got -2.5"),
    "float for an integer": ("steps: 300", "steps: 3e2", "trial.steps", "got 300.0"),
    "word for a record": ("{method: grid}", "tpe", "search", "'tpe'"),
    "warm-up beyond int32": (RATES, "{warmup_steps: 3000000000}", "trial.optimizer.warmup_steps", "2,147,483,647"),
    "vote of more than vote": ("[5, 30]", "[5, 31]", "trial.evaluation.votes", "31"),
    # holes
    "empty axis": ("[8, 16]", "[]", "trial.model.width.choice", ""),
    "value twice": ("[8, 16]", "[8, 16, 8.0]", "trial.model.width.choice[2]", "trial.model.width.choice[0]"),
    "typo in a hole": ("{choice: [8, 16]}", "{choise: [8, 16]}", "trial.model.width", "'choice'?"),
    "two holes in one": ("{choice: [8, 16]}", "{choice: [8, 16], int: [8, 16]}", "trial.model.width.int", "choice"),
    "hole for the whole trial": ("variants:", "  choice: [1]\nvariants:", "trial.choice", "variants"),
    "entry of a choice in a choice": ("{name: coloring, vertices: 5}",
        "{choice: [{name: coloring}, {name: coloring, vertices: {choice: [4, 99]}}]}",
        "trial.task.choice[1].vertices.choice[1]", "10, got 99"),
    "range in a grid": (RATE, "{uniform: [0, 1]}", "trial.optimizer.learning_rate", "random"),
    "range upside down": ("m: 4", "m: {int: [9, 4]}", "trial.objective.m.int", "9"),
    "logarithm of 0": (RATE, "{log_uniform: [0, 1]}", "trial.optimizer.learning_rate.log_uniform[0]", "0"),
    "typo in the seeds": ("{seeds: 2}", "{seed: 2}", "trial.seed", "'seeds'?"),
    "far too many settings": ("{seeds: 2}", "{seeds: 999999}", "trial.seed.seeds", "100000"),
    "variant twice": ("  - {}", "  - {}\n  - {}", "variants[1]", "variants[0]"),
    # searches
    "random without a number": ("method: grid", "method: random", "search.method", "search.trials"),
    # YAML
    "brackets left open": ("cpus: 1}", "cpus: 1", "", ""),
    "tab": ("  steps: 300", "\tsteps: 300", "", ""),
    "python object": ("m: 4", "m: !!python/object/apply:os.getcwd []", "trial.objective.m", "os.getcwd"),
    "control character": ("m: 4", "m: 4\x07", "", "\\x07"),
    "alias of itself": ("{name: coloring, vertices: 5}", "&a {name: coloring, vertices: *a}", "", "alias"),
}  # fmt: skip
"""What is replaced in `VALID`, by what, the path of the mistake, and what the message names."""
ELSEWHERE = {
    **dict.fromkeys(("no steps", "hole for the whole trial"), 3),
    "brackets left open": 21, "variant twice": 18, "alias of itself": None,
}  # fmt: skip
"""Lines of the mistakes that are not on the first line that differs."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_mistake_gives_one_message_with_path_line_and_nearest_name(mistake):
    old, new, path, named = MISTAKES[mistake]
    assert old in VALID
    text = VALID.replace(old, new, 1)
    changed = (
        n for n, (was, now) in enumerate(zip(VALID.splitlines(), text.splitlines(), strict=False), 1) if was != now
    )
    error = _mistakes(space, text)
    (problem,) = error.problems
    assert (problem.path, problem.where) == (path, ELSEWHERE[mistake] if mistake in ELSEWHERE else next(changed))
    assert named in problem.message
    assert str(error).startswith(f"space.yaml:{problem.where}: " if problem.where else "space.yaml: ")
    assert str(error).isprintable()


def test_an_entry_of_a_choice_is_told_with_its_own_line():
    text = VALID.replace("[1, 2.5, inf]", "[1,\n      2.5, 0.3]", 1)
    assert _mistakes(space, text).problems[0].where == _line_of(text, "2.5")


def test_independent_mistakes_are_told_together():
    text = VALID.replace("steps: 300", "steps: 0").replace("[8, 16]", "[8, 0]").replace("1e-3", "x")
    error = _mistakes(space, text)
    paths = {problem.path for problem in error.problems}
    assert paths == {"trial.steps", "trial.model.width.choice[1]", "trial.optimizer.learning_rate"}
    assert len(str(error).splitlines()) == 3


def test_a_file_that_is_not_there_is_told_with_the_nearest_space(monkeypatch):
    monkeypatch.chdir(SPACES.parent)
    for name in ("quickstart", "quickstart.yml", "spaces/quickstrat.yaml"):
        assert str(_mistakes(read, name)).endswith("'search_spaces/quickstart.yaml'?")


def test_a_file_that_cannot_be_a_space_is_told(tmp_path):
    path = tmp_path / "space.yaml"
    for content in (b"trial: \xff\n", VALID.encode("utf-16"), b"", b"# nothing but a comment\n", b"- trial", b"5"):
        path.write_bytes(content)
        assert _mistakes(read, path).problems[0].path == "", content[:30]
    assert _mistakes(read, tmp_path).problems[0].path == "", "a folder"
    path.write_text("\ufeff" + VALID)
    assert read(path).name == "small", "a file may begin with a byte order mark"


def test_keys_at_the_top_may_hold_anchors():
    text = "x-rate: &rate 1e-3\nx-task:\n  - &task {name: coloring, vertices: 5}\n" + VALID
    text = text.replace("learning_rate: 1e-3", "learning_rate: *rate").replace(f"  task: {COLORING}", "  task: *task")
    assert space(text).expand() == space(VALID).expand()


def test_values_are_read_by_the_core_schema_of_yaml():
    text = VALID.replace("1e-3", "1e-3, eps: 1E-5, weight_decay: .1")
    text = text.replace("Four models on a small cycle.", "no")
    trial = space(text.replace("m: 4", "m: 0x10")).expand().trials[-1]
    assert (trial.optimizer.learning_rate, trial.optimizer.eps, trial.optimizer.weight_decay) == (1e-3, 1e-5, 0.1)
    assert trial.objective.m == 16
    assert trial.objective.q == math.inf
    assert space(text).description == "no"


# Overrides


def test_overrides_are_written_into_the_document():
    spec = space(
        VALID,
        [
            "trial.steps=7", "trial.optimizer.clip_norm=2e0", "variants[1].model.attention=linear",
            "variants[1].model.mlp=true", "trial.objective.q.choice[2]=5", "resources.lanes=~",
        ],
    )  # fmt: skip
    trials = spec.expand().trials
    assert {trial.steps for trial in trials} == {7}
    assert {trial.optimizer.clip_norm for trial in trials} == {2.0}
    assert {trial.model.model_dump()["mlp"] for trial in trials} == {False, True}
    assert max(trial.objective.q for trial in trials) == 5
    assert spec.resources.lanes is None
    assert spec.overrides[0] == "trial.steps=7"
    assert spec.text == VALID


@pytest.mark.parametrize(
    ("override", "path", "named"),
    [
        *((text, "", "path=value") for text in ("trial.steps", "=5", "trial..steps=5", "trial.steps.=5", "[0]=5")),
        ("trial.stepz=5", "trial.stepz", "'steps'"),
        ("steps=5", "steps", "trial"),
        ("trial.steps=five", "trial.steps", "'five'"),
        ("trial.steps=", "trial.steps", ""),
        # As elsewhere: Hydra, W&B, Ray Tune
        ("trial.steps=100,200", "trial.steps", "{choice: [a, b]}"),
        ("trial.optimizer.name=adam,sgd", "trial.optimizer.name", "{choice: [a, b]}"),
        ("trial.steps=${oc.env:STEPS}", "trial.steps", "$X"),
        ("trial.steps=${trial.seed}", "trial.steps", "{formula"),
        ("trial.steps={choice: [5, 0]}", "trial.steps.choice[1]", "1, got 0"),
        ("trial.objective.q.choice[9]=2", "trial.objective.q.choice", "[9]"),
        ("trial.steps[0]=2", "trial.steps", "300"),
        ("variants[1].model.attenton=linear", "variants[1].model.attenton", "'attention'"),
    ],
)
def test_a_mistake_in_an_override_is_told_with_the_override(override, path, named):
    error = _mistakes(space, VALID, [override])
    (problem,) = error.problems
    assert (problem.path, problem.where) == (path, override)
    assert named in problem.message
    assert str(error).startswith(f"--set {override[:20]}")


# Grids


def test_equal_settings_are_merged_and_counted():
    expansion = space(VALID).expand()
    # E keeps one of three q; 2 widths, 2 seeds and 2 variants multiply all.
    assert expansion.settings == 4 * 3 * 8
    assert len(expansion.trials) == (1 + 3 + 1 + 3) * 8
    assert expansion.merged == 32
    assert expansion.summary == "96 settings, 32 equal to others, 64 trials"
    assert expansion.trial_ids == tuple(map(trial_id, expansion.trials))
    assert len(set(expansion.trial_ids)) == 64
    assert {trial.seed for trial in expansion.trials} == {0, 1}


def test_variants_are_merged_deeply_and_their_grids_joined():
    text = VALID.replace("  - {}", "  - {objective: {m: {choice: [2, 3]}}, baseline: Aq_R, model: {width: 4}}")
    planned = {(t.model.model_dump()["width"], t.objective.m, t.baseline) for t in space(text).expand().trials}
    first = {(4, 2, "Aq_R"), (4, 3, "Aq_R")}
    assert first <= planned
    assert {entry for entry in planned if entry[0] == 4} == first
    assert {entry[0] for entry in planned} == {4, 8, 16}


def test_a_space_is_named_after_its_file():
    assert space(VALID.replace("name: small\n", ""), name="my-space.yaml").name == "my-space"
    error = _mistakes(space, VALID.replace("name: small\n", ""), (), "my space.yaml")
    assert error.problems[0].path == "name"


# Random and Optuna search


@pytest.mark.slow
def test_random_settings_are_those_of_the_search_seed():
    first = space(RANDOM).expand()
    assert first.trial_ids == space(RANDOM).expand().trial_ids
    assert set(first.trial_ids).isdisjoint(space(RANDOM.replace("seed: 3", "seed: 4")).expand().trial_ids)
    assert first.settings == 6 * 2
    # As at commit e762526: ids of existing searches stay.
    ids = "".join(space(RANDOM, ["search.trials=200"]).expand().trial_ids)
    assert hashlib.sha256(ids.encode()).hexdigest()[:16] == "4326bb2415a3c42d"


def test_a_random_setting_has_one_variant_and_all_of_its_seeds():
    trials = space(RANDOM, ["search.trials=20"]).expand().trials
    assert {trial.model.model_dump()["attention"] for trial in trials} == {"linear", "softmax"}
    by_setting: dict[TrialSpec, set[int]] = {}
    for trial in trials:
        by_setting.setdefault(trial.model_copy(update={"seed": 0}), set()).add(trial.seed)
    assert all(seeds == {0, 1} for seeds in by_setting.values())


def test_the_ends_of_a_range_are_values_of_its_field():
    for path, kind, ends, at in (
        ("trial.objective.q", "uniform", "[0.5, 9]", 0),
        ("trial.task.vertices", "int", "[4, 99]", 1),
        ("trial.steps", "uniform", "[5, 10]", 0),
    ):
        problem = _mistakes(space, RANDOM, [f"{path}={{{kind}: {ends}}}"]).problems[0]
        assert problem.path == f"{path}.{kind}[{at}]"


def test_doubtful_trials_are_told_with_the_path_of_the_value():
    trials = space(VALID, ["trial.optimizer.warmup_steps={choice: [299, 300, 301]}"]).expand().trials
    (line,) = remarks(trials, GridSearch())
    assert line.strip().startswith("trial.optimizer.warmup_steps: ")
    assert re.findall(r"\d+", line) == ["64", "301", "300"]
    trials = [trial for trial in trials if trial.optimizer.warmup_steps == 300]
    assert not remarks(trials, GridSearch(early_stopping=EarlyStopping(grace_steps=299)))
    (line,) = remarks(trials, GridSearch(early_stopping=EarlyStopping(grace_steps=300)))
    assert line.strip().startswith("search.early_stopping.grace_steps: 64 trials are")
    assert re.findall(r"[\d,]+\d", line) == ["64", "300", "301"]
    trial = trial_of({"experiment": {"name": "classification", "optimizer": {"name": "adam"}}, "steps": 999})
    (line,) = remarks([trial], GridSearch())
    assert line.strip().startswith("trial.experiment.optimizer.warmup_steps: ")


@pytest.mark.parametrize("method", typing.get_args(Method), ids=lambda method: method.__name__)
def test_a_search_lists_its_settings_or_proposes_them(method):
    needed = {"trials": 3} if method.DRAWS else {}
    needed |= {"starts": 3, "rungs": ({"steps": 100, "keep": 1},)} if "rungs" in method.model_fields else {}
    (name,) = typing.get_args(method.model_fields["method"].annotation)
    spec = space(RANDOM if method.DRAWS else VALID, [f"search={json.dumps({'method': name, **needed})}"])
    assert type(spec.search) is method
    if method.ADAPTS:
        assert {trial.seed for trial in spec.trials_of(spec.search.study(spec.tree).ask()).trials} == {0, 1}
        with pytest.raises(ValueError, match=name):
            spec.expand()
    else:
        assert spec.expand().trials
        with pytest.raises(ValueError, match=name):
            spec.search.study(spec.tree)


def test_optuna_has_a_distribution_of_its_own_for_every_kind_of_hole():
    holes = {
        "objective.q": ("{uniform: [1, 2], step: 0.3}", distributions.FloatDistribution(1, 1.9, step=0.3)),
        "optimizer.learning_rate": ("{log_uniform: [1e-4, 1e-2]}", distributions.FloatDistribution(1e-4, 1e-2, True)),
        "optimizer.eps": ("{logspace: [1e-8, 1e-4, 5]}", distributions.IntDistribution(0, 4)),
        "model.width": ("{int: [4, 17], step: 4}", distributions.IntDistribution(4, 16, step=4)),
        "batch_size": ("{int: [16, 512], log: true}", distributions.IntDistribution(16, 512, log=True)),
        "steps": ("{choice: [100, 200, 300]}", distributions.IntDistribution(0, 2)),
        "baseline": ("{choice: [AE_R, Aq_R]}", distributions.CategoricalDistribution((0, 1))),
    }
    spec = space(RANDOM, ["search.method=optuna", *(f"trial.{path}={text}" for path, (text, _) in holes.items())])
    study = spec.search.study(spec.tree)
    study.ask()
    found = study._asked[0].distributions
    assert {path: found[f"trial.{path}"] for path in holes} == {path: expected for path, (_, expected) in holes.items()}
    assert found["variants"] == distributions.CategoricalDistribution((0, 1))
    for _ in range(10):
        setting = study.ask()
        trials = spec.trials_of(setting).trials
        assert [trial.seed for trial in trials] == [0, 1]
        assert len({trial.model_copy(update={"seed": 0}) for trial in trials}) == 1
        assert trials[0].batch_size == setting["trial.batch_size"]
        assert trials[0].steps == (100, 200, 300)[setting["trial.steps"]]
        assert trials[0].optimizer.learning_rate == float(f"{setting['trial.optimizer.learning_rate']:.6g}")
        assert trials[0].model.model_dump()["attention"] == ("linear", "softmax")[setting["variants"]]


def test_optuna_is_asked_for_the_holes_of_a_chosen_entry_alone():
    spec = space(RANDOM, ["search={method: optuna, trials: 12}"])
    study = spec.search.study(spec.tree)
    for setting in (study.ask() for _ in range(12)):
        assert ("trial.objective.q.choice[1]" in setting) == (setting["trial.objective.q"] == 1)


def test_values_that_exclude_each_other_are_told_when_they_meet():
    text = VALID.replace("seeds: 30, votes: [5, 30]", "seeds: {choice: [30, 60]}, votes: {choice: [[5], [60]]}")
    assert _mistakes(lambda: space(text).expand()).problems[0].path == "trial.evaluation.votes.choice[1]"


# Packs

HALVING = "search={method: halving, starts: 4, rungs: [{steps: 100, keep: 1}]}"


@pytest.mark.parametrize(
    ("overrides", "lanes"),
    [
        ((), None),
        (("resources.gpus=1",), 512),
        (("resources.gpus=1", "resources.lanes=64"), 64),
        # ASHA compares packs, and a pack of many settings has nobody to be compared with.
        (("resources.gpus=1", "search.early_stopping={grace_steps: 100}"), None),
        # The trials of a search share a GPU; on a CPU every trial has a core.
        ((HALVING,), 1),
        ((HALVING, "resources.gpus=1"), 4),
        ((HALVING, "resources.lanes=3"), 3),
    ],
)
def test_packs_for_a_gpu_are_large_unless_the_space_says_otherwise(overrides, lanes):
    assert read(Path("search_spaces/quickstart.yaml"), overrides).pack_lanes == lanes


def test_the_search_of_a_text_is_read_without_the_rest():
    trial = "trial: {task: {name: of a plug-in that is gone}}\n"
    halving = trial + 'search: {method: "h\\u0061lving", starts: 3, rungs: [{steps: 5, keep: 1}]}\n'
    assert search_of(halving).halving is not None
    assert search_of(trial + "description: no halving\n").halving is None
    assert search_of(halving, ["search={method: random, trials: 2}"]).method == "random"
    of_another_optuna = "{name: GoneSampler, gone: 3}"
    assert search_of(f"search: {{method: optuna, trials: 3, sampler: {of_another_optuna}}}\n").method == "optuna"
    for text in ("search: {method: climbing}", "[search]", "search: [", ""):
        with pytest.raises(SearchSpaceError):
            search_of(text)


@pytest.mark.parametrize(
    ("panel", "told"),
    [
        ("kind: curve, x: q, metric: succes, split: baseline", ["metric: no trial has 'succes'", "'success'"]),
        ("kind: curve, x: task_vertizes, metric: loss, split: baselin", ["split", "'baseline'", "'task_vertices'"]),
        (
            "kind: curve, x: q, series: [{label: a, metric: loss, where: {optimiser_name: adam}, best: {metric: los}}]",
            ["series[0].where.optimiser_name", "series[0].best.metric", "'loss'"],
        ),
        ("kind: history, metric: train_los, split: q", ["'train_loss'"]),
        ("kind: histogram, metric: succes, split: q", ["'success'"]),
    ],
)  # fmt: skip
def test_a_name_in_a_panel_that_no_trial_has_is_told_with_its_line(tmp_path, panel, told):
    file = tmp_path / "space.yaml"
    file.write_text(f"{SPACE}panels:\n  - {{name: A, {panel}}}\n")
    line = file.read_text().count("\n")
    lines = [problem.line(str(file)) for problem in wrong_names(read(file), traced=True)]
    assert all(text.startswith(f"{file}:{line}: panels[0].") for text in lines)
    assert [part for part in told if part not in "\n".join(lines)] == []


def test_names_of_panels_that_some_trial_has_are_taken(tmp_path):
    file = tmp_path / "space.yaml"
    panels = (
        "{kind: curve, name: A, x: optimizer.learning_rate, metric: margin, tail: success_p5_pooled, "
        "where: {seed: 0}, split: optimizer_momentum}",
        "{kind: scatter, name: B, x: wall_seconds, metric: votes_3, split: task}",
        "{kind: history, name: C, metric: mean_loss, split: optimizer.name}",
    )
    chosen = SPACE.replace("{warmup_steps: 10}", "{choice: [{name: adam}, {name: sgd, momentum: 0.9}]}")
    file.write_text(chosen + "panels:\n" + "".join(f"  - {panel}\n" for panel in panels))
    assert list(wrong_names(read(file), traced=True)) == []


@pytest.mark.long  # traces evaluations
@pytest.mark.parametrize("space", sorted(SPACES.glob("*.yaml")), ids=lambda file: file.stem)
def test_panels_of_the_shipped_spaces_name_what_their_trials_have(space):
    assert list(wrong_names(read(space), traced=True)) == []
