"""The notebook of the docs runs, and what it shows came from a run."""

import ast
import json
import shutil
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

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
