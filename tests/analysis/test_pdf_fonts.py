"""Fonts of PDF files: figures share a subset, and every character has the glyph that it has without sharing."""

import io
import re

import numpy as np
import pytest
from fontTools.pens.recordingPen import RecordingPen
from fontTools.ttLib import TTFont
from matplotlib import rc_context
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.figure import Figure

from sweeper.analysis.figures import pdf_fonts


def pdf(text: str) -> bytes:
    """A figure with a text, without compression."""
    figure, file = Figure((2, 1)), io.BytesIO()
    figure.text(0.1, 0.5, text)
    with rc_context({"pdf.fonttype": 42, "pdf.compression": 0}):
        FigureCanvasPdf(figure).print_pdf(file)
    return file.getvalue()


def glyphs(file: bytes) -> dict[str, dict[int, tuple[str, list]]]:
    """The glyph of each character code by font: its name, and its outline."""
    objects = dict(re.findall(rb"\n(\d+) 0 obj\s(.*?)\nendobj", file, re.DOTALL))

    def entry(name: bytes, of: bytes) -> bytes:
        """The entry of an object, which is a name or the number of an object."""
        (found,) = re.findall(rb"/%s /?(\S+)" % name, of)
        return found

    def stream(number: bytes) -> bytes:
        head, _, data = objects[number].partition(b"stream\n")
        return data[: int(entry(b"Length", head))]

    found = {}
    for each in objects.values():
        if b"/CIDToGIDMap" not in each:
            continue
        descriptor = objects[entry(b"FontDescriptor", each)]
        font = TTFont(io.BytesIO(stream(entry(b"FontFile2", descriptor))))
        codes = np.frombuffer(stream(entry(b"CIDToGIDMap", each)), ">u2")
        of_code = {}
        for code in np.flatnonzero(codes):
            glyph, pen = font.getGlyphName(codes[code]), RecordingPen()
            font.getGlyphSet()[glyph].draw(pen)
            of_code[int(code)] = (glyph, pen.value)
        found[entry(b"BaseFont", each).decode()] = of_code
    return found


@pytest.mark.slow
def test_characters_have_the_glyphs_of_their_font():
    text = "fit \N{MINUS SIGN}1 ∞ é $q^{2}$"
    own = glyphs(pdf(text))
    with pdf_fonts.shared():
        shared = glyphs(pdf(text))
    assert own == shared
    assert {glyph for each in own.values() for glyph, _ in each.values()} >= {"infinity", "eacute", "minus", "q"}


@pytest.mark.slow
def test_figures_share_the_subsets_of_fonts(monkeypatch):
    cut, fonts = pdf_fonts.cut, []
    monkeypatch.setattr(pdf_fonts, "cut", lambda font, glyphs: (fonts.append(font), cut(font, glyphs))[1])
    pdf_fonts._kept.cache_clear()
    with pdf_fonts.shared():
        for text in ("success $q$", "failed $inputs$ of 12 %"):
            pdf(text)
    assert len(fonts) == len(set(fonts)) == 2
