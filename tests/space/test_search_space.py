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

from sweeper.space import holes, yaml_tree
from sweeper.space.early_stopping import Asha
from sweeper.space.problems import SearchSpaceError
from sweeper.space.search_methods import GridSearch, Method
from sweeper.space.search_space import read, search_of
from sweeper.space.sweep_spec import SweepSpec, remarks
from sweeper.trial.trial_spec import TrialSpec, trial_id

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


@pytest.fixture
def space(tmp_path: Path):
    """Reads a text as a search space."""

    def read_text(text: str, overrides: Sequence[str] = (), name: str = "space.yaml") -> SweepSpec:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return read(path, overrides)

    return read_text


def _line_of(text: str, fragment: str) -> int:
    return text[: text.index(fragment)].count("\n") + 1


def _mistakes(act: Callable[..., object], *arguments: Any) -> SearchSpaceError:
    with pytest.raises(SearchSpaceError) as caught:
        act(*arguments)
    return caught.value


COLORING = "{name: coloring, vertices: 5}"
RECALL = "{name: recall, keys: 3, value_bits: 2, seed_bits: 2}"


@pytest.mark.parametrize(
    ("task", "known", "unknown"),
    [
        (COLORING, ["margin_p5", "wrong_entropy", "majority_5_p5", "loss_worst", "train_loss", "majority_5"],
         ["stored_items", "majority_tuple_5"]),
        (RECALL, ["stored_items", "majority_tuple_5"], ["majority_tuple_6"]),
        (f"{{choice: [{COLORING}, {RECALL}]}}", ["majority_5", "majority_tuple_5"], []),
        (f"{{choice: [{RECALL}, {COLORING}]}}", ["majority_5", "majority_tuple_5"], []),
    ],
)  # fmt: skip
def test_a_search_may_improve_whatever_the_evaluation_of_its_tasks_reports(space, task, known, unknown):
    text = VALID.replace(COLORING, task)
    for metric in known:
        assert space(text, [f"search={{metric: {metric}, mode: max}}"]).search.metric == (metric,)
    for metric in unknown:
        with pytest.raises(SearchSpaceError, match=f"unknown metric '{metric}'"):
            space(text, [f"search={{metric: {metric}, mode: max}}"])


# Mistakes: (what is replaced in VALID, by what, dotted path, in the message); the line is that of the replacement

MISTAKES = {
    # keys
    "typo at the top": ("search:", "serach:", "serach", "did you mean 'search'?"),
    "typo two levels down": ("m: 4", "m: 4\n    Q: 3", "trial.objective.Q", "did you mean 'q'?"),
    "typo in a task": ("vertices: 5", "vertexes: 5", "trial.task.vertexes", "did you mean 'vertices'?"),
    "typo in the optimizer": ("learning_rate", "learning_rat", "trial.optimizer.learning_rat", "'learning_rate'?"),
    "typo in resources": ("lanes", "lane", "resources.lane", "did you mean 'lanes'?"),
    "typo in search": ("method:", "metod:", "search.metod", "did you mean 'method'?"),
    "typo in a variant": ("attention:", "atention:", "variants[1].model.atention", "did you mean 'attention'?"),
    "typo in early stopping": ("{method: grid}", "{early_stopping: {grace_step: 5}}",
        "search.early_stopping.grace_step", "did you mean 'grace_steps'?"),
    "typo in a pruner that has a mode": ("{method: grid}",
        "{early_stopping: {name: median, every: 5, mode: max, n_warmup: 5}}", "search.early_stopping.n_warmup",
        "did you mean 'n_warmup_steps'?"),
    "key one level too high": ("steps: 300", "steps: 300\n  q: 3", "trial.q", "did you mean 'trial.objective.q'?"),
    "key at the top": ("resources:", "batch_size: 5\nresources:", "batch_size", "did you mean 'trial.batch_size'?"),
    "key of another section": ("{method: grid}", "{lanes: 3}", "search.lanes", "did you mean 'resources.lanes'?"),
    "key unlike any": ("m: 4", "m: 4\n    zzz: 1", "trial.objective.zzz",
        "unknown key 'zzz' (known: name, m, q, final_q)"),
    "key that is a number": ("m: 4", "m: 4\n    7: 1", "trial.objective.7", "must be a word here, not 7"),
    "key twice": ("steps: 300", "steps: 300\n  steps: 400", "trial.steps", "appears twice (first on line 13)"),
    "key that is a list": ("m: 4", "m: 4\n    [a]: 4", "trial.objective", "a key must be a word"),
    "key that is nothing": ("m: 4", "m: 4\n    ~: 4", "trial.objective", "not nothing"),
    # what is missing
    "no steps": ("  steps: 300\n", "", "trial.steps", "is missing"),
    "no task name": ("name: coloring, ", "", "trial.task", "'name' is missing (known: coloring"),
    "trial of nothing": (VALID[VALID.index("  task") : VALID.index("variants")], "", "trial", "a mapping, got nothing"),
    # names
    "unknown task": ("coloring", "colouring", "trial.task.name", "did you mean 'coloring'?"),
    "task by its bare name": ("{name: coloring, vertices: 5}", "coloring", "trial.task", "mapping with the key 'name'"),
    "task name of a wrong type": ("name: coloring", "name: 5", "trial.task", "'name'"),
    "unknown baseline": ("AE_R,", "AE_RR,", "trial.baseline.choice[2]", "did you mean 'AE_R'?"),
    "baseline in capitals": ("AE_R,", "ae_r,", "trial.baseline.choice[2]", "did you mean 'AE_R'?"),
    "unknown method": ("method: grid", "method: gird", "search.method", "did you mean 'grid'?"),
    "unknown metric": ("method: grid", "metric: majority_31, mode: max", "search.metric",
        "did you mean 'majority_30'?"),
    "metric without a mode": ("method: grid", "metric: loss", "search.mode",
        "'mode: max' if 'loss' is to become large"),
    "unknown kind of panel": ("resources:", "panels: [{kind: curv}]\nresources:", "panels[0].kind", "mean 'curve'?"),
    "panel without a kind": ("resources:", "panels: [{name: a}]\nresources:", "panels[0].kind", "is missing"),
    "typo in a panel": ("resources:",
        "panels: [{kind: histogram, name: a, metric: success, split: q, bin: 5}]\nresources:", "panels[0].bin",
        "did you mean 'bins'?"),
    "name that is no folder": ("name: small", "name: ../small", "name", "'../small'; did you mean 'small'?"),
    "name of two folders": ("name: small", "name: a/b", "name",
        "the first a letter or a digit, got 'a/b'; did you mean"),
    "panel whose name is no file": ("resources:",
        "panels: [{kind: histogram, name: 1/2 left, metric: success, split: q}]\nresources:", "panels[0].name",
        "spaces, '.', '_' and '-', the first a letter or a digit, got '1/2 left'; did you mean '1-2 left'?"),
    "key that holds an anchor": ("name: small", "shared: &x 4\nname: small", "shared", "an anchor begins with x-"),
    # values
    "negative q": ("[1, 2.5,", "[1, -2.5,", "trial.objective.q.choice[1]", "must be at least 1, got -2.5"),
    "q that is not a number": ("[1, 2.5,", "[1, .nan,", "trial.objective.q.choice[1]", "got nan"),
    "float for an integer": ("steps: 300", "steps: 3e2", "trial.steps", "expected an integer, got 300.0"),
    "quoted number": ("1e-3", "'1e-3'", "trial.optimizer.learning_rate", "got '1e-3'; write it without quotes"),
    "boolean for an integer": ("m: 4", "m: true", "trial.objective.m", "expected an integer, got true"),
    "no for a boolean": ("attention: softmax", "mlp: no", "variants[1].model.mlp", "true or false, got 'no'"),
    "nothing for a number": ("m: 4", "m:", "trial.objective.m", "expected an integer, got nothing"),
    "list for a number": ("m: 4", "m: [4, 5]", "trial.objective.m", "got a list; to try several values write {choice"),
    "commas in braces": ("objective:\n    q: {choice: [1, 2.5, inf]}\n    m: 4", "objective: {q: 1,10, m: 4}",
        "trial.objective.q", "so that 10 is read as a key; write {choice: [1, 10]}"),
    "commas in a choice": ("[1, 2.5, inf]", "1, 2.5, 7", "trial.objective.q.choice", "write [1, 2.5, 7]"),
    "commas without a key": ("{learning_rate: 1e-3}", "{1, 2}", "trial.optimizer", "1 stands where a key belongs"),
    "commas outside of braces": ("m: 4", "m: 1,10", "trial.objective.m",
        "'1,10'; to try several values write {choice: [1"),
    "mapping for a number": ("steps: 300", "steps: {a: 1}", "trial.steps", "'a' opens no hole"),
    "unknown optimizer": ("{learning_rate: 1e-3}", "{name: pgp}", "trial.optimizer.name", "did you mean 'pgpe'?"),
    "key of another optimizer": ("{learning_rate: 1e-3}", "{name: pgpe, learning_rate: 1e-3}",
        "trial.optimizer.learning_rate", "known: name, population, final_m, center_learning_rate"),
    "typo in pgpe": ("{learning_rate: 1e-3}", "{name: pgpe, populatio: 4}", "trial.optimizer.populatio",
        "did you mean 'population'?"),
    "odd population": ("{learning_rate: 1e-3}", "{name: pgpe, population: 5}", "trial.optimizer.population",
        "should be a multiple of 2, got 5"),
    "number for a mapping": ("{learning_rate: 1e-3}", "3", "trial.optimizer", "expected a mapping, got 3"),
    "infinite rate": ("1e-3", ".inf", "trial.optimizer.learning_rate", "must be finite, got inf"),
    "rate of 0": ("1e-3", "0", "trial.optimizer.learning_rate", "must be above 0, got 0"),
    "number out of range": ("1e-3", "1e999", "trial.optimizer.learning_rate", "1e999 is too large"),
    "integer out of range": ("300", "3" * 5000, "trial.steps", "is too large"),
    "rate that is 0 in float32": ("1e-3", "1e-50", "trial.optimizer.learning_rate", "is 0 in single precision"),
    "number beyond float32": ("[1, 2.5,", "[1, 1e39,", "trial.objective.q.choice[1]", "at most 3.4e+38 in single"),
    "decay that rounds to 1": ("{learning_rate: 1e-3}", "{beta2: 0.999999999}", "trial.optimizer.beta2",
        "is 1 in single precision, which is out of bounds"),
    "warm-up beyond int32": ("{learning_rate: 1e-3}", "{warmup_steps: 3000000000}", "trial.optimizer.warmup_steps",
        "must be at most 2,147,483,647, got 3000000000"),
    "warm-up below 0": ("{learning_rate: 1e-3}", "{warmup_steps: -1}", "trial.optimizer.warmup_steps",
        "must be at least 0, got -1"),
    "unknown schedule": ("{learning_rate: 1e-3}", "{schedule: step}", "trial.optimizer.schedule",
        "'linear', got 'step'"),
    "cycle of two": ("vertices: 5", "vertices: 2", "trial.task.vertices", "must be at least 3, got 2"),
    "seed below 0": ("{seeds: 2}", "-1", "trial.seed", "must be at least 0, got -1"),
    "vote of more than vote": ("[5, 30]", "[5, 31]", "trial.evaluation.votes", "a group of 31 needs at least 31"),
    "vote of none": ("[5, 30]", "[0, 30]", "trial.evaluation.votes[0]", "must be at least 1, got 0"),
    "no seeds of an evaluation": ("seeds: 30", "seeds: 0", "trial.evaluation.seeds", "must be at least 1, got 0"),
    "vote twice": ("[5, 30]", "[5, 5]", "trial.evaluation.votes", "names a group size twice"),
    "word among the votes": ("[5, 30]", "[5, x]", "trial.evaluation.votes[1]", "expected an integer, got 'x'"),
    "one and a half GPUs": ("cpus: 1", "gpus: 1.5", "resources.gpus", "must be at most 1, got 1.5"),
    # holes
    "empty axis": ("[8, 16]", "[]", "trial.model.width.choice", "the axis is empty"),
    "value twice": ("[8, 16]", "[8, 16, 8.0]", "trial.model.width.choice[2]", "repeats trial.model.width.choice[0]"),
    "record twice": ("task: {name: coloring, vertices: 5}", "task: {choice: [{name: coloring}, {name: coloring}]}",
        "trial.task.choice[1]", "repeats trial.task.choice[0] (a mapping)"),
    "axis that is no list": ("[8, 16]", "8", "trial.model.width.choice", "expected a list, got 8"),
    "typo in a hole": ("{choice: [8, 16]}", "{choise: [8, 16]}", "trial.model.width", "did you mean 'choice'?"),
    "typo in a hole of records": ("task: {name: coloring, vertices: 5}", "task: {choces: [{name: coloring}]}",
        "trial.task", "did you mean 'choice'?"),
    "two holes in one": ("{choice: [8, 16]}", "{choice: [8, 16], int: [8, 16]}", "trial.model.width",
        "a hole has one key and nothing beside it, not 'choice', 'int'"),
    "hole for the whole trial": ("variants:", "  choice: [1]\nvariants:", "trial.choice",
        "cannot stand for a whole trial"),
    "hole in resources": ("lanes: 8", "lanes: {choice: [4, 8]}", "resources.lanes", "fits inside trial and variants"),
    "bad entry of a choice of records": ("task: {name: coloring, vertices: 5}",
        "task: {choice: [{name: coloring}, {name: coloring, vertices: {choice: [4, 99]}}]}",
        "trial.task.choice[1].vertices.choice[1]", "must be at most 10, got 99"),
    "range in a grid": ("1e-3", "{uniform: [0, 1]}", "trial.optimizer.learning_rate", "needs search.method random"),
    "range upside down": ("m: 4", "m: {int: [9, 4]}", "trial.objective.m.int", "upside down: 9 is above 4"),
    "range of min and max": ("1e-3", "{min: 1, max: 10}", "trial.optimizer.learning_rate",
        "a range is written {uniform: [1, 10]}, {log_uniform: [1, 10]} or {int: [1, 10]}"),
    "range of one": ("1e-3", "{uniform: [1, 1]}", "trial.optimizer.learning_rate.uniform", "both ends are 1"),
    "range of three": ("1e-3", "{uniform: [1, 2, 3]}", "trial.optimizer.learning_rate.uniform", "two ends, got 3"),
    "range that is no list": ("1e-3", "{uniform: 5}", "trial.optimizer.learning_rate.uniform", "list of two ends"),
    "range without end": ("1e-3", "{uniform: [1, inf]}", "trial.optimizer.learning_rate.uniform[1]", "got 'inf'"),
    "range of words": ("1e-3", "{uniform: [a, 2]}", "trial.optimizer.learning_rate.uniform[0]", "finite number"),
    "integers that are none": ("m: 4", "m: {int: [1, 4.5]}", "trial.objective.m.int[1]", "an integer, got 4.5"),
    "logarithm of 0": ("1e-3", "{log_uniform: [0, 1]}", "trial.optimizer.learning_rate.log_uniform[0]", "above 0"),
    "seeds where they do not fit": ("steps: 300", "steps: {seeds: 5}", "trial.steps", "fits trial.seed only"),
    "no seeds": ("{seeds: 2}", "{seeds: 0}", "trial.seed.seeds", "1 or more, got 0"),
    "seeds without end": ("{seeds: 2}", "{seeds: 10000000}", "trial.seed.seeds",
        "at most 1,000,000 training seeds, got 10"),
    "far too many settings": ("{seeds: 2}", "{seeds: 999999}", "trial", "47,999,952 settings are too many"),
    "variant twice": ("- {}", "- {}\n  - {}", "variants[1]", "repeats variants[0]"),
    "no variants": ("variants:\n  - {}\n  - model: {attention: softmax}", "variants: []", "variants", "at least 1"),
    "variants as a mapping": ("variants:\n  - {}\n  - model: {attention: softmax}", "variants: {}", "variants",
        "expected a list, got a mapping"),
    "variant that is no trial": ("- {}", "- softmax", "variants[0]", "expected a mapping, got 'softmax'"),
    # search
    "random without a number": ("method: grid", "method: random", "search.method", "needs search.trials"),
    "grid with a number": ("method: grid", "trials: 5", "search.trials", "a grid is run whole"),
    "no settings to draw": ("method: grid", "method: random, trials: 0", "search.trials", "must be at least 1, got 0"),
    "number as a mapping": ("method: grid", "method: random, trials: {count: 3}", "search.trials",
        "expected an integer, got a mapping"),
    "metric as a mapping": ("method: grid", "metric: {name: loss, goal: min}", "search.metric",
        "is written search: {metric: loss, mode: min}"),
    "metrics as mappings": ("method: grid",
        "method: optuna, trials: 3, metric: [{name: loss, goal: minimize}, {name: success, goal: max}]",
        "search.metric", "is written search: {metric: [loss, success], mode: [min, max]}"),
    # YAML
    "brackets left open": ("resources: {lanes: 8, cpus: 1}", "resources: {lanes: 8", "", "not valid YAML"),
    "tab": ("  steps: 300", "\tsteps: 300", "", "found character '\\t' that cannot start"),
    "two documents": ("search:", "---\nsearch:", "", "expected a single document"),
    "unknown alias": ("m: 4", "m: *four", "", "found undefined alias"),
    "python object": ("m: 4", "m: !!python/object/apply:os.getcwd []", "trial.objective.m", "is not supported"),
    "unknown tag": ("m: 4", "m: !four 4", "trial.objective.m", "the tag !four is not supported"),
    "tag of a number": ("1e-3", "!!float 1e-3", "trial.optimizer.learning_rate", "the tag !!float is not supported"),
    "tag of a key": ("m: 4", "!!str m: 4", "trial.objective", "the tag !!str is not supported"),
    "control character": ("m: 4", "m: 4\x07", "", "is not allowed in YAML"),
    "half a character": ("name: small", 'name: "\\ud800"', "name", "half of a character"),
    "escape out of range": ("name: small", 'name: "\\UFFFFFFFF"', "", "not valid YAML"),
    "merge key": ("m: 4", "<<: {m: 4}", "trial.objective", "no merge keys (<<): write the entries out, repeat a whole"),
    "alias of itself": ("{name: coloring, vertices: 5}", "&a {name: coloring, vertices: *a}", None, "an alias hold"),
    "deep nesting": ("m: 4", "m: " + "[" * 500 + "]" * 500, "", "nested deeper than 40 levels"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES.keys())
def test_each_mistake_gives_one_message_with_path_line_and_nearest_name(mistake, space):
    old, new, path, fragment = mistake
    assert VALID.count(old) >= 1
    error = _mistakes(space, VALID.replace(old, new, 1))
    (problem,) = error.problems
    if path is not None:
        assert problem.path == path
    assert fragment in problem.message
    message = str(error)
    assert re.match(r".*space\.yaml(:\d+)?: ", message)
    assert message.isprintable()
    assert len(message.partition("space.yaml")[2]) < 450


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("steps: 300", "steps: 0", "steps"),
        ("[1, 2.5, inf]", "[1,\n      2.5, 0.3]", "2.5"),
        ("attention: softmax", "attention: hard", "attention"),
        ("  - {}", "  - {}\n  - {}", "  - {}\n  - model"),
        ("m: 4", "m: {choice: [\n      1,\n      0]}", "      0]"),
        ("lanes: 8", "lanes: x", "lanes"),
        ("cpus: 1}", "cpus: 1", None),
    ],
)
def test_a_message_names_the_line(old, new, line, space):
    text = VALID.replace(old, new, 1)
    error = _mistakes(space, text)
    expected = _line_of(text, line) if line else len(text.splitlines()) + 1
    assert error.problems[0].where == expected
    assert f"space.yaml:{expected}: " in str(error)


def test_independent_mistakes_are_told_together(space):
    text = VALID.replace("steps: 300", "steps: 0").replace("[8, 16]", "[8, 0]").replace("1e-3", "x")
    error = _mistakes(space, text)
    paths = {problem.path for problem in error.problems}
    assert paths == {"trial.steps", "trial.model.width.choice[1]", "trial.optimizer.learning_rate"}
    assert len(str(error).splitlines()) == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *((name, r"no such file; did you mean 'search_spaces/quickstart\.yaml'\?")
          for name in ("quickstart", "quickstart.yml", "Quickstart.yaml", "spaces/quickstrat.yaml")),
        ("search_spaces/colorin.yaml", r"no such file; did you mean 'search_spaces/coloring\.yaml'\?"),
        ("cluster1.yaml", "no such file$"),  # cluster.yaml is no search space
        ("search_spaces", "cannot be read: Is a directory"),
        ("a\0b", "cannot be read"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_there_is_told_with_the_nearest_space(name, message, monkeypatch):
    monkeypatch.chdir(SPACES.parent)
    with pytest.raises(SearchSpaceError, match=message):
        read(name)


def test_a_metric_without_mode_is_told_together_with_its_name(space):
    unknown, mode = _mistakes(space, VALID.replace("method: grid", "metric: accuracy")).problems
    assert "unknown metric 'accuracy' (known: train_loss" in unknown.message
    assert (mode.path, mode.where) == ("search.mode", _line_of(VALID, "search:"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"trial: \xff\n", "not UTF-8: the byte 0xff"),
        (b"trial: 1\nx: \xe4\n", ":2: not UTF-8"),
        (b"#" * 2_000_000, "larger than"),
        (VALID.encode("utf-16"), "not UTF-8"),
        *((content, "the file is empty") for content in (b"", b"# nothing but a comment\n", b"~")),
        *((content, "expected a mapping, got") for content in (b"- trial", b"trial", b"5")),
    ],
)
def test_a_file_that_cannot_be_a_space_is_told(content, message, tmp_path):
    path = tmp_path / "space.yaml"
    path.write_bytes(content)
    with pytest.raises(SearchSpaceError, match=message):
        read(path)


def test_aliases_are_written_out_within_bounds(space, monkeypatch):
    text = VALID.replace("    m: 4", "    m: &m 4").replace("{learning_rate: 1e-3}", "{warmup_steps: *m}")
    text = text.replace("  objective:", "  batch_size: 1\n  objective:")
    assert {trial.optimizer.warmup_steps for trial in space(text).expand().trials} == {4}
    monkeypatch.setattr(yaml_tree, "MAX_NODES", 2_000)
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(SearchSpaceError, match="more than 2,000 values, counting what aliases repeat"):
        space("\n".join(lines))


def test_keys_at_the_top_may_hold_anchors(space):
    plain = space(VALID).expand()
    text = "x-rate: &rate 1e-3\nx-task:\n  - &task {name: coloring, vertices: 5}\n" + VALID
    text = text.replace("learning_rate: 1e-3", "learning_rate: *rate")
    text = text.replace("  task: {name: coloring, vertices: 5}", "  task: *task")
    assert space(text).expand() == plain
    with pytest.raises(SearchSpaceError, match=r"--set x-rate=1: x-rate: has no effect: aliases are written out"):
        space(text, ["x-rate=1"])


def test_values_are_read_by_the_core_schema_of_yaml(space):
    text = VALID.replace("1e-3", "1e-3, eps: 1E-5, weight_decay: .1")
    text = text.replace("Four models on a small cycle.", "no")
    trial = space(text.replace("m: 4", "m: 0x10")).expand().trials[-1]
    assert (trial.optimizer.learning_rate, trial.optimizer.eps, trial.optimizer.weight_decay) == (1e-3, 1e-5, 0.1)
    assert trial.objective.m == 16
    assert trial.objective.q == math.inf
    assert space("\ufeff" + text).description == "no", "a file may begin with a byte order mark"


# Overrides


def test_overrides_are_written_into_the_document(space):
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
    ("override", "path", "message"),
    [
        ("trial.steps", "", "expected path=value"),
        ("=5", "", "expected path=value"),
        ("trial..steps=5", "", "expected path=value"),
        ("trial.steps.=5", "", "expected path=value"),
        ("[0]=5", "", "expected path=value"),
        (".".join("a" * 50) + "=5", "", "expected path=value"),
        ("trial.stepz=5", "trial.stepz", "did you mean 'steps'?"),
        ("steps=5", "steps", "did you mean 'trial.steps'?"),
        ("trial.steps=five", "trial.steps", "expected an integer, got 'five'"),
        ("trial.steps=", "trial.steps", "expected an integer, got nothing"),
        ("trial.steps={choice: []}", "trial.steps.choice", "the axis is empty"),
        ("trial.steps={choice: [5, 0]}", "trial.steps.choice[1]", "must be at least 1, got 0"),
        ("trial.objective.q.choice[1]=0", "trial.objective.q.choice[1]", "must be at least 1, got 0"),
        ("trial.objective.q.choice[9]=2", "trial.objective.q.choice", "no entry [9]; the list has 3"),
        ("trial.steps.x=2", "trial.steps", "it is 300, no mapping"),
        ("trial.steps[0]=2", "trial.steps", "it is 300, no list"),
        ("trial.model.width={int: [1, 2}", "trial.model.width", "not valid YAML"),
        ("variants[1].model.attenton=linear", "variants[1].model.attenton", "did you mean 'attention'?"),
        ("trial.task={name: sorting}", "trial.task.name", "unknown task 'sorting'"),
    ],
)
def test_a_mistake_in_an_override_is_told_with_the_override(override, path, message, space):
    error = _mistakes(space, VALID, [override])
    (problem,) = error.problems
    assert (problem.path, problem.where) == (path, override)
    assert message in problem.message
    assert str(error).startswith(f"--set {override[:20]}")


def test_an_override_without_effect_is_refused(space):
    text = VALID.replace("  - {}", "  - {steps: 5}").replace("model: {attention", "steps: 6\n    model: {attention")
    with pytest.raises(SearchSpaceError, match=r"--set trial\.steps=9: trial\.steps: has no effect"):
        space(text, ["trial.steps=9"])


# Grids


def test_equal_settings_are_merged_and_counted(space):
    expansion = space(VALID).expand()
    # E keeps one of three q; 2 widths, 2 seeds and 2 variants multiply all.
    assert expansion.settings == 4 * 3 * 8
    assert len(expansion.trials) == (1 + 3 + 1 + 3) * 8
    assert expansion.merged == 32
    assert expansion.summary == "96 settings, 32 equal to others, 64 trials"
    assert expansion.trial_ids == tuple(map(trial_id, expansion.trials))
    assert len(set(expansion.trial_ids)) == 64
    assert {trial.seed for trial in expansion.trials} == {0, 1}


def test_variants_are_merged_deeply_and_their_grids_joined(space):
    text = VALID.replace("  - {}", "  - {objective: {m: {choice: [2, 3]}}, baseline: Aq_R, model: {width: 4}}")
    planned = {(t.model.model_dump()["width"], t.objective.m, t.baseline) for t in space(text).expand().trials}
    first = {(4, 2, "Aq_R"), (4, 3, "Aq_R")}
    assert first <= planned
    assert {entry for entry in planned if entry[0] == 4} == first
    assert {entry[0] for entry in planned} == {4, 8, 16}


def test_a_space_is_named_after_its_file(space):
    assert space(VALID.replace("name: small\n", ""), name="my-space.yaml").name == "my-space"
    with pytest.raises(SearchSpaceError, match=r"name: .*got 'my space'"):
        space(VALID.replace("name: small\n", ""), name="my space.yaml")


def test_a_space_and_an_error_have_a_pickle_round_trip(space):
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


@pytest.mark.parametrize("text", [VALID, RANDOM], ids=["grid", "random"])
@given(source=st.randoms(use_true_random=False))
@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_order_of_keys_is_immaterial(text, source, space):
    text = text.replace("{seeds: 2}", "0")
    reordered = yaml.safe_dump(_shuffled(yaml.load(text, yaml.BaseLoader), source), sort_keys=False)
    reordered = re.sub(r"'([^'\n]*)'", r"\1", reordered)
    assert sorted(space(reordered).expand().trial_ids) == sorted(space(text).expand().trial_ids)


# Random and Optuna search


def test_random_settings_are_those_of_the_search_seed(space):
    first = space(RANDOM).expand()
    assert first.trial_ids == space(RANDOM).expand().trial_ids
    assert set(first.trial_ids).isdisjoint(space(RANDOM.replace("seed: 3", "seed: 4")).expand().trial_ids)
    assert first.settings == 6 * 2
    # As at commit e762526: ids of existing searches stay.
    ids = "".join(space(RANDOM, ["search.trials=200"]).expand().trial_ids)
    assert hashlib.sha256(ids.encode()).hexdigest()[:16] == "4326bb2415a3c42d"


def test_a_random_setting_has_one_variant_and_all_of_its_seeds(space):
    trials = space(RANDOM, ["search.trials=20"]).expand().trials
    assert {trial.model.model_dump()["attention"] for trial in trials} == {"linear", "softmax"}
    by_setting: dict[TrialSpec, set[int]] = {}
    for trial in trials:
        by_setting.setdefault(trial.model_copy(update={"seed": 0}), set()).add(trial.seed)
    assert all(seeds == {0, 1} for seeds in by_setting.values())


@pytest.mark.parametrize(
    ("override", "path", "message"),
    [
        ("trial.objective.q={uniform: [0.5, 9]}", "trial.objective.q.uniform[0]", "at least 1"),
        ("trial.task.vertices={int: [4, 99]}", "trial.task.vertices.int[1]", "at most 10"),
        ("trial.optimizer.learning_rate={log_uniform: [1e-50, 1e-2]}",
         "trial.optimizer.learning_rate.log_uniform[0]", "is 0 in single precision"),
        ("trial.steps={uniform: [5, 10]}", "trial.steps.uniform[0]", "an integer belongs here; draw it with {int: "),
    ],
)  # fmt: skip
def test_the_ends_of_a_range_are_values_of_its_field(override, path, message, space):
    problem = _mistakes(space, RANDOM, [override]).problems[0]
    assert problem.path == path
    assert message in problem.message


def test_whole_numbers_in_real_fields_have_the_bounds_of_real_numbers(space):
    assert space(VALID, ["trial.objective.q=30000000000"]).expand().trials[-1].objective.q == 3e10


def test_a_warm_up_longer_than_the_training_is_told_with_its_path(space):
    short = space(VALID, ["trial.optimizer.warmup_steps={choice: [299, 300, 301]}"]).expand().trials
    (line,) = remarks(short, GridSearch())
    assert line.strip().startswith("trial.optimizer.warmup_steps: longer than the training of 64 trials (301 of 300")
    assert not remarks([trial for trial in short if trial.optimizer.warmup_steps <= 300], GridSearch())


def test_early_stopping_that_no_trial_lives_to_see_is_told_with_its_path(space):
    trials = space(VALID, ["trial.optimizer.warmup_steps=1"]).expand().trials
    (line,) = remarks(trials, GridSearch(early_stopping=Asha(grace_steps=300)))
    assert line.strip() == (
        "search.early_stopping.grace_steps: 64 trials are never stopped early, as a training of 300 steps ends before "
        "step 301"
    )
    (line,) = remarks(trials[:1], GridSearch(early_stopping=Asha(grace_steps=1000)))
    assert "1 trial is never stopped early, as a training of 300 steps ends before step 1,001" in line
    assert not remarks(trials, GridSearch(early_stopping=Asha(grace_steps=299)))


@pytest.mark.parametrize("method", typing.get_args(Method), ids=lambda method: method.__name__)
def test_a_search_lists_its_settings_or_proposes_them(space, method):
    needed = {"trials": 3} if method.DRAWS else {}
    needed |= {"starts": 3, "rungs": ({"steps": 100, "keep": 1},)} if "rungs" in method.model_fields else {}
    (name,) = typing.get_args(method.model_fields["method"].annotation)
    spec = space(RANDOM if method.DRAWS else VALID, [f"search={json.dumps({'method': name, **needed})}"])
    assert type(spec.search) is method
    if method.ADAPTS:
        assert {trial.seed for trial in spec.trials_of(spec.search.study(spec.variants).ask()).trials} == {0, 1}
        with pytest.raises(ValueError, match="no list of trials"):
            spec.expand()
    else:
        assert spec.expand().trials
        with pytest.raises(ValueError, match="proposes no settings"):
            spec.search.study(spec.variants)


def test_optuna_has_a_distribution_of_its_own_for_every_kind_of_hole(space):
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
    study = spec.search.study(spec.variants)
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


def test_optuna_is_asked_for_the_holes_of_a_chosen_entry_alone(space):
    spec = space(RANDOM, ["search={method: optuna, trials: 12}"])
    study = spec.search.study(spec.variants)
    for setting in (study.ask() for _ in range(12)):
        assert ("trial.objective.q.choice[1]" in setting) == (setting["trial.objective.q"] == 1)


def test_values_that_exclude_each_other_are_told_when_they_meet(space):
    text = VALID.replace("seeds: 30, votes: [5, 30]", "seeds: {choice: [30, 60]}, votes: {choice: [[5], [60]]}")
    with pytest.raises(SearchSpaceError, match="a group of 60 needs at least 60") as caught:
        space(text).expand()
    assert caught.value.problems[0].path == "trial.evaluation.votes.choice[1]"


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
    """A valid text after a few edits: tokens replaced, lines moved, cut or repeated, characters scattered."""
    text = draw(st.sampled_from([VALID, RANDOM, RANDOM.replace("random", "optuna"), *SHIPPED]))
    for _ in range(draw(st.integers(1, 4))):
        tokens = [match.span() for match in re.finditer(r"[\w.]+", text)] or [(0, 0)]
        lines = text.splitlines(keepends=True) or [""]
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.integers(0, 6)):
            case 0:
                start, end = draw(st.sampled_from(tokens))
                text = text[:start] + draw(st.sampled_from(_VALUES + _WORDS)) + text[end:]
            case 1:
                start, end = draw(st.sampled_from(tokens))
                text = text[:start] + text[end:]
            case 2:
                lines.insert(draw(st.integers(0, len(lines))), lines[at])
                text = "".join(lines)
            case 3:
                text = "".join(lines[:at] + lines[at + 1 :])
            case 4:
                lines[at] = " " * draw(st.integers(0, 6)) + lines[at].lstrip()
                text = "".join(lines)
            case 5:
                place = draw(st.integers(0, len(text)))
                text = (
                    text[:place] + draw(st.text(string.punctuation + " \n\t\r\x85é\u2028a1", max_size=3)) + text[place:]
                )
            case _:
                text = text[: draw(st.integers(0, len(text)))]
    return text


FUZZ = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.mark.slow
@given(text=mutated())
@example(text='? "\\U00110000"\n: 1')
@example(text="%YAML 99999999999999999999.1\n---\na: 1")
@example(text="trial: " + "{a: " * 39 + "1" + "}" * 39)
@FUZZ
def test_no_file_gives_a_traceback(text, tmp_path):
    assert_plans_or_explains(text, tmp_path)


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
            assert spec.search.study(spec.variants).ask() is not None
        elif sum(map(holes.grid_size, spec.variants)) * (spec.search.draws or 1) < 1000:
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
    for text in ("search: {method: climbing}", "[search]", "search: [", ""):
        with pytest.raises(SearchSpaceError):
            search_of(text)
