"""Mistakes in a search space: one line for each, with its place and the nearest valid name."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sweeper.messages import UserError, counted, printable

MAX_SHOWN = 20


class Elsewhere(NamedTuple):
    """A line of a file that the space extends."""

    source: str
    line: int


Where = int | str | Elsewhere | None
"""Line in the file of the space, the text of the `--set` that holds a value, a line of another file, or unknown."""


@dataclass(frozen=True)
class Problem:
    """One mistake."""

    path: str  # dotted, the hole included (`trial.experiment.rate.choice[2]`); empty for the whole file
    message: str
    where: Where = None

    def line(self, source: str) -> str:
        """One line, such as compilers print: `x.yaml:12: trial.steps: must be at least 1, got 0`."""
        match self.where:
            case str():
                place = f"--set {shortened(self.where)}: "
            case int():
                place = f"{source}:{self.where}: "
            case Elsewhere(other, line):
                place = f"{other}:{line}: "
            case None:
                place = f"{source}: "
        return printable(place + (f"{self.path}: " if self.path else "") + self.message)


class SearchSpaceError(UserError, ValueError):
    """A search space that cannot be run; its text is a line for every problem, written for the author of the file."""

    def __init__(self, source: str, problems: Sequence[Problem]):
        self.source = source
        # Many draws from one place, or results of one formula, are one mistake.
        self.problems = list({(p.path, p.message.partition(", got ")[0]): p for p in reversed(problems)}.values())[::-1]
        super().__init__(source, self.problems)

    def __str__(self) -> str:
        lines = [problem.line(self.source) for problem in self.problems[:MAX_SHOWN]]
        if len(self.problems) > MAX_SHOWN:
            lines.append(f"{self.source}: and {counted(len(self.problems) - MAX_SHOWN, 'more problem')}")
        return "\n".join(lines)


class Refused(Exception):
    """A mistake that ends the reading of a document, because the text after the mistake cannot be understood."""

    def __init__(self, problem: Problem):
        super().__init__(problem.message)
        self.problem = problem


def shortened(text: str) -> str:
    """The text on one line and of a length that fits into a message."""
    text = printable(text[:200])
    return text if len(text) <= 80 else text[:77] + "..."


def shown(value: Any) -> str:
    """A value of a node, in a message."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case str():
            return f"'{shortened(value)}'"
        case _:
            return str(value)
