"""A process trains only what its files say: edits and replaced methods are refused."""

import re
from pathlib import Path

import pytest

from sweeper.trial import plugins
from sweeper.trial.fingerprint import OtherCodeError
from sweeper.trial.loaded_code import LoadedCode
from tests.processes import python

EDITS = """
from pathlib import Path
from typing import Literal
from tasks import coloring
from tasks._size import SIZE

{statement}

class Task(coloring.Task):
    name: Literal["mine"] = "mine"
"""


def _mine(project: Path, statement: str) -> None:
    (project / "tasks" / "_size.py").write_text("SIZE = 1\n")
    (project / "tasks" / "mine.py").write_text(EDITS.format(statement=statement))


def test_what_is_mended_after_it_could_not_be_loaded_is_no_edit(project):
    _mine(project, "1 / 0")
    with pytest.raises(plugins.PluginError, match="ZeroDivisionError"):
        plugins.load("task", "mine")
    _mine(project, "assert SIZE == 1")  # of another length: within a second Python tells sources by that alone
    plugins.load("task", "mine")
    LoadedCode([("task", "mine")]).require_unchanged()


def test_what_is_edited_while_it_is_loaded_is_an_edit(project):
    _mine(project, "Path(__file__).with_name('_size.py').write_text('SIZE = 3')")
    plugins.load("task", "mine")
    with pytest.raises(OtherCodeError, match=r"^tasks/_size\.py: "):
        LoadedCode([("task", "mine")]).require_unchanged()


IN_A_NOTEBOOK = """
import sys
sys.path.insert(0, {root!r})
from sweeper import OtherCodeError
from sweeper.trial import fingerprint, plugins
from sweeper.trial.loaded_code import LoadedCode
from sweeper.trial.project_files import git
from sweeper.trial.trial import Trial
Task = plugins.load("task", "mine")
fingerprint.captured()
code = LoadedCode([("task", "mine")])
code.require_unchanged()
{replace}
try:
    LoadedCode([("task", "mine")]).require_unchanged()
except OtherCodeError as error:
    print(error)
"""


@pytest.mark.slow  # a process
@pytest.mark.parametrize(
    ("replace", "named"),
    [
        ("Task.loss = lambda *_: 0", "tasks.mine.Task.loss was replaced by a function of this program"),
        ("Task.__mro__[1].losses = lambda *_: 0", "tasks.coloring.Task.losses was replaced by a function of this"),
        ("import tries", r"tasks.mine.Task.loss was replaced by a function of /.*/tries.py"),
        ("import jax; Task.loss = jax.nn.relu", ""),  # as a decorator of a library does
    ],
)
def test_a_method_that_a_notebook_has_replaced_is_refused_by_name(project, replace, named):
    _mine(project, "")
    (project / "tries.py").write_text("from tasks import mine\ndef loss(*_): ...\nmine.Task.loss = loss\n")
    done = python("-c", IN_A_NOTEBOOK.format(root=str(plugins.ROOT), replace=replace), cwd=project, check=True)
    assert re.match(named, done.stdout)
    assert bool(done.stdout) == bool(named)
