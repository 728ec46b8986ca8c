"""The report of a store: what it draws, writes and prints, and its exit codes.

Results are made up and committed to a real store; nothing is trained. `test_report_sources` has the choice of trials.
"""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from sweeper.analysis import page as pages
from sweeper.analysis import report as reports
from sweeper.analysis.figures.lines import Curves
from sweeper.store.store import Store
from sweeper.trial.trial import trial_id
from tests import filled_stores, results
from tests.processes import refusal, told
from tests.trials import coloring_trial

pytestmark = pytest.mark.usefixtures("vega")

PANELS = r"""
panels:
  - kind: curve
    name: average
    x: {column: q, scale: log}
    y: {label: Success (%), percent: true}
    where: {task: coloring, task_vertices: 5}
    metric: success
    tail: success_p5
    series:
      - {label: $A_R$, color: blue, where: {baseline: Aq_R}}
      - {label: "$A_R$-majority\u001b[31m\u0007", color: lime, metric: majority_30, where: {baseline: Aq_R}}
    published:
      - {series: $A_R$, metric: success, source: a made-up paper, values: {3: 0.8, 1e1: 0.9}}
  - kind: histogram
    name: inputs
    metric: success
    split: q
"""


def result(success=0.5, status="finished", **changes):
    metrics, per_input = {"success": success, "success_p5": success / 2}, np.float32([0, success, success, 1])
    outcomes = {"success": per_input}
    return results.result(changes, status=status, metrics=metrics, curves=[], outcomes=outcomes, timings={})


swept = partial(filled_stores.swept, text=PANELS)


def reported(store, *arguments, code=0):
    return told("report", "--results", store.url, *arguments, code=code).output


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Of a store with three sweeps, two of which share a figure: the folder with its figures, and what it prints."""
    store = Store.open(tmp_path_factory.mktemp("report") / "results")
    store.commit(result(0.1, seed=2))
    swept(store, result(0.7, seed=0), result(0.8, seed=1), result(0.1, "stopped", seed=3))
    for name, m in (("left", 2), ("right", 4)):
        panel = f"panels: [{{kind: histogram, name: {name}, figure: both, metric: success, split: q}}]\n"
        swept(store, result(0.5, seed=5, objective={"q": 3.0, "m": m}), name=name, text=panel)
    swept(store, result(), name="strange", text="panels: 3\n")
    return Path(store.root) / "figures", reported(store, "--compare", "--pdf")


@pytest.mark.slow
def test_figures_of_a_sweep_are_in_its_folder_and_those_of_several_above(report):
    folder, output = report
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.suffix in (".png", ".pdf")}
    drawn = ("ours/average", "ours/inputs", "left/left", "right/right", "figure-both")
    assert files == {f"{name}.{suffix}" for name in drawn for suffix in ("png", "pdf")}
    assert all(str(folder / name) in output for name in files)
    assert "\nstrange: " in output, "which cannot be read"


@pytest.mark.slow
def test_published_numbers_are_compared_with_measured_ones_in_a_file(report):
    folder, output = report
    assert "2 published numbers, 1 measured, 0 missed" in output
    text = (folder / "comparison.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    assert rows[0] == ["sweep", "panel", "series", "metric", "x", "published", "measured", "error", "seeds", "miss"]
    assert rows[2] == ["ours", "average", "A_R", "success", "3", "80", "75", "5", "2", ""]
    assert rows[3] == ["ours", "average", "A_R", "success", "10", "90", "", "", "0", ""]
    assert len(rows) == 4


@pytest.mark.slow
def test_the_report_says_what_is_not_in_it(report):
    _, output = report
    assert r"ours: average: A_R-majority\x1b[31m\x07: 'majority_30' " in output
    assert not {"\x1b", "\x07"} & {*output}
    assert "stopped early: 1 trial" in output


@pytest.mark.slow
def test_whatever_fails_is_a_note_and_all_else_stays(local, tmp_path, monkeypatch):
    """A panel fails in the method that it is named after, and a table and the training curves fail as well."""
    methods = ("__init__", "paint", "remarks", "compare")

    def breaking(method, whole):
        def method_of_panel(self, *arguments):
            panel = arguments[0] if method == "__init__" else self.panel
            if panel.name == method.strip("_"):
                raise ValueError(f"no {panel.name}\x1b[2J")
            return whole(self, *arguments)

        return method_of_panel

    for method in methods:
        monkeypatch.setattr(Curves, method, breaking(method, getattr(Curves, method)))

    def no_table(*arguments, **options):
        raise ValueError("no table\x1b[2J")

    def no_curves(*arguments):
        raise ValueError("a point of <nonsense>")

    monkeypatch.setattr(reports, "settings_table", no_table)
    monkeypatch.setattr(pages, "curves", no_curves)
    reads = []
    monkeypatch.setattr(Store, "trials", lambda self, *ids, read=Store.trials: reads.append(ids) or read(self, *ids))

    panels = "panels:\n"
    for method in methods:
        panels += f"- {{name: {method.strip('_')}, kind: curve, x: q, metric: success, split: baseline}}\n"
    panels = f"{panels[:-2]}, published: [{{series: Aq_R, metric: success, source: x, values: {{3: 0.5, 4: 0.5}}}}]}}\n"
    trials = [result(0.5, objective={"q": 3.0, "m": m}) for m in (2, 4)]
    swept(local, *trials, text=panels)
    swept(local, *trials, name="other")
    page, out = tmp_path / "page.html", tmp_path / "out"
    output = reported(local, "--sweep", "ours", "--out", out, "--html", page)
    text = page.read_text()
    assert {path.stem for path in (out / "ours").iterdir()} == {"compare"}
    assert [path.name for path in out.iterdir()] == ["ours"]
    for name in ("init", "paint", "remarks", "compare"):
        assert f"no {name}" in text
        assert f": ValueError: no {name}\\x1b[2J" in output
    assert "ValueError: no table" in text
    assert "ValueError: a point of &lt;nonsense&gt;" in text
    assert not (out / "comparison.md").exists()
    assert reads == [()], "figures and page share the rows"


def space_of(tmp_path, **changes):
    space = tmp_path / "space.yaml"
    space.write_text(f"trial: {coloring_trial(**changes).model_dump_json()}\n" + PANELS)
    return space


def test_nothing_to_draw_is_an_exit_code_of_its_own(local, tmp_path):
    local.commit(result())
    swept(local, missing=[trial_id(result(seed=9).trial)])
    reported(local, "--compare", code=1)
    assert (tmp_path / "results" / "figures" / "comparison.md").exists()
    lines = reported(local, "--space", space_of(tmp_path, steps=9), code=1).splitlines()
    assert "space: 1 of 1 trial not run yet; no average, inputs" in lines


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--sweep", "our"], "'ours'"), (["--sweep", "broken"], "'broken'"),
        (["--space", "nowhere.yaml"], "nowhere.yaml"),
        (["--out", "/dev/null/figures"], "/dev/null/figures"), (["--watch", "7"], "--html"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_or_written_is_said(local, arguments, named):
    swept(local, result())
    swept(local, result(), name="broken", text="panels:\n  - {kind: curve}\n")
    assert named in reported(local, *arguments, code=2)


def test_a_store_that_cannot_be_written_to_names_the_option(local, tmp_path):
    swept(local, result())
    (tmp_path / "results" / "figures").write_text("a file in the way")
    assert "--out" in refusal("report", "--results", local.url, "--html", tmp_path / "page.html")


def test_nothing_to_report_is_one_clear_line(tmp_path):
    store = tmp_path / "results"
    assert str(store) in refusal("report", "--results", store)
    store.mkdir()
    for arguments in ([], ["--html", tmp_path / "page.html"], ["--space", space_of(tmp_path)]):
        assert str(store) in refusal("report", "--results", store, *arguments)
    assert not list(store.iterdir())
