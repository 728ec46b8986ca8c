"""The fingerprint changes with the code that computes numbers, and with nothing else."""

import importlib.metadata
import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeper.trial import fingerprint, plugins
from sweeper.trial.fingerprint import OtherCodeError, captured
from tests.trials import coloring_trial

COLORING = coloring_trial()
RECALL = coloring_trial(task={"name": "recall", "keys": 3})
WALK = coloring_trial(task={"name": "gridworld", "height": 2, "width": 2}, optimizer={"name": "pgpe"})
DEEP_SETS = coloring_trial(model={"name": "deep_sets"})
TAIL = coloring_trial(task={"name": "recall", "keys": 3}, objective={"name": "cvar"})
ALL = {"coloring": COLORING, "recall": RECALL, "walk": WALK, "deep sets": DEEP_SETS, "tail": TAIL}


ORIGINAL = captured()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch) -> Path:
    """A copy of the checkout, in which this process now finds its code."""
    for folder in ("sweeper", "tasks", "models", "objectives"):
        shutil.copytree(plugins.ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name, folder in {"PACKAGE": "sweeper", "ROOT": "", "SHIPPED": "", "PROJECT": ""}.items():
        monkeypatch.setattr(plugins, name, tmp_path / folder)
    return tmp_path


def _changed(change: Callable[[], object]) -> set[str]:
    """Which of the trials have another fingerprint after the change."""
    before = captured()
    change()
    after = captured()
    return {name for name, trial in ALL.items() if after.fingerprint(trial) != before.fingerprint(trial)}


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_it_is_twenty_digits_and_the_same_for_a_copy_of_the_checkout(checkout):
    assert captured() == ORIGINAL
    assert len(captured().fingerprint(COLORING)) == 20


@pytest.mark.parametrize(
    ("path", "old", "new", "others"),
    [
        ("tasks/coloring.py", "COLORS = 3", "COLORS = 4", {"coloring", "deep sets"}),
        ("tasks/recall/__init__.py", "FILLINGS = 16", "FILLINGS = 8", {"recall", "tail"}),
        ("tasks/gridworld/environment.py", "FOUND, STEP = 1.0, -0.1", "FOUND, STEP = 1.0, -0.2", {"walk"}),
        ("models/deep_sets.py", "jnp.maximum(count, 1)", "jnp.maximum(count, 2)", {"deep sets"}),
        ("models/transformer.py", "1e-6", "1e-5", set(ALL)),  # deep sets import its layers
        ("objectives/q_norm.py", "finite_q = jnp.where", "finite_q = 1 * jnp.where", set(ALL) - {"tail"}),
        ("objectives/cvar.py", "0.0, 1.0", "0.0, 2.0", {"tail"}),
        ("sweeper/training/objective.py", "axis=1", "axis=0", set(ALL)),
        ("sweeper/trial/objective_contract.py", "] = 10", "] = 11", set(ALL)),
        ("sweeper/trial/trial_spec.py", "NUMERICS_VERSION = 1", "NUMERICS_VERSION = 2", set(ALL)),
        ("sweeper/store/schema.py", "SCHEMA_VERSION = 1", "SCHEMA_VERSION = 2", set()),
        ("sweeper/packs/pack_training.py", "CURVE_POINTS = 200", "CURVE_POINTS = 100", set(ALL)),
        ("sweeper/packs/plan.py", "WINDOW = 8", "WINDOW = 9", set()),
        ("sweeper/trial/plugins.py", "KINDS: tuple", "OTHERS: tuple", set()),
    ],
)
def test_changed_code_concerns_the_trials_that_it_computes(checkout, path, old, new, others):
    assert _changed(lambda: _replace(checkout / path, old, new)) == others


def test_comments_docstrings_and_formatting_are_no_code(checkout):
    def reformat():
        path = checkout / "tasks" / "coloring.py"
        path.write_text("# A remark.\n\n" + path.read_text().replace('"""Cycle 3-colouring.', '"""Other words.'))
        _replace(path, "COLORS = 3", 'COLORS = (\n    3\n)  # three\n"""How many."""')
        _replace(checkout / "sweeper" / "training" / "objective.py", '"""The objective of one batch', '"""It is')

    assert _changed(reformat) == set()


def test_texts_that_are_values_are_code(checkout):
    path = checkout / "tasks" / "coloring.py"
    assert _changed(lambda: _replace(path, "COLORS = 3", "COLORS = 3\nNAME = 'x'")) == {
        "coloring",
        "deep sets",
    }
    assert _changed(lambda: _replace(path, "NAME = 'x'", "NAME = 'y'")) == {"coloring", "deep sets"}


def test_a_package_is_all_of_its_files(checkout):
    table = checkout / "tasks" / "gridworld" / "table.bin"
    assert _changed(lambda: table.write_bytes(b"1")) == {"walk"}
    assert _changed(lambda: table.write_bytes(b"2")) == {"walk"}


def test_modules_that_are_imported_late_or_relatively_count(checkout):
    inner = checkout / "tasks" / "_tables.py"
    inner.write_text("SIZE = 1\n")
    _replace(checkout / "tasks" / "coloring.py", "    def token_size(self) -> int:\n",
             "    def token_size(self) -> int:\n        from ._tables import SIZE\n")  # fmt: skip
    assert _changed(lambda: inner.write_text("SIZE = 2\n")) == {"coloring", "deep sets"}


def test_modules_of_the_project_count_where_they_are_imported(checkout):
    (checkout / "lattice.py").write_text("SIZE = 1\n")
    package = checkout / "geometry"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "angles.py").write_text("FULL = 360\n")
    (package / "unused.py").write_text("")
    _replace(checkout / "tasks" / "coloring.py", "import functools\n",
             "import functools\nimport lattice\nfrom geometry.angles import FULL\n")  # fmt: skip
    assert _changed(lambda: (checkout / "lattice.py").write_text("SIZE = 2\n")) == {"coloring", "deep sets"}
    assert _changed(lambda: (package / "angles.py").write_text("FULL = 400\n")) == {"coloring", "deep sets"}
    assert _changed(lambda: (package / "unused.py").write_text("FULL = 400\n")) == set()


def test_a_project_apart_from_the_checkout_has_the_same_fingerprints(checkout, tmp_path, monkeypatch):
    project = tmp_path / "project"
    (project / "tasks").mkdir(parents=True)
    shutil.move(checkout / "tasks" / "coloring.py", project / "tasks" / "coloring.py")
    monkeypatch.setattr(plugins, "PROJECT", project)
    assert captured() == ORIGINAL


def test_a_plug_in_of_an_installed_package_counts_with_what_it_imports(checkout, tmp_path, monkeypatch):
    package = tmp_path / "site" / "mazes"
    package.mkdir(parents=True)
    for name, text in {"__init__": "", "maze": "from mazes import walls\n", "walls": "", "other": ""}.items():
        (package / f"{name}.py").write_text(text)
    metadata = package.parent / "mazes-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mazes\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[sweeper.tasks]\nmaze = mazes.maze:Task\n")
    monkeypatch.syspath_prepend(str(package.parent))
    digests = [captured().tasks["maze"]]
    for name in ("other", "walls", "maze"):
        (package / f"{name}.py").write_text((package / f"{name}.py").read_text() + "SIZE = 2\n")
        digests.append(captured().tasks["maze"])
    assert [before != after for before, after in itertools.pairwise(digests)] == [False, True, True]


def test_a_task_that_is_no_python_does_not_stop_the_others(checkout):
    assert _changed(lambda: (checkout / "tasks" / "draft.py").write_text("def")) == set()


@pytest.mark.parametrize("library", fingerprint.LIBRARIES)
def test_versions_of_libraries_count(checkout, library, monkeypatch):
    real = importlib.metadata.version

    def update():
        monkeypatch.setattr(importlib.metadata, "version", lambda name: "9.9" if name == library else real(name))

    assert _changed(update) == set(ALL)


def test_a_process_of_other_code_says_what_differs(checkout, monkeypatch):
    start = captured()
    captured().require(start, COLORING)
    _replace(checkout / "tasks" / "coloring.py", "COLORS = 3", "COLORS = 4")
    mine = captured().model_copy(update={"versions": start.versions | {"jax": "0.1"}})
    jax = start.versions["jax"]
    with pytest.raises(OtherCodeError, match=rf"differs: the task coloring, jax \(0\.1 instead of {jax}\)$"):
        mine.require(start, COLORING)
    with pytest.raises(OtherCodeError, match=r"differs: jax .*\)$"):
        mine.require(start, RECALL)
