"""The notebook of the docs runs, and what it shows came from a run; the program and the commands of the README run."""

import ast
import atexit
import gc
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from typer.testing import CliRunner

from sweeper.__main__ import app
from sweeper.store.store import Store
from sweeper.trial import plugins

NOTEBOOK = Path(__file__).parents[1] / "docs" / "notebook.ipynb"


def _cells() -> list[dict]:
    return [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]


def test_the_outputs_are_those_of_one_run_without_an_error():
    cells = _cells()
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"stream", "execute_result", "display_data"}
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert NOTEBOOK.stat().st_size < 100_000


@pytest.mark.long  # trains in this process, and then on Ray
def test_every_cell_runs_and_the_last_frame_counts_the_trials(capsys):
    names: dict[str, Any] = {}
    shown: list[Any] = []
    try:
        with mpl.rc_context({"backend": "agg"}):
            for number, cell in enumerate(_cells(), start=1):
                tree = ast.parse("".join(cell["source"]))
                last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
                exec(compile(tree, f"cell {number}", "exec"), names)
                if isinstance(last, ast.Expr):
                    shown.append(eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names))
    finally:
        shutil.rmtree(names["folder"])
    assert str(shown[0]).endswith("0 done · 4 to run")
    assert len(shown[1]) == 4
    assert shown[-1]["count"].tolist() == [3, 3]
    assert "6 of 6 trials committed" in capsys.readouterr().out


SMALLER = {
    "steps: 5000": "steps: 200", "vertices: 10": "vertices: 6", "blocks: 2": "blocks: 1",
    "model: {name: transformer}": "model: {name: transformer, blocks: 1}",
}  # fmt: skip
"""What makes spaces compile and train in seconds."""


@pytest.mark.long  # trains and evaluates on Ray, and draws
def test_the_program_and_the_commands_of_the_readme_work_in_its_order_after_make_sweep(project, capsys):
    """`make sweep` is an installation, and the run of the quick start; networks here are small, and cycles short.

    The program trains the same models for fewer steps, into the same store: it draws its own trials alone, and the
    quick start stays what it was. What uses a cluster is a process; all else runs in this one, which imports once.
    """
    for name in ("published", "search_spaces"):
        shutil.copytree(plugins.ROOT / name, project / name)
    for name in ("quickstart", "coloring"):
        file = project / "search_spaces" / f"{name}.yaml"
        text = file.read_text()
        for old, new in SMALLER.items():
            text = text.replace(old, new)
        file.write_text(text)
    text = (plugins.ROOT / "README.md").read_text()
    commands = re.findall(r"^\$ (.*)$", text, re.MULTILINE)
    assert [command.split()[0] for command in commands[:2]] == ["make", "make"]

    _typed("python -m sweeper.run search_spaces/quickstart.yaml")

    (program,) = (block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "import sweeper\n" in block)
    trained = 'sweeper.train(sweeper.plan(space, "results")'
    assert trained in program
    names: dict[str, Any] = {}
    with mpl.rc_context({"backend": "agg"}):
        exec(program.replace(trained, f"{trained}, in_process=True").replace("2000", "100"), names)
    curves = names["curves"]
    assert sorted(curves["baseline"].unique()) == ["AE_R", "AE_r0", "Aq_R", "Aq_r0"]
    assert curves["step"].max() == 100
    assert not curves.duplicated(["baseline", "step"]).any()
    assert (project / "loss.png").exists()

    space = next(block for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if block.startswith("name: sine"))
    for line in commands[2:]:
        for command in line.partition("  # ")[0].split("; "):
            _typed(command)
        (project / "search_spaces" / "sine.yaml").write_text(space.replace("2000", "100"))
    assert "Traceback" not in "".join(capsys.readouterr())
    sizes = {record.name: len(record.trial_ids) for record in Store.open("results").sweeps()}
    assert sizes["quickstart"] == sizes["shorter"] == 8


def _typed(command: str) -> str:
    """What a command prints that ends well; those that start Ray are processes."""
    python, m, program, *words = shlex.split(command)
    assert (python, m) == ("python", "-m")
    if program == "sweeper.run" or words[0] in ("run", "evaluate"):
        environment = os.environ | {"PYTHONPATH": str(plugins.ROOT)}
        done = subprocess.run(
            [sys.executable, m, program, *words], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout
    done = CliRunner().invoke(app, words)
    atexit.unregister(gc.freeze)  # `run` is done when its process is, and this one goes on
    assert done.exit_code == 0, f"{command}\n{done.output}"
    return done.output
