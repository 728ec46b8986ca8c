"""What a start does with the panels of its space."""

from pathlib import Path

import pytest

import sweeper
from sweeper.store.store import Store
from tests.experiments.toy import TOY, project
from tests.results import result
from tests.tiny_sweeps import SPACE

PANELS = """
panels:
  - {kind: curve, name: success, x: q, metric: success, split: baseline}
"""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A store with the one trial of the space."""
    Store.open(tmp_path / "results").commit(result(metrics={"success": 0.5, "success_p5": 0.1, "loss": 0.5}))
    return tmp_path / "results"


def planned(results: Path, panels: str = PANELS) -> sweeper.SweepPlan:
    space = results.parent / "again.yaml"
    space.write_text(SPACE + panels)
    return sweeper.plan(space, results)


@pytest.fixture
def drawn(results):
    """Whether a start draws the figure, and does not tell of the one that is there."""
    figure = results / "figures" / "again" / "success.png"

    def start_of(panels: str = PANELS) -> bool:
        before = figure.stat().st_mtime_ns if figure.exists() else None
        assert f"figure: {figure}" in sweeper.train(planned(results, panels), in_process=True).draw()
        return figure.stat().st_mtime_ns != before

    return start_of


@pytest.mark.slow  # draws four times
def test_a_start_draws_what_it_has_changed_or_what_is_gone(results, drawn):
    assert drawn()
    assert not drawn()
    assert drawn(PANELS.replace("metric: success", "metric: loss"))
    assert not drawn(PANELS.replace("metric: success", "metric: loss"))
    (results / "figures" / "again" / "success.png").unlink()
    assert drawn(PANELS.replace("metric: success", "metric: loss"))
    for row in results.glob("trials/**/*.parquet"):
        row.unlink()
    assert drawn(PANELS.replace("metric: success", "metric: loss")), "this start has committed the row"


@pytest.mark.slow
def test_a_plan_refuses_a_panel_of_a_name_that_no_trial_will_have(results, tmp_path):
    with pytest.raises(sweeper.SearchSpaceError, match=r"again.yaml:\d+: panels\[0\].metric: .*did you mean 'success'"):
        planned(results, PANELS.replace("metric: success", "metric: succes"))
    toy = f"trial: {{experiment: {{name: toy}}, steps: 5}}\n{PANELS.replace('metric: success', 'metric: reech')}"
    (tmp_path / "toy.yaml").write_text(toy)
    with project(tmp_path, toy=TOY), pytest.raises(sweeper.SearchSpaceError) as refused:
        sweeper.read_space(tmp_path / "toy.yaml")
    assert "did you mean 'reach'" in str(refused.value), "an experiment declares its metrics"


@pytest.mark.slow
def test_a_notebook_shows_the_figures_and_the_remarks(results):
    panels = f"{PANELS}  - {{kind: history, name: loss, metric: mean_loss, split: q}}\n"
    drawn = sweeper.train(planned(results, panels), in_process=True).draw()
    page = drawn._repr_html_()
    assert page.count('<img src="data:image/png;base64,') == len(drawn.files) == 1
    assert "mean_loss" in page
    assert sweeper.train(planned(results, ""), in_process=True).draw() == []


@pytest.mark.slow
def test_what_cannot_be_drawn_ends_no_sweep(results):
    (results / "figures").write_text("a file in the way")
    (line,) = sweeper.train(planned(results), in_process=True).draw()
    assert "FileExistsError" in line or "NotADirectoryError" in line
