"""Kinds of panel that a search space of learned algorithms may declare, beside those of all kinds of trial."""

from typing import Annotated, Literal

from pydantic import Field

from sweeper.panels.axes import Name, Unit, ValueAxis
from sweeper.panels.panel import GridPanel, RowLinesPanel


class VotesPanel(RowLinesPanel):
    """Success against the number of votes k, with the lower bounds of `sweeper.learned_algorithms.vote_bounds`.

    `metric` and `tail` are names of columns without the number k: `votes` for `votes_<k>`, `votes_p5` for
    `votes_<k>_p5`. `x` is the label of the axis.
    """

    SOURCE = "votes"

    kind: Literal["votes"]
    x: str = "Number of votes $k$"
    y: ValueAxis = ValueAxis(label="Success (%)", percent=True, limits=(0.0, 100.0))
    metric: Name = "votes"
    tail: Name | None = "votes_p5"


class BoardPanel(GridPanel):
    """Two walks of an agent to the cell `target` (row and column from 1), one board for each of several seeds r.

    `metric` is the beginning of the outcomes `<metric>_<r>_<step>`, which hold the cell reached by a step, and a
    negative number after the last step. A walk ends on the target, or after as many steps as the column `longest` says.
    `unit` is the number of steps that is written as 1 above a board.
    """

    SOURCE = "walk"

    kind: Literal["board"]
    metric: Name = "path"
    target: Annotated[tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]], Field(strict=False)]
    longest: Name
    boards: Annotated[int, Field(ge=1, le=10)] = 3
    unit: Unit = 1.0
