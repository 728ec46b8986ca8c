"""Spaces that extend others: documents are joined, mistakes name the file they stand in, records need one text."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.space import search_space, yaml_tree
from sweeper.space.problems import SearchSpaceError

BASE = """\
name: base
description: A small cycle.
trial:
  task: {name: coloring, vertices: 5}
  model: {name: transformer, width: {choice: [8, 16]}}
  baseline: Aq_R
  objective: {q: {choice: [1, inf]}, m: 4}
  steps: 300
  evaluation: {seeds: 30, votes: [5, 30]}
panels:
  - kind: curve
    name: "5"
    x: {column: q}
    y: {label: Success}
    metric: success
    series:
      - {label: A, where: {baseline: Aq_R}}
"""


@pytest.fixture
def folder(tmp_path: Path):
    def write(**files: str) -> Path:
        for name, text in files.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        return tmp_path

    return write


def ids(spec):
    return set(spec.expand().trial_ids)


def test_a_space_has_the_entries_of_the_space_it_extends_under_its_own(folder):
    at = folder(base=BASE, short="extends: base.yaml\ntrial: {steps: 20, model: {width: 8}}\n")
    short = search_space.read(at / "short.yaml")
    alone = search_space.read(at / "base.yaml", ["trial.steps=20", "trial.model.width=8"])
    assert (short.name, short.description) == ("short", "A small cycle.")
    assert short.panels == alone.panels
    assert ids(short) == ids(alone)


@pytest.mark.parametrize(
    ("entry", "other", "same"),
    [
        ("objective: {q: 3, m: 4}", "objective: {name: cvar}", "objective: {name: q_norm, m: 2}"),
        ("optimizer: {eps: 1e-6}", "optimizer: {name: sgd}", "optimizer: {name: adam, beta1: 0.5}"),
    ],
)
def test_a_record_without_a_name_has_the_name_of_the_default(folder, entry, other, same):
    base = f"trial: {{task: {{name: coloring}}, model: {{name: transformer}}, baseline: Aq_R, steps: 3, {entry}}}\n"
    at = folder(
        base=base,
        other=f"extends: base.yaml\ntrial: {{{other}}}\n",
        same=f"extends: base.yaml\nvariants: [{{{other}}}, {{{same}}}]\n",
    )
    (replaced,) = search_space.read(at / "other.yaml").expand().trials
    first, merged = search_space.read(at / "same.yaml").expand().trials
    (kind,) = {"objective", "optimizer"} & {entry.split(":")[0]}
    assert replaced == first
    assert getattr(replaced, kind).name in other
    of_default = getattr(search_space.read(at / "base.yaml").expand().trials[0], kind)
    assert getattr(merged, kind) == of_default.model_copy(update={"m": 2} if kind == "objective" else {"beta1": 0.5})


def test_a_space_may_extend_one_that_extends_another(folder):
    at = folder(
        base=BASE,
        short="extends: base.yaml\ntrial: {steps: 20}\n",
        shorter="extends: short.yaml\nname: tiny\ntrial: {objective: {m: 2}}\n",
    )
    spec = search_space.read(at / "shorter.yaml", ["trial.objective.q=3"])
    assert spec.name == "tiny"
    assert {(t.steps, t.objective.m, float(t.objective.q)) for t in spec.expand().trials} == {(20, 2, 3.0)}


def test_a_record_of_the_text_needs_no_other_file(folder, tmp_path):
    at = folder(base=BASE, short="extends: base.yaml\ntrial: {steps: 20}\n")
    spec = search_space.read(at / "short.yaml", ["trial.objective.m=2"])
    (at / "base.yaml").unlink()
    again = search_space.of_text(tmp_path / "elsewhere" / "short.yaml", spec.text, spec.overrides)
    assert ids(again) == ids(spec)
    assert again.panels == spec.panels


def test_a_recorded_text_extends_nothing(folder):
    at = folder(base=BASE)
    text = f"extends: {at}/base.yaml\n{BASE}"
    with pytest.raises(SearchSpaceError, match="extends"):
        search_space.of_text(at / "recorded.yaml", text)
    assert search_space.search_of(text).method == "grid"


@pytest.mark.parametrize(
    ("files", "place"),
    [
        ({"short": "extends: bose.yaml\n"}, "short.yaml:1: extends: {at}/bose.yaml: .*'{at}/base.yaml'"),
        ({"short": "extends: nowhere.yaml\n"}, "short.yaml:1: extends: {at}/nowhere.yaml: "),
        ({"short": "extends: short.yaml\n"}, "short.yaml:1: extends: 'short.yaml'"),
        ({"short": "extends: other.yaml\n", "other": "extends: short.yaml\n"}, "{at}/other.yaml:1: extends: "),
        ({"short": "extends: [base.yaml]\n"}, "short.yaml:1: extends: "),
        ({"short": "extends: list.yaml\n", "list": "- 1\n"}, "short.yaml:1: extends: 'list.yaml'"),
        ({"short": "extends: bad.yaml\n", "bad": "a: [\n"}, "short.yaml:1: extends: {at}/bad.yaml:2: "),
        ({"short": "extends: base.yaml\ntrial: {steps: no}\n"}, "short.yaml:2: trial.steps: "),
        (
            {"short": "extends: wrong.yaml\n", "wrong": BASE.replace("steps: 300", "steps: no")},
            "{at}/wrong.yaml:8: trial.steps: ",
        ),
    ],
)
def test_a_mistake_names_the_file_it_stands_in(files, place, folder, monkeypatch):
    at = folder(base=BASE, **files)
    monkeypatch.chdir(at)
    with pytest.raises(SearchSpaceError, match=place.replace("{at}", str(at))):
        search_space.read(at / "short.yaml")


SCALARS = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False)
TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=8)
NUMBER_LIKE = st.sampled_from(["1e-3", "no", "0o17", "~", "", ".inf", "inf", "1_000", "12:30", "2026-11-22", "<<", "="])


@given(st.dictionaries(TEXTS.filter(bool), SCALARS | TEXTS | NUMBER_LIKE | st.lists(SCALARS | NUMBER_LIKE), min_size=1))
def test_written_text_is_read_as_the_same_data(data):
    root = yaml_tree.Node(
        {
            key: yaml_tree.Node([yaml_tree.Node(i, "", 1) for i in v] if isinstance(v, list) else v, "", 1)
            for key, v in data.items()
        },
        "",
        1,
    )
    again = yaml_tree.plain(yaml_tree.document_tree(yaml_tree.text_of(root)))
    assert again == data
    assert list(map(type, again.values())) == list(map(type, data.values()))
