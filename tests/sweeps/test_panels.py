"""What a start does with the panels of its space."""

from pathlib import Path

import pytest

from sweeper.space import search_space
from sweeper.store.store import Store
from sweeper.trial import fingerprint
from tests.results import result
from tests.tiny_sweeps import SPACE, start

PANELS = """
panels:
  - {kind: curve, name: success, x: q, metric: success, split: baseline}
"""


EVALUATED = "  - {kind: curve, name: evaluated, x: q, metric: success, rows: evaluations, split: baseline}\n"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A store with the one trial of the space."""
    Store.open(tmp_path / "results").commit(result(metrics={"success": 0.5, "success_p5": 0.1, "loss": 0.5}))
    return tmp_path / "results"


def _start(results: Path, name: str, panels: str = PANELS, dry_run: bool = False) -> int:
    space = results.parent / f"{name}.yaml"
    space.write_text(SPACE + panels)
    return start(space, dry_run=dry_run)


@pytest.mark.slow
def test_figures_of_two_sweeps_have_folders_of_their_own(results, capsys):
    for name in ("first", "second"):
        assert _start(results, name) == 0
        assert f"figure: {results}/figures/{name}/success.png" in capsys.readouterr().out.replace("\n", "")
    assert sorted(path.relative_to(results / "figures").as_posix() for path in results.glob("figures/**/*.png")) == [
        "first/success.png",
        "second/success.png",
    ]


@pytest.mark.slow
def test_a_start_draws_only_what_is_not_drawn_yet(results, capsys):
    figure = results / "figures" / "again" / "success.png"

    def drawn(panels: str = PANELS) -> bool:
        before = figure.stat().st_mtime_ns if figure.exists() else None
        assert _start(results, "again", panels) == 0
        assert f"figure: {figure}" in capsys.readouterr().out.replace("\n", "")
        return figure.stat().st_mtime_ns != before

    assert drawn()
    assert not drawn()
    assert drawn(PANELS.replace("metric: success", "metric: loss"))
    assert drawn()
    figure.with_suffix(".pdf").unlink()
    assert drawn()
    (figure.parent / "drawn.json").write_text("[]")
    assert not drawn(), "a figure says itself what it shows"
    assert not drawn(PANELS + EVALUATED)
    assert not (figure.parent / "drawn.json").exists()
    figure.write_bytes(b"")
    assert drawn()
    for row in results.glob("trials/**/*.parquet"):
        row.unlink()
    Store.open(results).commit(result(metrics={"success": 0.6, "success_p5": 0.1, "loss": 0.5}))
    assert drawn()
    assert not drawn()


def test_a_panel_that_names_what_no_trial_has_is_refused_before_anything_runs(results, capsys):
    assert _start(results, "misspelt", PANELS.replace("metric: success", "metric: succes"), dry_run=True) == 2
    assert "panels[0].metric: unknown column 'succes'; did you mean 'success'?" in capsys.readouterr().err


@pytest.mark.slow
def test_panels_that_an_earlier_start_has_checked_are_checked_again_only_if_something_changes(results, monkeypatch):
    checks = []
    monkeypatch.setattr(search_space, "check_panels", checks.append)

    def checked(panels: str = PANELS) -> bool:
        checks.clear()
        assert _start(results, "checked", panels, dry_run=True) == 0
        return len(checks) == 1

    assert checked()
    assert checked()  # a dry run leaves no record
    assert _start(results, "checked") == 0
    assert not checked()
    assert checked(PANELS.replace("metric: success", "metric: loss"))
    other_code = fingerprint.captured().model_copy(update={"numerics": "0" * 20})
    monkeypatch.setattr(fingerprint, "captured", lambda: other_code)
    assert checked()
