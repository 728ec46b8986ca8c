"""What a start does with the panels of its space."""

import dataclasses
from pathlib import Path

import pytest

from sweeper import sweep
from sweeper.interruption import Interruption
from sweeper.space import search_space
from sweeper.store.store import Store
from tests.results import result

SPACE = """
trial:
  task: {name: coloring, vertices: 5}
  model: {name: transformer, width: 4, key_size: 4}
  baseline: Aq_R
  objective: {q: 3, m: 2}
  optimizer: {warmup_steps: 10}
  steps: 250
panels:
  - {kind: curve, name: success, x: q, metric: success, split: baseline}
"""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A store with the one trial of the space."""
    store = Store.open(tmp_path / "results")
    (tmp_path / "space.yaml").write_text(SPACE)
    (trial,) = search_space.read(tmp_path / "space.yaml").expand().trials
    committed = result(status="finished", metrics={"success": 0.5, "success_p5": 0.1, "loss": 0.5})
    store.commit(dataclasses.replace(committed, trial=trial))
    return tmp_path / "results"


def start(results: Path, name: str, text: str = SPACE, dry_run: bool = False) -> int:
    space = results.parent / f"{name}.yaml"
    space.write_text(text)
    options = sweep.Options(
        space=space,
        results=str(results),
        address=None,
        dry_run=dry_run,
        overrides=(),
        retry_failed=False,
        recompute_other_code=False,
        concurrency=None,
        argv=("run",),
    )
    return sweep.start(options, Interruption())


def test_figures_of_two_sweeps_have_folders_of_their_own(results, capsys):
    for name in ("first", "second"):
        assert start(results, name) == 0
        assert f"figure: {results}/figures/{name}/success.png" in capsys.readouterr().out.replace("\n", "")
    assert sorted(path.relative_to(results / "figures").as_posix() for path in results.glob("figures/**/*.png")) == [
        "first/success.png",
        "second/success.png",
    ]


def test_a_panel_that_names_what_no_trial_has_is_refused_before_anything_runs(results, capsys):
    assert start(results, "misspelt", SPACE.replace("metric: success", "metric: succes"), dry_run=True) == 2
    assert "panels[0].metric: unknown column 'succes'; did you mean 'success'?" in capsys.readouterr().err
