"""Whoever replaces what computes, in a library or in a plug-in, is refused by name, and it is put back."""

import functools
import sys

import jax
import numpy as np
import optax
import pytest

from sweeper.training import compilation
from sweeper.trial import jax_settings, patches, plugins
from sweeper.trial.jax_settings import SettingsError
from sweeper.trial.plugins import PluginError
from tests.processes import python
from tests.tiny_sweeps import start, with_seeds
from tests.trials import coloring_trial


@pytest.fixture(autouse=True)
def restored():
    yield
    jax_settings.put_back()
    assert not jax_settings.changed()


@pytest.fixture
def patcher(coloring_like):
    """Writes the task `patcher` into a project."""
    return functools.partial(coloring_like, "patcher")


AT_IMPORT = {
    "a function": ("import jax; jax.nn.softmax = lambda x: x", "jax.nn.softmax to 'tasks.patcher.<lambda>'"),
    "a function of a private module": (
        "from jax._src import nn\nimport jax._src.nn.functions as f; f.relu = abs",
        "relu",
    ),
    "a method": ("import flax.nnx as n; n.Linear.__call__ = lambda self, x: x", "flax.nnx.*Linear.__call__ to"),
    "a method that was inherited": (
        "import flax.nnx as n; n.Linear.__getattribute__ = object.__getattribute__",
        "Linear",
    ),
    "a default": ("import optax; f = optax.adam; f.__kwdefaults__ = {**f.__kwdefaults__, 'nesterov': True}", "adam to"),
    "a field": ("import optax; optax.GradientTransformation.update = None", "GradientTransformation.update to 'None'"),
    "an operator of numpy": ("import numpy; numpy.exp = numpy.exp2", "numpy.exp to"),
    "a constant": ("import numpy; numpy.pi = 3.0", "numpy.pi to"),
    "a module in a module": ("import jax, numpy; jax.nn.initializers = numpy", "jax.nn.initializers to .*module"),
    "a gradient": ("import jax; jax.nn.relu.defjvps(lambda g, ans, x: g)", "relu.jvp to"),
    "a rule of a registry": (
        "from jax import lax\nfrom jax.interpreters import ad\nad.primitive_jvps[lax.tanh_p] = None",
        "primitive_jvps.tanh to 'None'",
    ),
    "a function of Python": ("import builtins; builtins.max = min", "builtins.max to"),
    "a contract": (
        "from sweeper.learned_algorithms import contracts; contracts.Task.losses = lambda *_: 0",
        "contracts.Task.losses",
    ),
    "another task": ("from tasks import coloring; coloring.Task.loss = lambda *_: 0", "tasks.coloring.Task.loss to"),
    "a function of another task": ("from tasks import coloring; coloring._ranks = abs", "tasks.coloring._ranks to"),
    "a constant of another task": ("from tasks import coloring; coloring.COLORS = 4", "tasks.coloring.COLORS to"),
    "a library that nobody has imported": ("import optax.contrib as c\nc.prodigy = lambda: 0", "prodigy"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("code", "named"), AT_IMPORT.values(), ids=AT_IMPORT)
def test_a_plug_in_that_replaces_something_when_imported_is_refused_and_undone(patcher, monkeypatch, code, named):
    monkeypatch.setattr(patches, "_before_us", {})
    plugins.load("task", "coloring")
    softmax, exp = jax.nn.softmax, np.exp
    patcher(at_import=code)
    for _ in range(2):  # Python has the module the second time
        with pytest.raises(PluginError, match=rf"tasks/patcher.py: .*{named}"):
            plugins.load("task", "patcher")
    assert (jax.nn.softmax, np.exp) == (softmax, exp)
    patches._before_us.clear()  # which nobody can undo


@pytest.mark.slow  # compiles
def test_a_plug_in_that_replaces_something_when_traced_is_refused_and_undone(patcher):
    patcher(in_trace="import jax; jax.numpy.sort = abs")
    sort, trial = jax.numpy.sort, coloring_trial(task={"name": "patcher", "vertices": 4})
    with pytest.raises(SettingsError, match=r"task 'patcher'.* sets .*jax.numpy.sort to"):
        compilation.kept(lambda trial: trial.task.sample_inputs(trial.keys().training, 3), trial)
    assert jax.numpy.sort is sort


def test_all_packages_of_plug_ins_are_known():
    assert {f"{kind}s." for kind in plugins.KINDS} | {"__main__"} == set(patches.FOREIGN)


def test_a_notebook_asks_its_reader_in_a_way_of_its_own(monkeypatch):
    """Jupyter replaces `input` before every cell."""
    assert not jax_settings.changed()  # now all is known
    monkeypatch.setattr("builtins.input", lambda prompt: "yes")
    assert not jax_settings.changed()


def test_plug_ins_may_import_and_add_what_they_like(patcher):
    patcher(at_import="import jax, optax.contrib, flax.linen\njax.my_constant = 3\njax.my_function = abs")
    assert plugins.load("task", "patcher")
    for name in ("my_constant", "my_function"):
        delattr(jax, name)


IN_A_NOTEBOOK = {
    "a method": (lambda task: setattr(task, "loss", lambda *_: 0), "tasks.patcher.Task.loss was replaced by tests."),
    "an inherited method": (lambda task: setattr(task, "outcomes", lambda *_: 0), "tasks.patcher.Task.outcomes"),
    "a constant": (lambda task: setattr(task, "NEEDS", ()), "tasks.patcher.Task.NEEDS"),
    "a constant of its module": (lambda task: setattr(sys.modules["tasks.coloring"], "COLORS", 4), "coloring.COLORS"),
    "a method of its base": (lambda task: setattr(task.__bases__[0], "losses", None), "tasks.coloring.Task.losses"),
    "a library": (lambda task: setattr(jax.nn, "softmax", jax.nn.relu), "jax.nn.softmax"),
    "a default": (lambda task: setattr(optax.sgd, "__defaults__", (1.0, True)), "optax.*sgd was replaced by other"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("replace", "named"), IN_A_NOTEBOOK.values(), ids=IN_A_NOTEBOOK)
def test_a_start_after_a_class_was_patched_in_the_program_is_refused_by_name(patcher, tmp_path, capsys, replace, named):
    patcher()
    replace(plugins.load("task", "patcher"))
    with pytest.raises(SettingsError, match=named):
        jax_settings.require()
    (tmp_path / "space.yaml").write_text(with_seeds(1).replace("name: coloring", "name: patcher"))
    assert start(tmp_path / "space.yaml", dry_run=True) == 2
    assert "was replaced by" in " ".join(capsys.readouterr().err.split())


HELPER = """
import sweeper.trial.plugins
import tasks.patcher

def patched(*_):
    return 0

tasks.patcher.Task.loss = patched
"""

EARLY = """
import sys
sys.path.insert(0, {root!r})
{first}
import sweeper
from sweeper.trial import jax_settings, plugins, trial
try:
    jax_settings.require()
    plugins.load("task", "patcher")
except sweeper.UserError as error:
    print(error)
"""


@pytest.mark.slow  # a process
@pytest.mark.parametrize(
    ("first", "named"),
    [
        ("import jax; jax.nn.softmax = lambda x: x", "jax.nn.softmax was replaced by __main__.<lambda>"),
        ("import sweeper.trial.plugins, tasks.patcher as p; p.Task.loss = lambda *_: 0",
         "tasks.patcher.Task.loss was replaced by __main__.<lambda>"),
        ("import helper", "tasks.patcher.Task.loss was replaced by helper.patched"),
        ("from sweeper.learned_algorithms.contracts import Task; Task.losses = lambda *_: 0",
         "contracts.Task.losses was replaced by __main__.<lambda>"),
        ("import jax, sweeper.trial.plugins, tasks.patcher", ""),
    ],
)  # fmt: skip
def test_what_was_replaced_before_anybody_looked_is_refused_by_where_it_is_from(patcher, project, first, named):
    patcher()
    (project / "helper.py").write_text(HELPER)
    done = python("-c", EARLY.format(root=str(plugins.ROOT), first=first), cwd=project)
    assert done.returncode == 0, done.stderr
    assert named in done.stdout
    assert bool(done.stdout) == bool(named), done.stdout
