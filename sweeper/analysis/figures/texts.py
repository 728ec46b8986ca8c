"""Texts and formulas: each is measured once in a process, for figures of all sizes.

A layout measures every text many times. Matplotlib forgets the sizes with each new size of the canvas, and parses the
formulas again, ticks of logarithmic axes among them, which takes longer than all else of a layout. The size of a text
depends on its font and on the resolution alone.
"""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from matplotlib import textpath
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import MathTextParser

MOST = 4096  # texts of each kind that are kept


class Canvas(FigureCanvasAgg):
    """A canvas for pictures of pixels."""

    _size: tuple[float, float, float] | None = None

    def get_renderer(self) -> RendererAgg:
        size = (*self.get_width_height(physical=True), self.figure.dpi)
        if size != self._size:
            self.renderer, self._size = _Renderer(*size), size
        return self.renderer


@contextlib.contextmanager
def kept_formulas() -> Iterator[None]:
    """Have what is written within this context, such as a PDF, use formulas that were parsed before."""
    module: Any = textpath  # whose types have no name that it imports
    parser, module.MathTextParser = module.MathTextParser, _Formulas
    try:
        yield
    finally:
        module.MathTextParser = parser


class _Formulas(MathTextParser):
    def parse(self, s: str, dpi: float = 72, prop: Any = None, *, antialiased: bool | None = None) -> Any:
        return _parsed(s, dpi, None if prop is None else prop.copy(), antialiased)


class _Renderer(RendererAgg):
    def __init__(self, width: float, height: float, dpi: float) -> None:
        super().__init__(width, height, dpi)
        self.mathtext_parser = _Formulas("path")

    def get_text_width_height_descent(self, s: str, prop: FontProperties, ismath: Any) -> tuple[float, float, float]:
        return _measured(s, prop.copy(), ismath, self.dpi)


@functools.lru_cache(MOST)
def _parsed(text: str, dpi: float, font: FontProperties | None, antialiased: bool | None) -> Any:
    return MathTextParser("path").parse(text, dpi, font, antialiased=antialiased)


@functools.lru_cache(MOST)
def _measured(text: str, font: FontProperties, is_formula: Any, dpi: float) -> tuple[float, float, float]:
    return RendererAgg.get_text_width_height_descent(_Renderer(1, 1, dpi), text, font, is_formula)
