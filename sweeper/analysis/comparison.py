"""Published numbers beside measured ones: the records, how many agree, and the tables and the CSV file of them.

Terminal and Markdown show one table of all published numbers. The page shows two tables with the same columns, measured
numbers and numbers not measured yet, with the sources and a drawing of the range over training seeds.
"""

import collections
import csv
import math
import operator
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from sweeper.analysis.table import CODE, COUNT, TEXT, VALUE, Column, Field, Form, Table, tabulated
from sweeper.learned_algorithms.metrics import metric_named
from sweeper.messages import cell

MISS = 0.05  # a share that is further than this from its published value is a miss

RELATIVE_MISS, READING_ERROR = 0.1, 0.01
"""A number of another unit, such as a loss or a number of steps, is a miss if it is further from its published value
than this part of that value, and further than this part of the largest published number of its panel, which is how
exactly a figure can be read."""


class Comparison(NamedTuple):
    """One published number beside the measured one, in the store's units (success between 0 and 1)."""

    panel: str
    series: str
    metric: str
    at: float | None  # the value on the horizontal axis
    published: float
    measured: float | None  # mean over training seeds; None while the store has no such measurement
    lowest: float | None  # of single seeds, as `highest`
    highest: float | None
    seeds: int
    steps: tuple[int, ...]  # numbers of training steps
    percent: bool  # whether the panel draws per cent
    source: str
    largest: float = 0.0  # published number of the panel, without its sign
    sweep: str = ""  # or search space, whose panel asks for it

    @property
    def difference(self) -> float | None:
        return None if self.measured is None else self.measured - self.published

    @property
    def tolerance(self) -> float | None:
        """How far the measured may be from the published value; None without a scale, as where all published are 0."""
        if self.percent:
            return MISS
        largest = max(self.largest, abs(self.published))
        return max(RELATIVE_MISS * abs(self.published), READING_ERROR * largest) if largest else None

    @property
    def missed(self) -> bool:
        """Whether the measured number is far from the published one."""
        if self.difference is None or self.tolerance is None:
            return False
        return abs(self.difference) > self.tolerance * (1 + 1e-7)  # 0.75 - 0.8 is a little more than 0.05


class Agreement(NamedTuple):
    """How many measured numbers are near their published values."""

    near: int  # shares within `MISS`, without those that are 0 in both
    compared: int
    zeros: int  # shares that are 0 in both
    near_others: int = 0  # numbers of other units that are no misses
    compared_others: int = 0

    def sentence(self) -> str:
        """The counts in words, without a full stop."""
        zeros = f"; {self.zeros:,} more are 0 in both" if self.zeros else ""
        others = f"; {self.near_others:,} of {self.compared_others:,} other numbers are near"
        shares = f"{self.near:,} of {self.compared:,} percentages lie within {100 * MISS:g} points{zeros}"
        return shares + others * bool(self.compared_others)


def agreement(compared: Iterable[Comparison]) -> Agreement:
    # A pooled percentile stands beside the mean of percentiles of the same published number.
    telling = [each for each in compared if metric_named(each.metric).statistic != "pooled"]
    judged = [each for each in telling if each.measured is not None and each.tolerance is not None]
    shares, others = ([each for each in judged if each.percent == percent] for percent in (True, False))
    # An untrained network, too, has 0 where the published share is 0.
    telling = [each for each in shares if not each.measured == 0 == each.published]
    near, near_others = (sum(not each.missed for each in part) for part in (telling, others))
    return Agreement(near, len(telling), len(shares) - len(telling), near_others, len(others))


def _amount(value: float | None, comparison: Comparison) -> str:
    """Such as "75.0 %" or "0.0421"."""
    assert value is not None, "a missing value is not written"
    return f"{100 * value:.1f} %" if comparison.percent else f"{value:.4f}"


def _difference(comparison: Comparison) -> str:
    """Such as "-5.0 points" or "+0.0012"; no difference has no sign."""
    assert comparison.difference is not None, "a missing value is not written"
    digits, amount = (1, 100 * comparison.difference) if comparison.percent else (4, comparison.difference)
    sign = "+" if round(amount, digits) else ""
    # Adding 0 turns -0.0, which a small negative number is rounded to, into 0.0.
    return f"{round(amount, digits) + 0.0:{sign}.{digits}f}{' points' if comparison.percent else ''}"


# Forms of a whole comparison.
PUBLISHED = Form(lambda shown: _amount(shown.published, shown), numeric=True, order=lambda shown: shown.published)
MEASURED = Form(lambda shown: _amount(shown.measured, shown), numeric=True, order=lambda shown: shown.measured)
DIFFERENCE = Form(_difference, numeric=True, order=lambda shown: shown.difference, striking=lambda shown: shown.missed)
STEPS = Form(
    lambda steps: "; ".join(f"{count:,}" for count in steps), numeric=True, order=lambda steps: min(steps, default=None)
)
RANGE = Form(lambda drawing: "", look="range")


def _if_measured(shown: Comparison) -> Comparison | None:
    return None if shown.measured is None else shown


def _field(name: str, form: Form = TEXT) -> Field[Comparison]:
    return Column(name, form), operator.attrgetter(name)


_ABOUT = (_field("panel"), _field("series"), _field("metric", CODE), _field("at", VALUE))
_PUBLISHED: Field[Comparison] = (Column("published", PUBLISHED), lambda shown: shown)
_MEASURED: Field[Comparison] = (Column("measured", MEASURED, "-"), _if_measured)
_DIFFERENCE: Field[Comparison] = (Column("difference", DIFFERENCE), _if_measured)
_SWEEP, _SEEDS, _STEPS, _SOURCE = _field("sweep"), _field("seeds", COUNT), _field("steps", STEPS), _field("source")

TITLE = "Measured against published"


def every_number(every: Sequence[Comparison]) -> Table:
    """All published numbers, with a dash for numbers not measured yet."""
    fields = (_SWEEP, *_ABOUT, _PUBLISHED, _MEASURED, _DIFFERENCE, _SEEDS, _STEPS)
    note = (
        "Measured: mean over the training seeds, '-' where there is none yet (`_pooled`: a percentile over the inputs "
        "of all training seeds together, beside the mean of percentiles); at: the value on the horizontal axis. "
        f"{agreement(every).sentence()}."
    )
    return tabulated(TITLE, fields, every, note)


def measured_numbers(every: Sequence[Comparison]) -> Table:
    """The published numbers that are measured, with the range over training seeds and the source."""
    measured = [shown for shown in every if shown.measured is not None]
    # Losses have no natural scale: all losses of a panel are drawn on the scale of the largest.
    largest: dict[tuple[str, str], float] = collections.defaultdict(float)
    for shown in measured:
        values = (shown.published, shown.measured, shown.highest)
        finite = [abs(value) for value in values if value is not None and math.isfinite(value)]
        largest[shown.sweep, shown.panel] = max(largest[shown.sweep, shown.panel], *finite)

    def drawing(shown: Comparison) -> tuple[float, ...] | None:
        """Lowest, highest, measured and published, as shares of the width of the drawing."""
        scale = 1.0 if shown.percent else largest[shown.sweep, shown.panel]
        values = (shown.lowest, shown.highest, shown.measured, shown.published)
        finite = [value for value in values if value is not None and math.isfinite(value)]
        if not scale or len(finite) < len(values):
            return None
        return tuple(min(1.0, max(0.0, value / scale)) for value in finite)

    fields = (
        *[_SWEEP] * (len({shown.sweep for shown in every}) > 1),
        *(*_ABOUT, _PUBLISHED, _MEASURED, _DIFFERENCE, (Column("over seeds", RANGE), drawing)),
        *(_SEEDS, _STEPS, _SOURCE),
    )
    note = (
        f"Measured is the mean over training seeds. A miss is set in bold: a difference of more than {100 * MISS:g} "
        f"points; of a loss or a number of steps more than {100 * RELATIVE_MISS:g} % of the published value, and more "
        f"than {100 * READING_ERROR:g} % of the largest published number of its panel. "
        "The drawing puts the measured mean (dot) and the range over single seeds (line) beside the published value "
        "(upright stroke): per cent from 0 to 100, other metrics from 0 to the largest of their panel."
    )
    return tabulated(TITLE, fields, measured, note)


def unmeasured_numbers(every: Sequence[Comparison]) -> Table:
    unmeasured = [shown for shown in every if shown.measured is None]
    return tabulated("Not measured yet", (_SWEEP, *_ABOUT, _PUBLISHED, _SOURCE), unmeasured)


CSV_COLUMNS = (
    "sweep", "panel", "series", "metric", "at", "published", "measured", "difference", "lowest_seed", "highest_seed",
    "seeds", "steps", "source",
)  # fmt: skip


def write_csv(every: Iterable[Comparison], path: Path) -> None:
    """Write every published number with its measurement, in the store's units; a missing measurement is empty."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(CSV_COLUMNS)
        for shown in every:
            measured = (shown.measured, shown.difference, shown.lowest, shown.highest)
            named = (shown.sweep, shown.panel, shown.series, shown.metric, shown.at, shown.published)
            row = [*named, *measured, shown.seeds, ", ".join(map(str, shown.steps)), shown.source]
            writer.writerow([cell(value) if isinstance(value, str) else value for value in row])
