"""A project of one's own: a task and a model outside the checkout, with an installed package and on a cluster."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

from chaos.nodes import nodes
from sweeper.store.store import Store
from sweeper.trial import plugins
from tests.experiments.toy import READS
from tests.processes import python
from tests.tiny_sweeps import with_seeds

TASK = '''
"""Colouring under another name."""

from typing import Literal

from helpers.results.walls import WALLS
from models.tiny import WIDTH
from plain.inner.sizes import CYCLE
from tasks import coloring


class Task(coloring.Task):
    name: Literal["mine"] = "mine"
    vertices: int = min(CYCLE, WIDTH) + WALLS

    def losses(self, model, inputs, seeds):
        open("data/doors.json").close()
        return super().losses(model, inputs, seeds)
'''

MODEL = '''
"""The smallest transformer."""

from typing import Literal

from models import transformer

WIDTH = 4


class Model(transformer.Model):
    name: Literal["tiny"] = "tiny"
    width: int = WIDTH
    key_size: int = WIDTH
'''

MEETING = """
    def losses(self, model, inputs, seeds):
        \"\"\"Writes down the node, and goes on when two nodes have come: each of them then has a pack of its own.\"\"\"
        import os
        import pathlib
        import time

        open("data/doors.json").close()

        if "SWEEPER_WORKER" not in os.environ:  # the start checks the task
            return super().losses(model, inputs, seeds)
        import ray

        assert type(self).__module__ == "tasks.mine", type(self).__module__
        place = pathlib.Path({place!r})
        (place / ray.get_runtime_context().get_node_id()).touch()
        while len(list(place.iterdir())) < 2:
            time.sleep(0.05)
        return super().losses(model, inputs, seeds)
"""

SPACE = (
    with_seeds(2)
    .replace("{name: coloring, vertices: 5}", "{name: mine}")
    .replace("{name: transformer, blocks: 1, width: 4, key_size: 4}", "{name: tiny}")
    .replace("steps: 300", "steps: 50")
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, built from what git knows of."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "sweeper",
         *(f"{kind}s" for kind in plugins.KINDS), "pyproject.toml", "setup.py", "README.md", "LICENSE"],
        cwd=plugins.ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(lambda name: (plugins.ROOT / name).exists(), listed.stdout.splitlines()):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((plugins.ROOT / name).read_bytes())
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=source, check=True)
    (source / "tasks" / "begun.py").write_text("what somebody works on")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation",
         "--wheel-dir", built, source],
        check=True,
    )  # fmt: skip
    (path,) = built.glob("sweeper_jax-*.whl")
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a task, a model, modules and data that the task needs, and a search space."""
    folder = tmp_path / "project"
    files = {
        "tasks/mine.py": TASK, "models/tiny.py": MODEL, "plain/inner/sizes.py": "CYCLE = 5\n", "data/doors.json": "1",
        "helpers/__init__.py": "", "helpers/results/__init__.py": "", "helpers/results/walls.py": "WALLS = 0\n",
        "space.yaml": SPACE,
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def _environment(**changes: str) -> dict[str, str]:
    """That of this process, without a trace of this checkout."""
    ours = ("PYTHONPATH", plugins.PROJECT_VARIABLE)
    return {name: value for name, value in os.environ.items() if name not in ours} | changes


@pytest.mark.slow
def test_the_package_takes_one_name_and_holds_every_module(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"sweeper"}
    modules = [path for path in (plugins.PACKAGE).rglob("*") if path.suffix in (".py", ".html", ".css", ".js", ".txt")]
    expected = {str(path.relative_to(plugins.ROOT)) for path in modules}
    for kind in plugins.KINDS:
        files = [path for path in (plugins.ROOT / f"{kind}s").rglob("*.*") if path.suffix != ".pyc"]
        expected |= {f"sweeper/{path.relative_to(plugins.ROOT)}" for path in files}
    assert expected <= set(names)
    assert "sweeper/tasks/begun.py" not in names


@pytest.mark.long
def test_an_installed_package_runs_a_project(wheel, project):
    environment = project.parent / "environment"
    venv.create(environment, with_pip=False)
    (site,) = environment.glob("lib/python*/site-packages")
    subprocess.run(
        [sys.executable, "-m", "pip", f"--python={environment / 'bin' / 'python'}", "install", "--quiet", "--no-index",
         "--no-deps", wheel],
        check=True,
    )  # fmt: skip
    # It needs only the packages of the tests: nothing is downloaded.
    (site / "needed.pth").write_text(sysconfig.get_path("purelib"))

    def sweeper(*arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [environment / "bin" / "sweeper", *arguments],
            cwd=project, env=_environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    assert sweeper("--version") == "sweeper 0.1.0\n"
    assert "2 of 2 trials committed" in sweeper("run", "space.yaml")
    assert "0 to run" in sweeper("run", "space.yaml")
    assert "space" in sweeper("status")
    asked = "select task, model, lanes, command from trials group by all"
    assert sweeper("query", asked, "--format", "csv").splitlines()[1] == "mine,tiny,2,sweeper run space.yaml"

    (project / "tasks" / "mine.py").write_text("def")
    complaint = sweeper("run", "space.yaml", code=2)
    assert f"{project / 'tasks' / 'mine.py'}, line 1: invalid syntax" in complaint
    assert "Traceback" not in complaint


@pytest.mark.long
def test_the_nodes_of_a_cluster_get_the_project_and_this_checkout(project, tmp_path):
    place = tmp_path / "nodes"
    place.mkdir()
    (project / "tasks" / "mine.py").write_text(TASK.partition("    def losses")[0] + MEETING.format(place=str(place)))
    with nodes() as cluster:
        joined = {cluster.join(num_cpus=1).node_id for _ in range(2)}
        run = ("-m", "sweeper.run", "space.yaml", "--address", cluster.address, "--set", "resources.lanes=1")
        done = python(*run, cwd=project, env=_environment(PYTHONPATH=str(plugins.ROOT)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in place.iterdir()} == joined, "both nodes train the task of the project"
    rows = Store.open(str(project / "results")).trials().select(["task", "model", "status", "pack_id"]).to_pylist()
    assert {(row["task"], row["model"], row["status"]) for row in rows} == {("mine", "tiny", "finished")}
    assert len({row["pack_id"] for row in rows}) == 2


@pytest.mark.long
def test_a_file_outside_of_the_project_is_read_by_workers_where_it_lies_and_counts(tmp_path):
    """Such as one that is too large for their copy; here it is edited between two starts."""
    folder, file = tmp_path / "project", tmp_path / "places.npy"
    (folder / "experiments").mkdir(parents=True)
    (folder / "experiments" / "toy.py").write_text(READS)
    trial = f"{{experiment: {{name: toy, path: {file}}}, steps: 10, seed: {{choice: [0]}}}}"
    (folder / "space.yaml").write_text(f"trial: {trial}\n")
    for seeds in ([0], [0, 1]):
        np.save(file, np.linspace(-1, len(seeds), 50))
        run = ("-m", "sweeper.run", "space.yaml", "--address", "local", "--set", f"trial.seed={{choice: {seeds}}}")
        done = python(*run, cwd=folder, env=_environment(PYTHONPATH=str(plugins.ROOT)))
        assert done.returncode == 0, done.stdout + done.stderr
    assert "several data" in done.stdout + done.stderr
    assert len(set(Store.open(str(folder / "results")).trials()["data"].to_pylist())) == 2
