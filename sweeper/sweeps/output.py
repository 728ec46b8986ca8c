"""What a sweep prints: lines and tables for people, without control sequences that a terminal would obey."""

import dataclasses
import io
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from rich.console import Console

from sweeper.messages import printable_lines

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True)
class Output:
    """Where a sweep prints: results, and complaints (warnings and errors)."""

    out: Console = dataclasses.field(default_factory=Console)
    complaints: Console = dataclasses.field(default_factory=lambda: Console(stderr=True))

    @classmethod
    def plain(cls, file: TextIO | None = None) -> "Output":
        """Plain lines, also in a notebook, where rich would make HTML of each, or take the page for a terminal.

        They go to the file, or to standard output and standard error.
        """
        terminal = None if file is None and sys.stdout.isatty() else False
        streams = [file or stream for stream in (sys.stdout, sys.stderr)]
        out, complaints = (Console(file=stream, force_jupyter=False, force_terminal=terminal) for stream in streams)
        return cls(out, complaints)

    @classmethod
    def text_of(cls, tell: "Callable[[Output], None]") -> str:
        file = io.StringIO()
        tell(cls.plain(file))
        return file.getvalue().rstrip("\n")

    def say(self, text: str) -> None:
        """Print lines without control sequences; a terminal may wrap the lines, a log keeps them whole."""
        self.out.print(printable_lines(text), markup=False, highlight=False, soft_wrap=True)

    def table(self, table: "pd.DataFrame") -> None:
        """Print a table: cells are folded to the width of a terminal, and stand on one line in a log."""
        from sweeper.analysis.table import terminal  # pandas takes as long as a tenth of a plan

        console = (
            self.out
            if self.out.is_terminal
            else Console(file=self.out.file, width=10_000, force_jupyter=False, force_terminal=False)
        )
        console.print(terminal(table))

    def complain(self, text: str) -> None:
        self.complaints.print(printable_lines(text), markup=False, highlight=False, soft_wrap=True)
