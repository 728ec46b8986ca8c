"""The notebook of the docs runs, and what it shows came from a run; the program and the commands of the README run."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

from sweeper.store.store import Store
from sweeper.trial import plugins
from tests.end_to_end.sweep_process import copy_checkout

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


@pytest.mark.long  # trains on Ray
def test_the_program_and_the_commands_of_the_readme_work_in_its_order_after_make_sweep(tmp_path):
    """`make sweep` is an installation, and the run of the quick start, here of fewer steps and shorter cycles.

    The program trains the same models for fewer steps, into the same store: it draws its own trials alone, and the
    quick start stays what it was.
    """
    copy_checkout(tmp_path)
    for name in ("published", "search_spaces"):
        shutil.copytree(plugins.ROOT / name, tmp_path / name)
    quick = tmp_path / "search_spaces" / "quickstart.yaml"
    smaller = quick.read_text().replace("steps: 5000", "steps: 200").replace("vertices: 10", "vertices: 7")
    quick.write_text(smaller)
    text = (plugins.ROOT / "README.md").read_text()
    commands = re.findall(r"^\$ (.*)$", text, re.MULTILINE)
    assert [command.split()[0] for command in commands[:2]] == ["make", "make"]
    shown = re.findall(r"^(?:next:|     ) (python -m sweeper .*)$", text, re.MULTILINE)
    assert len(shown) == 2
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    first = "python -m sweeper.run search_spaces/quickstart.yaml"
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    told = "print(len(curves), sorted(curves['baseline'].unique()), curves['step'].max())"
    (tmp_path / "program.py").write_text(f"{program.replace('2000', '100')}\n{told}\n")
    for command in (first, "python program.py", *shown, *commands[2:]):
        done = subprocess.run(
            ["bash", "-ec", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        if command == first:
            assert [line.removeprefix("next:").strip() for line in done.stdout.splitlines()[-2:]] == shown
        elif "program" in command:
            points, models = done.stdout.splitlines()[-1].split(" ", 1)
            assert models == "['AE_R', 'AE_r0', 'Aq_R', 'Aq_r0'] 100"
            assert int(points) % 4 == 0
            assert (tmp_path / "loss.png").exists()
    sizes = {record.name: len(record.trial_ids) for record in Store.open(tmp_path / "results").sweeps()}
    assert sizes["quickstart"] == sizes["shorter"] == 8
