"""The fingerprint changes with the code that computes numbers, and with nothing else."""

import itertools
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from sweeper.store.store import Store
from sweeper.trial import code_files, plugins
from sweeper.trial.fingerprint import OtherCodeError, captured
from sweeper.trial.loaded_code import LoadedCode
from sweeper.trial.project_files import git
from tests.processes import python
from tests.results import record
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
    for folder in ("sweeper", "tasks", "models", "objectives", "optimizers", "experiments"):
        shutil.copytree(plugins.ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    coloring_trial()  # its plug-ins are loaded from where this process has them, whatever earlier tests have forgotten
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


CHANGES = [
    ("tasks/coloring.py", "COLORS = 3", "COLORS = 4", {"coloring", "deep sets"}),
    ("tasks/coloring.py", "COLORS = 4", "COLORS = 4\nNAME = 'x'", {"coloring", "deep sets"}),
    ("tasks/coloring.py", "NAME = 'x'", "NAME = 'y'", {"coloring", "deep sets"}),
    ("tasks/recall/__init__.py", "FILLINGS = 16", "FILLINGS = 8", {"recall", "tail"}),
    ("tasks/gridworld/environment.py", "FOUND, STEP = 1.0, -0.1", "FOUND, STEP = 1.0, -0.2", {"walk"}),
    ("models/deep_sets.py", "jnp.maximum(count, 1)", "jnp.maximum(count, 2)", {"deep sets"}),
    ("models/transformer.py", "1e-6", "1e-5", set(ALL)),  # deep sets import its layers
    ("objectives/q_norm.py", "finite_q = jnp.where", "finite_q = 1 * jnp.where", set(ALL) - {"tail"}),
    ("objectives/cvar.py", "0.0, 1.0", "0.0, 2.0", {"tail"}),
    ("sweeper/learned_algorithms/objective.py", "step / trial.steps", "step / 2", set(ALL)),
    ("sweeper/learned_algorithms/objective_contract.py", "] = 10", "] = 11", set(ALL)),
    ("sweeper/learned_algorithms/declared.py", '"worst5"', '"mean"', set()),
    ("sweeper/trial/kinds.py", "highest", "greatest", set()),
    ("sweeper/learned_algorithms/figures/votes.py", "ERRORS = 2.0", "ERRORS = 3.0", set()),
    ("sweeper/trial/metrics.py", "0.05 * len", "0.06 * len", set(ALL)),
    ("sweeper/trial/trial.py", "NUMERICS_VERSION = 1", "NUMERICS_VERSION = 2", set(ALL)),
    ("sweeper/store/schema.py", "SCHEMA_VERSION = 1", "SCHEMA_VERSION = 2", set()),
    ("sweeper/packs/pack_training.py", "CURVE_POINTS = 200", "CURVE_POINTS = 100", set(ALL)),
    ("sweeper/packs/work_sources.py", "WINDOW = 8", "WINDOW = 9", set()),
    ("sweeper/trial/plugins.py", "KINDS: tuple", "OTHERS: tuple", set()),
    ("sweeper/space/holes.py", "import ", "import abc\nimport ", set()),
    ("sweeper/__init__.py", "import ", "import abc\nimport ", set()),
]


@pytest.mark.slow
def test_changed_code_concerns_the_trials_that_it_computes(checkout):
    for path, old, new, others in CHANGES:
        assert _changed(lambda path=path, old=old, new=new: _replace(checkout / path, old, new)) == others, path


def test_comments_docstrings_and_formatting_are_no_code(checkout):
    def reformat():
        path = checkout / "tasks" / "coloring.py"
        path.write_text("# A remark.\n\n" + path.read_text().replace('"""Cycle 3-colouring.', '"""Other words.'))
        _replace(path, "COLORS = 3", 'COLORS = (\n    3\n)  # three\n"""How many."""')
        _replace(
            checkout / "sweeper" / "learned_algorithms" / "objective.py", '"""The objective of one batch', '"""It is'
        )

    assert _changed(reformat) == set()


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


def _written(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("import lattice", "lattice.py"),
        ("from lattice import SIZE", "lattice.py"),
        ("from geometry.angles import FULL", "geometry/angles.py"),
        ("from geometry.angles import FULL", "geometry/__init__.py"),
        ("from tasks import _tables", "tasks/_tables.py"),
        ("from tasks.maps import walls", "tasks/maps/walls.py"),
        ("DOORS = Path(__file__).with_name('coloring.json')", "tasks/coloring.json"),
        ("DOORS = open('doors.json')", "doors.json"),
        ("DOORS = open('./data/doors.csv')", "data/doors.csv"),
        ("DOORS = Path('data', 'doors.csv')", "data/inner/doors.csv"),
        ("import lattice", "data/read_by_lattice.csv"),
        ("walls = spec_from_file_location('w', Path(__file__).with_name('walls.py'))", "tasks/walls.py"),
    ],
)
def test_what_a_plug_in_imports_or_names_counts(checkout, line, file):
    lattice = "SIZE = open('data/read_by_lattice.csv')\n"
    _written(checkout, {"lattice.py": lattice, "geometry/angles.py": "", "tasks/maps/a.txt": "", file: "1"})
    _imports(checkout, line)
    assert _changed(lambda: (checkout / file).write_text("2")) == COLORINGS


NOBODYS = (
    "README.md", "notes.txt", "maze.yaml", "tasks/cycles.py", "docs/x.md", "tests/test_x.py", "geometry/angles.py",
    "tasks/new.py", "tasks/teacher.safetensors", "tasks/.hidden.json", "tasks/coloring.py~", "tasks/__pycache__/x.pyc",
)  # fmt: skip


@pytest.mark.slow
def test_what_no_plug_in_names_is_nothing_to_any(checkout):
    _imports(checkout, "WORDS = 'cycles', 'teacher'")
    for text in ("1", "2"):
        assert _changed(lambda text=text: _written(checkout, dict.fromkeys(NOBODYS, text))) == set()


@pytest.mark.slow
def test_results_and_what_git_ignores_do_not_count(checkout):
    """A folder `trials` of another tool is no store."""
    git(checkout, "init", "-q")
    _imports(checkout, "FILES = 'a.log', 'a.json'")
    _written(checkout, {".gitignore": "*.log\n", "a.log": "1", "trials/b.json": "1"})
    Store.open(checkout / "runs").record_sweep(record("quick", []))
    _written(checkout, {"runs/trials/b": "1"})
    for text in ("1", "2"):
        assert _changed(lambda text=text: _written(checkout, {"a.log": text, "runs/a.json": text})) == set()
    assert _changed(lambda: _written(checkout, {"trials/a.json": "1"})) == COLORINGS


@pytest.mark.slow
def test_a_module_that_is_imported_counts_although_git_ignores_it(checkout, monkeypatch):
    monkeypatch.syspath_prepend(checkout)
    _replace(checkout / "tasks" / "coloring.py", "import functools\n", "import functools\nfrom shared.mine import f\n")
    git(checkout, "init", "-q")
    _written(checkout, {".gitignore": "mine.py\n/tasks/coloring.py\n", "shared/__init__.py": "", "shared/mine.py": "1"})
    assert _changed(lambda: _written(checkout, {"shared/mine.py": "2"})) == {"coloring", "deep sets"}
    assert _changed(lambda: _replace(checkout / "tasks" / "coloring.py", "COLORS = 3", "COLORS = 4")) == {
        "coloring", "deep sets",
    }  # fmt: skip


def test_a_project_apart_from_the_checkout_has_the_same_fingerprints(checkout, tmp_path, monkeypatch):
    project = tmp_path / "project"
    (project / "tasks").mkdir(parents=True)
    shutil.move(checkout / "tasks" / "coloring.py", project / "tasks" / "coloring.py")
    monkeypatch.setattr(plugins, "PROJECT", project)
    assert captured() == ORIGINAL


@pytest.fixture
def site(tmp_path_factory, monkeypatch) -> Path:
    """A folder of installed packages."""
    folder = tmp_path_factory.mktemp("installed") / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def _installed(site: Path, name: str, version: str = "1.0", **files: str) -> None:
    """Metadata of an installed package."""
    metadata = site / f"{name}-{version}.dist-info"
    _written(metadata, {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", **files})


FROM_FOLDER = {"direct_url.json": '{"url": "file:///walls", "dir_info": {}}'}


def _digests(changes: Iterable[Callable[[], object]]) -> list[bool]:
    """Which of the changes give the task `maze` another digest."""
    digests = [captured().plugins["task maze"]]
    for change in changes:
        change()
        digests.append(captured().plugins["task maze"])
    return [before != after for before, after in itertools.pairwise(digests)]


def _edited(path: Path) -> Callable[[], object]:
    return lambda: path.write_text(path.read_text() + "SIZE = 2\n")


def _imports(checkout: Path, line: str) -> None:
    """Have the task `coloring` import something, or name it."""
    _replace(checkout / "tasks" / "coloring.py", "import functools\n", f"import functools\n{line}\n")


COLORINGS = {"coloring", "deep sets"}


@pytest.mark.slow
def test_libraries_count_by_version_and_own_packages_by_what_is_imported_of_them(
    checkout, site, tmp_path_factory, monkeypatch
):
    source = tmp_path_factory.mktemp("elsewhere")
    _written(checkout, {"tasks/maze.py": "import library, own, editable.doors\n"})
    _written(site, {"library.py": "", "own.py": ""})
    _written(source, {"editable/doors.py": "open('doors.npy')", "editable/doors.npy": "", "editable/other.py": ""})
    _installed(site, "library")
    _installed(site, "own", **FROM_FOLDER)
    monkeypatch.syspath_prepend(source)
    monkeypatch.syspath_prepend(site)
    files = [site / "library.py", site / "own.py", *(source / "editable").iterdir()]
    changed = dict(zip((file.name for file in files), _digests(map(_edited, files)), strict=True))
    assert changed == {"library.py": False, "own.py": True, "doors.py": True, "doors.npy": True, "other.py": False}
    code = captured()
    assert code.plugins["task maze"]["library"] == "1.0"

    def updated():
        shutil.rmtree(site / "library-1.0.dist-info")
        _installed(site, "library", "2.0")
        code_files._version_of_library.cache_clear()

    assert _digests([updated]) == [True]
    trial = RECALL.model_copy(update={"task": RECALL.task.model_copy(update={"name": "maze"})})
    with pytest.raises(OtherCodeError, match=r"differs: library \(2\.0 instead of 1\.0\)$"):
        captured().require(code, trial)


PATH_CHANGES = """
import sys
sys.path.insert(0, {lib!r})
from typing import Literal
from tasks import coloring
from util import SIZE

class Task(coloring.Task):
    name: Literal["mine"] = "mine"
"""


@pytest.fixture
def changes_path(project, tmp_path_factory, monkeypatch) -> Path:
    """A folder with a module, which the task `mine` finds because it changes `sys.path`."""
    lib = tmp_path_factory.mktemp("lib")
    _written(lib, {"util.py": "SIZE = 1\n"})
    _written(project, {"tasks/mine.py": PATH_CHANGES.format(lib=str(lib))})
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield lib
    sys.modules.pop("util", None)


def test_a_task_that_changes_the_path_is_not_taken_for_an_edit(changes_path):
    before = captured().plugins["task mine"]
    plugins.load("task", "mine")
    assert captured().plugins["task mine"] != before, "what counts is known once the task is loaded"
    code = LoadedCode([("task", "mine")])
    code.require_unchanged()
    _edited(changes_path / "util.py")()
    with pytest.raises(OtherCodeError, match=r"^util\.py: changed after"):
        code.require_unchanged()


FINGERPRINT = """
import {first}
from sweeper.trial import fingerprint
from sweeper.trial.trial import trial_of
from tests.trials import coloring_trial
trials = [coloring_trial(task={{"name": name, "vertices": 5}}) for name in {names}]
print(fingerprint.captured().fingerprint(trials[-1]))
"""


@pytest.mark.slow  # processes of their own
def test_it_is_the_same_in_every_process_whatever_else_it_has_imported(changes_path):
    programs = [
        ("json", ["mine"], str(plugins.ROOT)),
        ("optax, yaml, tasks.recall, util", ["coloring", "mine"], f"{plugins.ROOT}:{changes_path}"),
    ]
    done = [
        python("-c", FINGERPRINT.format(first=first, names=names), cwd=plugins.PROJECT, PYTHONPATH=path)
        for first, names, path in programs
    ]
    one, other = (each.stdout for each in done)
    assert one == other != "", [each.stderr for each in done]


@pytest.mark.slow
def test_a_task_that_is_no_python_does_not_stop_the_others(checkout):
    assert _changed(lambda: (checkout / "tasks" / "draft.py").write_text("def")) == set()


@pytest.mark.slow
def test_versions_of_libraries_count(checkout, monkeypatch):
    real = code_files._version_of_library
    for library in code_files.LIBRARIES:

        def updated(name, place, library=library):
            return "9.9" if name == library else real(name, place)

        assert _changed(lambda new=updated: monkeypatch.setattr(code_files, "_version_of_library", new)) == set(ALL)


@pytest.mark.slow
def test_a_fork_of_a_library_counts_by_its_files(checkout, tmp_path_factory, monkeypatch):
    fork = tmp_path_factory.mktemp("fork")
    _written(fork, {"optax/__init__.py": "", "optax/nobody_imports_it.py": ""})
    monkeypatch.syspath_prepend(fork)
    monkeypatch.delitem(sys.modules, "optax", raising=False)
    assert _changed(_edited(fork / "optax" / "nobody_imports_it.py")) == set(ALL)


@pytest.mark.slow
def test_a_process_of_other_code_says_what_differs(checkout):
    start = captured()
    captured().require(start, COLORING)
    _replace(checkout / "tasks" / "coloring.py", "COLORS = 3", "COLORS = 4")
    mine = captured().model_copy(update={"always": captured().always | {"jax": "0.1"}})
    jax = rf"jax \(0\.1 instead of {start.always['jax']}\)"
    with pytest.raises(OtherCodeError, match=rf"differs: {jax}, tasks/coloring\.py$"):
        mine.require(start, COLORING)
    with pytest.raises(OtherCodeError, match=rf"differs: {jax}$"):
        mine.require(start, RECALL)
    several = mine.model_copy(update={"always": dict.fromkeys(start.always, "0")})
    with pytest.raises(OtherCodeError, match=r"(, ?.*){2} and \d+ more$"):
        several.require(start, RECALL)
