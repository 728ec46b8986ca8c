"""Texts of figures: each is measured once, and a figure is the same whatever was measured before."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser

from sweeper.analysis.figures import layout, texts

SENTENCE, FORMULA = "success of 30 votes", r"$A^q_{r_0}$ and $10^{-3}$"


def figure(width: float) -> Figure:
    made = Figure((width, 1), layout="constrained")
    texts.Canvas(made)
    made.add_subplot(xlabel=SENTENCE, ylabel=FORMULA, yscale="log", ylim=(1e-3, 1))
    return made


def saved(width: float, path) -> list[bytes]:
    return [file.read_bytes() for file in layout.save(lambda: figure(width), path)]


@pytest.mark.slow
def test_texts_are_measured_and_formulas_parsed_once(monkeypatch, tmp_path):
    saved(3, tmp_path / "first")
    for owner, name in ((RendererAgg, "get_text_width_height_descent"), (MathTextParser, "parse")):
        monkeypatch.setattr(owner, name, lambda *given: pytest.fail(f"again: {given}"))
    saved(4, tmp_path / "second")


@pytest.mark.slow
def test_a_picture_is_that_of_matplotlib(tmp_path, monkeypatch):
    ours = saved(3, tmp_path / "ours")
    monkeypatch.setattr(texts, "Canvas", FigureCanvasAgg)
    monkeypatch.setattr(texts, "_Formulas", MathTextParser)
    assert saved(3, tmp_path / "theirs") == ours
