"""Published numbers beside measured ones: the records, how many agree, and the tables and the CSV file of them.

Terminal and Markdown show one table of all published numbers. The page shows two tables with the same columns, measured
numbers and numbers not measured yet, with the sources and a drawing of the range over training seeds.
"""

import collections
import csv
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sweeper.analysis.table import CODE, COUNT, VALUE, Column, Field, Form, Table, tabulated

MISS = 0.05
"""A share that is further than this from its published value is a miss."""

RELATIVE_MISS, READING_ERROR = 0.1, 0.01
"""A number of another unit, such as a loss or a number of steps, is a miss if it is further from its published value
than this part of that value, and further than this part of the largest published number of its panel, which is how
exactly a figure can be read."""


class Comparison(NamedTuple):
    """One published number beside the measured number; `measured` is None while the store has no such measurement.

    `measured` is the mean over training seeds, `lowest` and `highest` are single seeds. Values are in the store's
    units (success between 0 and 1), and `percent` says whether the panel draws them as per cent. `seeds` is the number
    of training seeds behind the number, `steps` lists the numbers of training steps, and `largest` is the largest
    published number of the panel, without its sign.
    """

    panel: str
    curve: str
    metric: str
    at: float | None
    published: float
    measured: float | None
    lowest: float | None
    highest: float | None
    seeds: int
    steps: tuple[int, ...]
    percent: bool
    source: str
    largest: float = 0.0

    @property
    def difference(self) -> float | None:
        """The measured less the published value."""
        return None if self.measured is None else self.measured - self.published

    @property
    def tolerance(self) -> float | None:
        """How far the measured may be from the published value without being a miss.

        None if the panel gives no scale for a difference, because all its published numbers are 0.
        """
        if self.percent:
            return MISS
        largest = max(self.largest, abs(self.published))
        return max(RELATIVE_MISS * abs(self.published), READING_ERROR * largest) if largest else None

    @property
    def judged(self) -> bool:
        """Whether there is a measured number, and a scale on which it may be a miss."""
        return self.measured is not None and self.tolerance is not None

    @property
    def missed(self) -> bool:
        """Whether the measured number is far from the published one."""
        if self.difference is None or self.tolerance is None:
            return False
        # 0.75 - 0.8 is a little more than 0.05 in floating point.
        return abs(self.difference) > self.tolerance * (1 + 1e-7)

    @property
    def both_zero(self) -> bool:
        """Whether a share is 0 in both, measured and published, as it also is for an untrained network."""
        return self.percent and self.measured == 0 == self.published


class Agreement(NamedTuple):
    """How many measured numbers are near their published values.

    Attributes:
        near: Shares within `MISS`.
        compared: Measured shares, without shares that are 0 in both.
        zeros: Shares that are 0 in both.
        near_others: Measured numbers of other units that are no misses.
        compared_others: Measured numbers of other units.
    """

    near: int
    compared: int
    zeros: int
    near_others: int = 0
    compared_others: int = 0

    def sentence(self) -> str:
        """The counts in words, without a full stop."""
        zeros = f"; {self.zeros:,} more are 0 in both" if self.zeros else ""
        others = (
            f"; {self.near_others:,} of {self.compared_others:,} other numbers are near" if self.compared_others else ""
        )
        return f"{self.near:,} of {self.compared:,} percentages lie within {100 * MISS:g} points{zeros}{others}"


def agreement(compared: Iterable[Comparison]) -> Agreement:
    """The published numbers that are measured, counted."""
    judged = [comparison for comparison in compared if comparison.judged]
    shares = [comparison for comparison in judged if comparison.percent]
    others = [comparison for comparison in judged if not comparison.percent]
    telling = [comparison for comparison in shares if not comparison.both_zero]
    near, near_others = (sum(not comparison.missed for comparison in part) for part in (telling, others))
    return Agreement(near, len(telling), len(shares) - len(telling), near_others, len(others))


class Compared(NamedTuple):
    """A comparison and the sweep or search space whose panel asks for it."""

    sweep: str
    comparison: Comparison


# --------------------------------------------------------------------------------------------------------------------
# Columns
# --------------------------------------------------------------------------------------------------------------------


class Quantity(NamedTuple):
    """A value in the store's units, and whether it is shown as per cent."""

    value: float
    percent: bool

    def text(self) -> str:
        """Such as "75.0 %" or "0.0421"."""
        return f"{100 * self.value:.1f} %" if self.percent else f"{self.value:.4f}"


class Difference(NamedTuple):
    """A measured less a published value, and whether it is a miss."""

    value: float
    percent: bool
    missed: bool

    def text(self) -> str:
        """Such as "-5.0 points" or "+0.0012"; no difference has no sign."""
        digits, amount = (1, 100 * self.value) if self.percent else (4, self.value)
        sign = "+" if round(amount, digits) else ""
        # Adding 0 turns -0.0, which a small negative number is rounded to, into 0.0.
        return f"{round(amount, digits) + 0.0:{sign}.{digits}f}{' points' if self.percent else ''}"


class Range(NamedTuple):
    """The places in the drawing of a comparison, as shares of its width."""

    lowest: float
    highest: float
    measured: float
    published: float


QUANTITY = Form(Quantity.text, numeric=True, order=lambda quantity: quantity.value)
DIFFERENCE = Form(
    Difference.text, numeric=True, order=lambda difference: difference.value, striking=lambda gap: gap.missed
)
STEPS = Form(
    lambda steps: "; ".join(f"{count:,}" for count in steps), numeric=True, order=lambda steps: min(steps, default=None)
)
RANGE = Form(lambda drawing: "", look="range", drawn=True)


def _of(value: Callable[[Comparison], Any]) -> Callable[[Compared], Any]:
    return lambda entry: value(entry.comparison)


def _quantity(value: float | None, comparison: Comparison) -> Quantity | None:
    return None if value is None else Quantity(value, comparison.percent)


def _difference(comparison: Comparison) -> Difference | None:
    gap = comparison.difference
    return None if gap is None else Difference(gap, comparison.percent, comparison.missed)


_SWEEP: Field[Compared] = (Column("sweep"), lambda entry: entry.sweep)
_PANEL: Field[Compared] = (Column("panel"), _of(lambda comparison: comparison.panel))
_CURVE: Field[Compared] = (Column("curve"), _of(lambda comparison: comparison.curve))
_METRIC: Field[Compared] = (Column("metric", CODE), _of(lambda comparison: comparison.metric))
_AT: Field[Compared] = (Column("at", VALUE), _of(lambda comparison: comparison.at))
_PUBLISHED: Field[Compared] = (Column("published", QUANTITY), _of(lambda shown: _quantity(shown.published, shown)))
_MEASURED: Field[Compared] = (Column("measured", QUANTITY, "-"), _of(lambda shown: _quantity(shown.measured, shown)))
_DIFFERENCE: Field[Compared] = (Column("difference", DIFFERENCE), _of(_difference))
_SEEDS: Field[Compared] = (Column("seeds", COUNT), _of(lambda comparison: comparison.seeds))
_STEPS: Field[Compared] = (Column("steps", STEPS), _of(lambda comparison: comparison.steps))
_SOURCE: Field[Compared] = (Column("source"), _of(lambda comparison: comparison.source))


# --------------------------------------------------------------------------------------------------------------------
# Tables and the file
# --------------------------------------------------------------------------------------------------------------------

TITLE = "Measured against published"


def every_number(entries: Sequence[Compared]) -> Table:
    """All published numbers, with a dash for numbers not measured yet."""
    fields = (
        *(_SWEEP, _PANEL, _CURVE, _METRIC, _AT, _PUBLISHED, _MEASURED, _DIFFERENCE, _SEEDS, _STEPS),
    )  # fmt: skip
    note = (
        "Measured: mean over the training seeds, '-' where there is none yet; at: the value on the horizontal axis. "
        f"{agreement(entry.comparison for entry in entries).sentence()}."
    )
    return tabulated(TITLE, fields, entries, note)


def measured_numbers(entries: Sequence[Compared]) -> Table:
    """The published numbers that are measured, with the range over training seeds and the source."""
    measured = [entry for entry in entries if entry.comparison.measured is not None]
    # Losses have no natural scale: all losses of a panel are drawn on the scale of the largest.
    largest: dict[tuple[str, str], float] = collections.defaultdict(float)
    for sweep, comparison in measured:
        values = (comparison.published, comparison.measured, comparison.highest)
        finite = [abs(value) for value in values if value is not None and math.isfinite(value)]
        largest[sweep, comparison.panel] = max(largest[sweep, comparison.panel], *finite)

    def drawing(entry: Compared) -> Range | None:
        comparison = entry.comparison
        return _range(comparison, 1.0 if comparison.percent else largest[entry.sweep, comparison.panel])

    fields = (
        *[_SWEEP] * (len({entry.sweep for entry in entries}) > 1),
        *(_PANEL, _CURVE, _METRIC, _AT, _PUBLISHED, _MEASURED, _DIFFERENCE),
        (Column("over seeds", RANGE), drawing),
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


def unmeasured_numbers(entries: Sequence[Compared]) -> Table:
    """The published numbers that are not measured yet."""
    unmeasured = [entry for entry in entries if entry.comparison.measured is None]
    return tabulated("Not measured yet", (_SWEEP, _PANEL, _CURVE, _METRIC, _AT, _PUBLISHED, _SOURCE), unmeasured)


class Pair(NamedTuple):
    """A measured number and its published value."""

    measured: float | None
    published: float
    percent: bool
    missed: bool

    def text(self) -> str:
        """Such as "84.4 (88)", a miss in bold type, "- (88)" of what is not measured."""
        if self.percent:
            published = f"{100 * self.published:.3g}"
            measured = "-" if self.measured is None else f"{100 * self.measured:.1f}"
        else:
            published = f"{self.published:.3g}"
            measured = "-" if self.measured is None else f"{self.measured:.3g}"
        return f"**{measured}** ({published})" if self.missed else f"{measured} ({published})"


PAIR = Form(Pair.text, numeric=True, order=lambda pair: pair.published)


def beside_each_other(entries: Sequence[Compared]) -> Table:
    """The published numbers of some panels, one row a metric of a curve, one column a value of the horizontal axis.

    A cell is the measured number, in per cent where the panel draws per cent, with the published one in brackets;
    a miss is set in bold. The last columns say how many training seeds and training steps are behind the row.
    """
    compared = [entry.comparison for entry in entries]
    places = sorted({number.at for number in compared if number.at is not None})
    peak = [None] * any(number.at is None for number in compared)
    rows: dict[tuple[str, str, str], list[Comparison]] = {}
    for number in compared:
        rows.setdefault((number.panel, number.curve, number.metric), []).append(number)
    table = []
    for (panel, curve, metric), numbers in rows.items():
        at = {number.at: Pair(number.measured, number.published, number.percent, number.missed) for number in numbers}
        seeds = sorted({number.seeds for number in numbers if number.seeds})
        steps = sorted({count for number in numbers for count in number.steps})
        cells = [at.get(place) for place in (*places, *peak)]
        table.append((panel, curve, metric, *cells, _span(seeds), _span(steps)))
    heads = [Column(f"{place:g}", PAIR) for place in places] + [Column("", PAIR) for _ in peak]
    fixed = (Column("panel"), Column("curve"), Column("metric"))
    return Table(TITLE, (*fixed, *heads, Column("seeds"), Column("steps")), tuple(table))


def _span(values: Sequence[int]) -> str:
    """Such as "5" or "1 to 5"; empty of nothing."""
    return " to ".join(f"{value:,}" for value in dict.fromkeys((values[0], values[-1]))) if values else ""


def _range(comparison: Comparison, scale: float) -> Range | None:
    values = (comparison.lowest, comparison.highest, comparison.measured, comparison.published)
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if not scale or len(finite) < len(values):
        return None
    return Range(*(min(1.0, max(0.0, value / scale)) for value in finite))


CSV_COLUMNS = (
    "sweep", "panel", "curve", "metric", "at", "published", "measured", "difference", "lowest_seed", "highest_seed",
    "seeds", "steps", "source",
)  # fmt: skip


def write_csv(entries: Iterable[Compared], path: Path) -> None:
    """Write every published number with its measurement, in the store's units; a missing measurement is empty."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(CSV_COLUMNS)
        for sweep, comparison in entries:
            measured = (comparison.measured, comparison.difference, comparison.lowest, comparison.highest)
            named = (sweep, comparison.panel, comparison.curve, comparison.metric, comparison.at, comparison.published)
            steps = ", ".join(map(str, comparison.steps))
            writer.writerow([*named, *measured, comparison.seeds, steps, comparison.source])
