"""Published numbers beside measured ones: the records, how many agree, and the tables and the CSV file of them.

Terminal and Markdown show one table of all published numbers. The page shows two tables with the same columns, measured
numbers and numbers not measured yet, with the sources and a drawing of the range over training seeds.
"""

import collections
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from sweeper.tables import MISSING, Amount, table

MISS = 0.05  # a share that is further than this from its published value is a miss

RELATIVE_MISS, READING_ERROR = 0.1, 0.01
"""A number of another unit, such as a loss or a number of steps, is a miss if it is further from its published value
than this part of that value, and further than this part of the largest published number of its panel, which is how
exactly a figure can be read."""


class Comparison(NamedTuple):
    """One published number beside the measured one, in the store's units (a share between 0 and 1)."""

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


def agreement(compared: Iterable[Comparison]) -> list[tuple[str, str]]:
    """How many measured numbers are near their published values: numbers, each with what it counts."""
    near: dict[str, list[bool]] = collections.defaultdict(list)
    for each in compared:
        # A pooled percentile stands beside the mean of percentiles of the same published number.
        if each.measured is not None and each.tolerance is not None and not each.metric.endswith("_pooled"):
            # An untrained network, too, has 0 where the published share is 0.
            share = "zeros" if each.measured == 0 == each.published else "shares"
            near[share if each.percent else "others"].append(not each.missed)
    kinds = {"shares": f"percentages within {100 * MISS:g} points", "others": "other numbers near"}
    facts = [(f"{sum(near[kind]):,} of {len(near[kind]):,}", what) for kind, what in kinds.items() if near[kind]]
    return facts + [(f"{len(near['zeros']):,}", "more percentages 0 in both")] * bool(near["zeros"])


TITLE = "Measured against published"
UNMEASURED = "Not measured yet"


def _amount(value: float | None, compared: Comparison) -> Amount:
    """Such as "75.0 %" or "0.0421"."""
    if value is None:
        return MISSING
    return Amount(value, f"{100 * value:.1f} %" if compared.percent else f"{value:.4f}")


def _difference(compared: Comparison) -> Amount | None:
    """Such as "-5.0 points" or "+0.0012"; no difference has no sign."""
    if compared.difference is None:
        return None
    digits, amount = (1, 100 * compared.difference) if compared.percent else (4, compared.difference)
    sign = "+" if round(amount, digits) else ""
    # Adding 0 turns -0.0, which a small negative number is rounded to, into 0.0.
    text = f"{round(amount, digits) + 0.0:{sign}.{digits}f}{' points' if compared.percent else ''}"
    return Amount(compared.difference, text, compared.missed)


def _range(compared: Comparison, largest: float) -> tuple[float, ...] | None:
    """Lowest, highest, measured and published, as shares of the width of a drawing."""
    scale = 1.0 if compared.percent else largest
    values = (compared.lowest, compared.highest, compared.measured, compared.published)
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if not scale or len(finite) < len(values):
        return None
    return tuple(min(1.0, max(0.0, value / scale)) for value in finite)


def _numbers(every: Sequence[Comparison], heads: Sequence[str], title: str, note: str = "") -> pd.DataFrame:
    """Published numbers with these columns of all that a table may show of them."""
    # Losses have no natural scale: all losses of a panel are drawn on the scale of the largest.
    largest: dict[tuple[str, str], float] = collections.defaultdict(float)
    for compared in every:
        values = (compared.published, compared.measured, compared.highest)
        finite = [abs(value) for value in values if value is not None and math.isfinite(value)]
        largest[compared.sweep, compared.panel] = max(largest[compared.sweep, compared.panel], *finite)
    rows = [
        {name: getattr(compared, name) for name in ("sweep", "panel", "series", "metric", "at", "seeds", "source")}
        | {"published": _amount(compared.published, compared), "measured": _amount(compared.measured, compared)}
        | {"difference": _difference(compared)}
        | {"over seeds": _range(compared, largest[compared.sweep, compared.panel])}
        | {"steps": Amount(min(compared.steps, default=math.nan), "; ".join(map("{:,}".format, compared.steps)))}
        for compared in every
    ]
    frame = table(rows, title, note, {"metric": "code", "over seeds": "range", "seeds": "count"})
    return frame[list(heads)] if rows else table([])


_ABOUT = ("panel", "series", "metric", "at", "published")


def every_number(every: Sequence[Comparison]) -> pd.DataFrame:
    """All published numbers, with a dash for numbers not measured yet."""
    note = (
        "Measured: mean over the training seeds, '-' where there is none yet (`_pooled`: a percentile over the inputs "
        "of all training seeds together, beside the mean of percentiles); at: the value on the horizontal axis. "
        f"Near: {'; '.join(map(' '.join, agreement(every))) or 'none'}."
    )
    return _numbers(every, ("sweep", *_ABOUT, "measured", "difference", "seeds", "steps"), TITLE, note)


def measured_numbers(every: Sequence[Comparison]) -> pd.DataFrame:
    """The published numbers that are measured, with the range over training seeds and the source."""
    note = (
        f"Measured is the mean over training seeds. A miss is set in bold: a difference of more than {100 * MISS:g} "
        f"points; of a loss or a number of steps more than {100 * RELATIVE_MISS:g} % of the published value, and more "
        f"than {100 * READING_ERROR:g} % of the largest published number of its panel. "
        "The drawing puts the measured mean (dot) and the range over single seeds (line) beside the published value "
        "(upright stroke): per cent from 0 to 100, other metrics from 0 to the largest of their panel."
    )
    several = len({compared.sweep for compared in every}) > 1
    heads = (*["sweep"] * several, *_ABOUT, "measured", "difference", "over seeds", "seeds", "steps", "source")
    return _numbers([compared for compared in every if compared.measured is not None], heads, TITLE, note)


def unmeasured_numbers(every: Sequence[Comparison]) -> pd.DataFrame:
    heads = ("sweep", *_ABOUT, "source")
    return _numbers([compared for compared in every if compared.measured is None], heads, UNMEASURED)


def write_numbers(every: Iterable[Comparison], path: Path) -> None:
    """Write every published number with its measurement, in the store's units; a missing measurement is empty."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            name: getattr(compared, name)
            for name in ("sweep", "panel", "series", "metric", "at", "published", "measured")
        }
        | {"difference": compared.difference, "lowest_seed": compared.lowest, "highest_seed": compared.highest}
        | {"seeds": compared.seeds, "steps": ", ".join(map(str, compared.steps)), "source": compared.source}
        for compared in every
    ]
    pd.DataFrame(rows, dtype=object).to_csv(path, index=False)
