"""Fonts of PDF files: one subset of a font serves all figures of a process.

A PDF has the glyphs of each font that its texts need. Matplotlib has fontTools cut them out of the font anew for every
figure, which takes longer than all else of a PDF. Here a subset has the printable characters of ASCII in any case, so
nearly all figures can share it.
"""

import contextlib
import functools
import string
from collections.abc import Iterable, Iterator
from typing import Any

from matplotlib.backends import _backend_pdf_ps
from matplotlib.font_manager import get_font

COMMON = f"{string.ascii_letters}{string.digits}{string.punctuation} \N{MINUS SIGN}"  # the last stands in ticks

UNUSED = ("GDEF", "GPOS", "GSUB")  # tables that place glyphs: a PDF has their places, and saving them takes long

cut = _backend_pdf_ps.get_glyphs_subset


@contextlib.contextmanager
def shared() -> Iterator[None]:
    """Within this context PDF files share the subsets of fonts.

    The function of matplotlib that cuts them is private. A release in which it has another form cuts as ever.
    """
    if hasattr(_backend_pdf_ps, "SubsetResults"):
        _backend_pdf_ps.get_glyphs_subset = _subset
    try:
        yield
    finally:
        _backend_pdf_ps.get_glyphs_subset = cut


def _subset(font: Any, glyphs: Iterable[int]) -> contextlib.AbstractContextManager[Any]:
    """As matplotlib's own function: the font with these glyphs, and with others, in a context that leaves it open."""
    return contextlib.nullcontext(_kept(font, _common(font).union(glyphs)))


@functools.lru_cache(32)
def _kept(font: Any, glyphs: frozenset[int]) -> Any:
    kept = cut(font, set(glyphs)).__enter__()
    for table in UNUSED:
        if table in kept.font:
            del kept.font[table]
    return kept


@functools.cache
def _common(font: Any) -> frozenset[int]:
    """The glyphs of the common characters in a font; 0 stands for one that it lacks."""
    loaded = get_font(font)
    return frozenset(map(loaded.get_char_index, map(ord, COMMON)))
