"""Search spaces: every mistake gives one readable line, and the order of keys does not change the trials."""

import hashlib
import json
import math
import pickle
import random
import re
import string
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from optuna import distributions

from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.space import holes
from sweeper.space.early_stopping import Asha
from sweeper.space.problems import SearchSpaceError
from sweeper.space.search_methods import GridSearch, Method
from sweeper.space.search_space import of_text, read, search_of
from sweeper.space.sweep_spec import SweepSpec, remarks
from sweeper.trial.trial import trial_id, trial_of

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
RECALL = "{name: recall, keys: 3, value_bits: 2, seed_bits: 2}"


OF_COLORING = ["margin_p5", "wrong_entropy", "majority_5_p5", "loss_worst", "train_loss", "majority_5"]
OF_RECALL = ["stored_items", "seed_choice", "majority_tuple_5"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "known", "unknown"),
    [
        (COLORING, OF_COLORING, OF_RECALL),
        (RECALL, OF_RECALL, ["majority_tuple_6"]),
        (f"{{choice: [{RECALL}, {COLORING}]}}", ["majority_5", "majority_tuple_5"], []),
    ],
)
def test_a_search_may_improve_whatever_the_evaluation_of_its_tasks_reports(task, known, unknown):
    metrics = [*unknown, *known, "any"]
    search = f"search={{method: optuna, trials: 1, metric: {json.dumps(metrics)}, mode: {['max'] * len(metrics)}}}"
    problems = _mistakes(space, VALID.replace(COLORING, task), [search]).problems
    wrong = [number for number, metric in enumerate(metrics) if metric not in known]
    assert [problem.path for problem in problems] == [f"search.metric[{number}]" for number in wrong]


# Mistakes

COLORS = "task: {name: coloring, vertices: 5}"
RATE, RATES = "1e-3", "{learning_rate: 1e-3}"
VARIANTS = "variants:\n  - {}\n  - model: {attention: softmax}"
TRIAL = VALID[VALID.index("  task") : VALID.index("variants")]
PANEL = "panels: [{kind: histogram, name: a, metric: success, split: q}]\nresources:"
MISTAKES = {
    # keys
    "typo at the top": ("search:", "serach:", "serach", "'search'"),
    "typo two levels down": ("m: 4", "m: 4\n    Q: 3", "trial.objective.Q", "'q'"),
    "typo in a task": ("vertices: 5", "vertexes: 5", "trial.task.vertexes", "'vertices'"),
    "typo in the optimizer": ("learning_rate", "learning_rat", "trial.optimizer.learning_rat", "'learning_rate'"),
    "typo in search": ("method:", "metod:", "search.metod", "'method'"),
    "typo in a variant": ("attention:", "atention:", "variants[1].model.atention", "'attention'"),
    "typo in a pruner": ("method: grid", "early_stopping: {grace_step: 5}",
        "search.early_stopping.grace_step", "'grace_steps'"),
    "typo in a pruner with a mode": ("method: grid", "early_stopping: {name: median, every: 5, mode: max, n_warmup: 5}",
        "search.early_stopping.n_warmup", "'n_warmup_steps'"),
    "key one level too high": ("steps: 300", "steps: 300\n  q: 3", "trial.q", "'trial.objective.q'"),
    "key at the top": ("resources:", "batch_size: 5\nresources:", "batch_size", "'trial.batch_size'"),
    "key of another section": ("method: grid", "lanes: 3", "search.lanes", "'resources.lanes'"),
    "key unlike any": ("m: 4", "m: 4\n    zzz: 1", "trial.objective.zzz", "name, m, q, final_q"),
    "key that is a number": ("m: 4", "m: 4\n    7: 1", "trial.objective.7", "7"),
    "key twice": ("steps: 300", "steps: 300\n  steps: 400", "trial.steps", "line 13"),
    "key that is a list": ("m: 4", "m: 4\n    [a]: 4", "trial.objective", ""),
    "key that is nothing": ("m: 4", "m: 4\n    ~: 4", "trial.objective", ""),
    # what is missing
    "no steps": ("  steps: 300\n", "", "trial.steps", ""),
    "no task name": ("name: coloring, ", "", "trial.task", "'name'"),
    "trial of nothing": (TRIAL, "", "trial", ""),
    # names
    "unknown task": ("coloring", "colouring", "trial.task.name", "'coloring'"),
    "task by its bare name": (COLORING, "coloring", "trial.task", "write {name: coloring}"),
    "task name of a wrong type": ("name: coloring", "name: 5", "trial.task", "'name'"),
    "unknown baseline": ("AE_R,", "ae_r,", "trial.baseline.choice[2]", "'AE_R'?"),
    "unknown method": ("method: grid", "method: gird", "search.method", "'grid'?"),
    "unknown metric": ("method: grid", "metric: majority_31, mode: max", "search.metric", "'majority_30'"),
    "metric without a mode": ("method: grid", "metric: loss", "search.mode", "'mode: max'"),
    "unknown kind of panel": ("resources:", PANEL.replace("histogram", "histogran"), "panels[0].kind", "'histogram'?"),
    "panel without a kind": ("resources:", PANEL.replace("kind: histogram, ", ""), "panels[0].kind", ""),
    "typo in a panel": ("resources:", PANEL.replace("q}", "q, bin: 5}"), "panels[0].bin", "'bins'"),
    "name that is no folder": ("name: small", "name: ../small", "name", "'small'"),
    "panel that is no file": ("resources:", PANEL.replace("name: a", "name: 1/2 b"), "panels[0].name", "'1-2 b'"),
    "key that holds an anchor": ("name: small", "shared: &x 4\nname: small", "shared", "x-"),
    # values
    "negative q": ("[1, 2.5,", "[1, -2.5,", "trial.objective.q.choice[1]", "1, got -2.5"),
    "q that is not a number": ("[1, 2.5,", "[1, .nan,", "trial.objective.q.choice[1]", "nan"),
    "float for an integer": ("steps: 300", "steps: 3e2", "trial.steps", "got 300.0; write 300"),
    "quoted number": (RATE, "'1e-3'", "trial.optimizer.learning_rate", "'1e-3'"),
    "boolean for an integer": ("m: 4", "m: true", "trial.objective.m", "true"),
    "no for a boolean": ("attention: softmax", "mlp: no", "variants[1].model.mlp", "'no'"),
    "nothing for a number": ("m: 4", "m:", "trial.objective.m", ""),
    "list for a number": ("m: 4", "m: [4, 5]", "trial.objective.m", "{choice: [...]}"),
    "commas in braces": ("objective:\n    q: {choice: [1, 2.5, inf]}\n    m: 4", "objective: {q: 1,10, m: 4}",
        "trial.objective.q", "{choice: [1, 10]}"),
    "commas in a choice": ("[1, 2.5, inf]", "1, 2.5, 7", "trial.objective.q.choice", " [1, 2.5, 7]"),
    "commas without a key": (RATES, "{1, 2}", "trial.optimizer", "1"),
    "commas outside of braces": ("m: 4", "m: 1,10", "trial.objective.m", "{choice: [...]}"),
    "mapping for a number": ("steps: 300", "steps: {a: 1}", "trial.steps", "log_normal"),
    "unknown optimizer": (RATES, "{name: pgp}", "trial.optimizer.name", "'pgpe'?"),
    "key of another optimizer": (RATES, "{name: pgpe, learning_rate: 1}", "trial.optimizer.learning_rate", "final_m"),
    "odd population": (RATES, "{name: pgpe, population: 5}", "trial.optimizer.population", "5"),
    "number for a mapping": (RATES, "3", "trial.optimizer", "3"),
    "infinite rate": (RATE, ".inf", "trial.optimizer.learning_rate", "inf"),
    "rate of 0": (RATE, "0", "trial.optimizer.learning_rate", "0"),
    "number out of range": (RATE, "1e999", "trial.optimizer.learning_rate", ".inf"),
    "integer out of range": ("300", "3" * 5000, "trial.steps", "333"),
    "number beyond float32": ("[1, 2.5,", "[1, 1e39,", "trial.objective.q.choice[1]", "3.4e+38"),
    "warm-up beyond int32": (RATES, "{warmup_steps: 3000000000}", "trial.optimizer.warmup_steps", "2,147,483,647"),
    "warm-up below 0": (RATES, "{warmup_steps: -1}", "trial.optimizer.warmup_steps", "-1"),
    "unknown schedule": (RATES, "{schedule: step}", "trial.optimizer.schedule", "'linear'"),
    "cycle of two": ("vertices: 5", "vertices: 2", "trial.task.vertices", "3, got 2"),
    "seed below 0": ("{seeds: 2}", "-1", "trial.seed", "-1"),
    "vote of more than vote": ("[5, 30]", "[5, 31]", "trial.evaluation.votes", "31"),
    "vote of none": ("[5, 30]", "[0, 30]", "trial.evaluation.votes[0]", "1, got 0"),
    "no seeds of an evaluation": ("seeds: 30", "seeds: 0", "trial.evaluation.seeds", "1, got 0"),
    "vote twice": ("[5, 30]", "[5, 5]", "trial.evaluation.votes", "[5, 5]"),
    "one and a half GPUs": ("cpus: 1", "gpus: 1.5", "resources.gpus", "1, got 1.5"),
    "word on the last line": ("lanes: 8", "lanes: x", "resources.lanes", "'x'"),
    # holes
    "empty axis": ("[8, 16]", "[]", "trial.model.width.choice", ""),
    "value twice": ("[8, 16]", "[8, 16, 8.0]", "trial.model.width.choice[2]", "trial.model.width.choice[0]"),
    "record twice": (COLORS, "task: {choice: [{name: coloring}, {name: coloring}]}", "trial.task.choice[1]",
        "trial.task.choice[0]"),
    "axis that is no list": ("[8, 16]", "8", "trial.model.width.choice", "8"),
    "typo in a hole": ("{choice: [8, 16]}", "{choise: [8, 16]}", "trial.model.width", "'choice'?"),
    "typo in a hole of records": (COLORS, "task: {choces: [{name: coloring}]}", "trial.task", "'choice'?"),
    "two holes in one": ("{choice: [8, 16]}", "{choice: [8, 16], int: [8, 16]}", "trial.model.width.int",
        "choice, weights"),
    "hole for the whole trial": ("variants:", "  choice: [1]\nvariants:", "trial.choice", ""),
    "hole in resources": ("lanes: 8", "lanes: {choice: [4, 8]}", "resources.lanes", "'choice'"),
    "entry of a choice in a choice": (COLORS,
        "task: {choice: [{name: coloring}, {name: coloring, vertices: {choice: [4, 99]}}]}",
        "trial.task.choice[1].vertices.choice[1]", "10, got 99"),
    "range in a grid": (RATE, "{uniform: [0, 1]}", "trial.optimizer.learning_rate", "search.method random"),
    "range upside down": ("m: 4", "m: {int: [9, 4]}", "trial.objective.m.int", "9"),
    "range of min and max": (RATE, "{min: 1, max: 10}", "trial.optimizer.learning_rate",
        "{uniform: [a, b]}, {log_uniform: [a, b]} or {int: [a, b]}"),
    "range of one": (RATE, "{uniform: [1, 1]}", "trial.optimizer.learning_rate.uniform", "1"),
    "range of three": (RATE, "{uniform: [1, 2, 3]}", "trial.optimizer.learning_rate.uniform", "3"),
    "range that is no list": (RATE, "{uniform: 5}", "trial.optimizer.learning_rate.uniform", "5"),
    "range without end": (RATE, "{uniform: [1, .inf]}", "trial.optimizer.learning_rate.uniform[1]", "inf"),
    "range of words": (RATE, "{uniform: [a, 2]}", "trial.optimizer.learning_rate.uniform[0]", "'a'"),
    "integers that are none": ("m: 4", "m: {int: [1, 4.5]}", "trial.objective.m.int[1]", "4.5"),
    "logarithm of 0": (RATE, "{log_uniform: [0, 1]}", "trial.optimizer.learning_rate.log_uniform[0]", "0"),
    "seeds where they do not fit": ("steps: 300", "steps: {seeds: 5}", "trial.steps", "trial.seed"),
    "no seeds": ("{seeds: 2}", "{seeds: 0}", "trial.seed.seeds", "0"),
    "seeds without end": ("{seeds: 2}", "{seeds: 10000000}", "trial.seed.seeds", "1000000"),
    "far too many settings": ("{seeds: 2}", "{seeds: 999999}", "trial", "47,999,952"),
    "variant twice": ("  - {}", "  - {}\n  - {}", "variants[1]", "variants[0]"),
    "no variants": (VARIANTS, "variants: []", "variants", ""),
    "variants as a mapping": (VARIANTS, "variants: {}", "variants", ""),
    "variant that is no trial": ("- {}", "- softmax", "variants[0]", "'softmax'"),
    # search
    "random without a number": ("method: grid", "method: random", "search.method", "search.trials"),
    "grid with a number": ("method: grid", "trials: 5", "search.trials", ""),
    "no settings to draw": ("method: grid", "method: random, trials: 0", "search.trials", "1, got 0"),
    "number as a mapping": ("method: grid", "method: random, trials: {count: 3}", "search.trials", ""),
    "metric as a mapping": ("method: grid", "metric: {name: loss, goal: min}", "search.metric", "search.mode"),
    "metrics as mappings": ("method: grid", "method: optuna, trials: 3, metric: [success, {name: loss, goal: min}]",
        "search.metric[1]", "search.mode"),
    # another value where a mapping belongs
    "sampler by its bare name": ("method: grid", "method: optuna, trials: 3, sampler: tpe",
        "search.sampler", "write {name: tpe}"),
    "pruner by its bare name": ("method: grid", "early_stopping: asha",
        "search.early_stopping", "write {name: asha, grace_steps: …}"),
    "true for a pruner": ("method: grid", "early_stopping: true",
        "search.early_stopping", "write {name: …}, one of asha, median"),
    "rung by its step": ("method: grid", "method: halving, starts: 2, rungs: [100]",
        "search.rungs[0]", "write {steps: 100, keep: …}"),
    "rungs by a step": ("method: grid", "method: halving, starts: 2, rungs: 100",
        "search.rungs", "write [{steps: 100, keep: …}]"),
    "sampler for a search": ("{method: grid}", "tpe", "search", "{method: optuna, sampler: {name: …}}"),
    "limits by hours": ("resources:", "limits: 8\nresources:", "limits", "write {hours: 8}, or another of failures"),
    "goal by its metric": ("resources:", "limits: {goal: loss}\nresources:", "limits.goal", "write {metric: loss}"),
    "seeds for an evaluation": ("{seeds: 30, votes: [5, 30]}", "100", "trial.evaluation", "write {seeds: 100}"),
    "panel by its kind": ("resources:", "panels: curve\nresources:", "panels", "write [{kind: curve, name: …, x: …}]"),
    "panel without a list": ("resources:", "panels: {kind: curve}\nresources:", "panels", "[{…}]"),
    "condition of a panel as SQL": ("resources:", PANEL.replace("split: q", "split: q, where: q = 3"),
        "panels[0].where", "write {q: 3}"),
    "start from a sweep by its name": ("steps: 300", "steps: 300\n  start_from: other",
        "trial.start_from", "write {sweep: NAME}"),
    # YAML
    "brackets left open": ("cpus: 1}", "cpus: 1", "", ""),
    "tab": ("  steps: 300", "\tsteps: 300", "", ""),
    "two documents": ("search:", "---\nsearch:", "", ""),
    "unknown alias": ("m: 4", "m: *four", "", "'four'"),
    "python object": ("m: 4", "m: !!python/object/apply:os.getcwd []", "trial.objective.m", "os.getcwd"),
    "unknown tag": ("m: 4", "m: !four 4", "trial.objective.m", "!four"),
    "tag of a number": (RATE, "!!float 1e-3", "trial.optimizer.learning_rate", "!!float"),
    "tag of a key": ("m: 4", "!!str m: 4", "trial.objective", "!!str"),
    "control character": ("m: 4", "m: 4\x07", "", "\\x07"),
    "half a character": ("name: small", 'name: "\\ud800"', "name", "\\ud800"),
    "escape out of range": ("name: small", 'name: "\\UFFFFFFFF"', "", ""),
    "merge key": ("m: 4", "<<: {m: 4}", "trial.objective", "(<<)"),
    "alias of itself": (COLORING, "&a {name: coloring, vertices: *a}", f"trial.task{'.vertices' * 38}.name", "40"),
    "deep nesting": ("m: 4", "m: " + "[" * 500 + "]" * 500, "", "40"),
}  # fmt: skip
"""What is replaced in `VALID`, by what, the path of the mistake, and a name, a value or a text of this language."""
ELSEWHERE = {
    **dict.fromkeys(("no steps", "trial of nothing", "hole for the whole trial", "far too many settings"), 3),
    "brackets left open": 21, "variant twice": 18, "escape out of range": None,
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
    message = str(error)
    assert message.startswith(f"space.yaml:{problem.where}: " if problem.where else "space.yaml: ")
    assert message.isprintable()
    assert len(message) < 460


@pytest.mark.parametrize(
    ("old", "new", "at"),
    [
        ("[1, 2.5, inf]", "[1,\n      2.5, 0.3]", "2.5"),
        ("m: 4", "m: {choice: [\n      1,\n      0]}", "      0]"),
    ],
)
def test_an_entry_of_a_choice_is_told_with_its_own_line(old, new, at):
    text = VALID.replace(old, new, 1)
    assert _mistakes(space, text).problems[0].where == _line_of(text, at)


def test_nobody_is_told_to_write_the_record_of_a_hole():
    for text in (VALID.replace("[8, 16]", "8"), VALID.replace("1e-3", "{uniform: 5}")):
        (problem,) = _mistakes(space, text).problems
        assert problem.message.startswith("should be a list, got ")
        assert "write" not in problem.message


def test_a_key_beside_a_hole_is_not_told_as_a_field_of_our_code():
    for hole, name in (
        ("choice: [8, 16]", "entries"),
        ("uniform: [8, 16]", "ends"),
        ("linspace: [8, 9, 2]", "spacing"),
    ):
        (problem,) = _mistakes(space, VALID.replace("choice: [8, 16]", f"{hole}, {name}: 3")).problems
        assert problem.path == f"trial.model.width.{name}"
        assert problem.message.startswith(f"unknown key '{name}' (known: ")


def test_independent_mistakes_are_told_together():
    text = VALID.replace("steps: 300", "steps: 0").replace("[8, 16]", "[8, 0]").replace("1e-3", "x")
    error = _mistakes(space, text)
    paths = {problem.path for problem in error.problems}
    assert paths == {"trial.steps", "trial.model.width.choice[1]", "trial.optimizer.learning_rate"}
    assert len(str(error).splitlines()) == 3


def test_a_file_that_is_not_there_is_told_with_the_nearest_space(monkeypatch):
    monkeypatch.chdir(SPACES.parent)
    for name in ("quickstart", "quickstart.yml", "Quickstart.yaml", "spaces/quickstrat.yaml"):
        assert str(_mistakes(read, name)).endswith("'search_spaces/quickstart.yaml'?")
    assert "'search_spaces/coloring.yaml'" in str(_mistakes(read, "search_spaces/colorin.yaml"))
    for name in ("cluster1.yaml", "search_spaces", "a\0b"):  # cluster.yaml is no search space
        assert "'" not in str(_mistakes(read, name))


def test_a_metric_without_mode_is_told_together_with_its_name():
    unknown, mode = _mistakes(space, VALID.replace("method: grid", "metric: accuracy")).problems
    assert (unknown.path, mode.path, mode.where) == ("search.metric", "search.mode", _line_of(VALID, "search:"))


def test_a_file_that_cannot_be_a_space_is_told_with_its_line(tmp_path):
    path = tmp_path / "space.yaml"
    for content, line in (
        *((b"trial: \xff\n", 1), (b"trial: 1\nx: \xe4\n", 2), (b"#" * 2_000_000, None), (VALID.encode("utf-16"), 1)),
        *((b"", None), (b"# nothing but a comment\n", None), (b"~", None), (b"- trial", 1), (b"trial", 1), (b"5", 1)),
    ):
        path.write_bytes(content)
        (problem,) = _mistakes(read, path).problems
        assert (problem.path, problem.where) == ("", line), content[:30]
    path.write_text("\ufeff" + VALID)
    assert read(path).name == "small", "a file may begin with a byte order mark"


def test_aliases_are_written_out_within_bounds():
    text = VALID.replace("    m: 4", "    m: &m 4").replace("{learning_rate: 1e-3}", "{warmup_steps: *m}")
    text = text.replace("  objective:", "  batch_size: 1\n  objective:")
    assert {trial.optimizer.warmup_steps for trial in space(text).expand().trials} == {4}
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    assert "50,000" in str(_mistakes(space, "\n".join(lines)))


def test_keys_at_the_top_may_hold_anchors():
    text = "x-rate: &rate 1e-3\nx-task:\n  - &task {name: coloring, vertices: 5}\n" + VALID
    text = text.replace("learning_rate: 1e-3", "learning_rate: *rate").replace(f"  task: {COLORING}", "  task: *task")
    assert space(text).expand() == space(VALID).expand()
    (problem,) = _mistakes(space, text, ["x-rate=1"]).problems
    assert (problem.path, problem.where) == ("x-rate", "x-rate=1")


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
        (".".join("a" * 50) + "=5", "", "path=value"),
        ("trial.stepz=5", "trial.stepz", "'steps'"),
        ("steps=5", "steps", "'trial.steps'"),
        ("trial.steps=five", "trial.steps", "'five'"),
        ("trial.steps=", "trial.steps", ""),
        ("trial.steps={choice: [5, 0]}", "trial.steps.choice[1]", "1, got 0"),
        ("trial.objective.q.choice[1]=0", "trial.objective.q.choice[1]", "1, got 0"),
        ("trial.objective.q.choice[9]=2", "trial.objective.q.choice", "[9]"),
        ("trial.steps.x=2", "trial.steps", "300"),
        ("trial.steps[0]=2", "trial.steps", "300"),
        ("trial.model.width={int: [1, 2}", "trial.model.width", ""),
        ("variants[1].model.attenton=linear", "variants[1].model.attenton", "'attention'"),
    ],
)
def test_a_mistake_in_an_override_is_told_with_the_override(override, path, named):
    error = _mistakes(space, VALID, [override])
    (problem,) = error.problems
    assert (problem.path, problem.where) == (path, override)
    assert named in problem.message
    assert str(error).startswith(f"--set {override[:20]}")


def test_an_override_without_effect_is_refused():
    text = VALID.replace("  - {}", "  - {steps: 5}").replace("model: {attention", "steps: 6\n    model: {attention")
    (problem,) = _mistakes(space, text, ["trial.steps=9"]).problems
    assert (problem.path, problem.where) == ("trial.steps", "trial.steps=9")


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


def test_a_space_and_an_error_have_a_pickle_round_trip():
    spec = space(RANDOM)
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert pickle.loads(pickle.dumps(spec)).expand() == spec.expand()
    error = _mistakes(space, VALID.replace("m: 4", "m: 0"))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def _shuffled(value: Any, source: random.Random) -> Any:
    if isinstance(value, dict):
        keys = source.sample(list(value), len(value))
        return {key: _shuffled(value[key], source) for key in keys}
    return [_shuffled(item, source) for item in value] if isinstance(value, list) else value


@pytest.mark.slow
@pytest.mark.parametrize("text", [VALID, RANDOM], ids=["grid", "random"])
@given(source=st.randoms(use_true_random=False))
@settings(max_examples=5)
def test_the_order_of_keys_is_immaterial(text, source):
    text = text.replace("{seeds: 2}", "0")
    reordered = yaml.safe_dump(_shuffled(yaml.load(text, yaml.BaseLoader), source), sort_keys=False)
    reordered = re.sub(r"'([^'\n]*)'", r"\1", reordered)
    assert sorted(space(reordered).expand().trial_ids) == sorted(space(text).expand().trial_ids)


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


def test_whole_numbers_in_real_fields_have_the_bounds_of_real_numbers():
    assert space(VALID, ["trial.objective.q=30000000000"]).expand().trials[-1].objective.q == 3e10


def test_doubtful_trials_are_told_with_the_path_of_the_value():
    trials = space(VALID, ["trial.optimizer.warmup_steps={choice: [299, 300, 301]}"]).expand().trials
    (line,) = remarks(trials, GridSearch())
    assert line.strip().startswith("trial.optimizer.warmup_steps: ")
    assert re.findall(r"\d+", line) == ["64", "301", "300"]
    trials = [trial for trial in trials if trial.optimizer.warmup_steps == 300]
    assert not remarks(trials, GridSearch(early_stopping=Asha(grace_steps=299)))
    (line,) = remarks(trials, GridSearch(early_stopping=Asha(grace_steps=300)))
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
        "optimizer.beta1": ("{normal: [0.5, 0.01]}", distributions.FloatDistribution(0, 1)),
        "model.width": ("{int: [4, 17], step: 4}", distributions.IntDistribution(4, 16, step=4)),
        "batch_size": ("{int: [16, 512], log: true}", distributions.IntDistribution(16, 512, log=True)),
        "steps": ("{linspace: [100, 300, 3]}", distributions.IntDistribution(0, 2)),
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
        assert trials[0].optimizer.beta1 == pytest.approx(0.5, abs=0.09)
        assert trials[0].model.model_dump()["attention"] == ("linear", "softmax")[setting["variants"]]


def test_optuna_is_asked_for_the_holes_of_a_chosen_entry_alone():
    spec = space(RANDOM, ["search={method: optuna, trials: 12}"])
    study = spec.search.study(spec.tree)
    for setting in (study.ask() for _ in range(12)):
        assert ("trial.objective.q.choice[1]" in setting) == (setting["trial.objective.q"] == 1)


def test_values_that_exclude_each_other_are_told_when_they_meet():
    text = VALID.replace("seeds: 30, votes: [5, 30]", "seeds: {choice: [30, 60]}, votes: {choice: [[5], [60]]}")
    assert _mistakes(lambda: space(text).expand()).problems[0].path == "trial.evaluation.votes.choice[1]"


# Files that nobody would ship


_PATHS = [
    *("exclude", "trial.optimizer.beta1", "search.sampler", "trial.steps", "trial.model", "trial", "variants[1]"),
    *("variants", "search", "panels", "trial.seed"),
]
_WORDS = [
    *("choice", "uniform", "int", "seeds", "trial", "name", "search", "method", "random", "optuna", "trials", "q"),
    *("each", "linspace", "normal", "formula", "exclude", "step", "log", "sampler", "early_stopping", "values", "min"),
]
_VALUES = [
    "0", "-1", "1e-3", ".inf", ".nan", "~", "true", "{}", "[]", "[1, 2]", "{choice: [1, 2]}", "{seeds: 3}", "'x'",
    "1e999", "9" * 30, "{uniform: [1, 2]}", "{log_uniform: [1e-3, 2]}", "*a",
    "{int: [1, 9], step: 2}", "{linspace: [1, 9, 3]}", "{each: [1, 2]}", "{normal: [0, 1]}", "{log_normal: [0, 1]}",
    "{formula: trial.steps / 2}", "{formula: trial.seed}", "[trial.steps > 2]", "{values: [1, 2]}", "range(1, 9, 2)",
    "{distribution: uniform, min: 1, max: [2]}", "${steps}", "{_type: choice, _value: 3}", "{log: 2, int: [1, 9]}",
    "&a 5", "!!set {}", "\x00", "|", "\t",
]  # fmt: skip
SHIPPED = [path.read_text() for path in sorted(SPACES.glob("*.yaml"))]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A valid text after a few edits: words and lines replaced, cut, repeated, or with characters behind them."""
    text = draw(st.sampled_from([VALID, RANDOM, RANDOM.replace("random", "optuna"), *SHIPPED]))
    for _ in range(draw(st.integers(1, 4))):
        start, end = draw(
            st.sampled_from([m.span() for part in (r"[\w.]+", r".*\n?") for m in re.finditer(part, text)])
        )
        old = text[start:end]
        scattered = st.text(string.punctuation + " \n\t\r\x85é\u2028a1", max_size=3).map(old.__add__)
        indented = st.integers(0, 6).map(" ".__mul__).map(lambda space, old=old: space + old.lstrip())
        new = draw(st.sampled_from(["", old * 2, *_VALUES, *_WORDS]) | scattered | indented)
        text = text[:start] + new + text[end:] if draw(st.integers(0, 6)) else text[:start]
    return text


FUZZ = settings(suppress_health_check=list(HealthCheck))


@pytest.mark.slow
@given(text=mutated())
@example(text='? "\\U00110000"\n: 1')
@example(text="%YAML 99999999999999999999.1\n---\na: 1")
@example(text="trial: " + "{a: " * 39 + "1" + "}" * 39)
@FUZZ
def test_no_file_gives_a_traceback(text, tmp_path):
    assert_plans_or_explains(text, tmp_path)


@pytest.mark.slow
@given(override=st.text(max_size=30) | st.builds("{}={}".format, st.sampled_from(_PATHS), st.sampled_from(_VALUES)))
@FUZZ
def test_no_override_gives_a_traceback(override, tmp_path):
    assert_plans_or_explains(VALID, tmp_path, [override])


def assert_plans_or_explains(text: str, folder: Path, overrides: Sequence[str] = ()) -> None:
    path = folder / "space.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    for line in _complaints(path, overrides):
        assert line.isprintable()
        assert line.startswith((str(path), "--set "))
        assert len(line) < 1000


def _complaints(path: Path, overrides: Sequence[str]) -> list[str]:
    try:
        spec = read(path, overrides)
        if spec.search.ADAPTS:
            assert spec.search.study(spec.tree).ask() is not None
        elif holes.grid_size(spec.tree) * (spec.search.draws or 1) < 1000:
            assert spec.expand().trials
    except SearchSpaceError as error:
        return str(error).splitlines() or [""]
    return []


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
    of_another_optuna = "{name: tpe, gone: 3}, early_stopping: {name: median, every: 5, gone: 3}"
    assert search_of(f"search: {{method: optuna, trials: 3, sampler: {of_another_optuna}}}\n").method == "optuna"
    for text in ("search: {method: climbing}", "[search]", "search: [", ""):
        with pytest.raises(SearchSpaceError):
            search_of(text)
