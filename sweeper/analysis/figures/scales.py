"""Scales of a chart: where a value stands, and at which values the axis has ticks."""

import math
from typing import NamedTuple


class Tick(NamedTuple):
    """A mark of an axis: its place in the picture, and its text."""

    place: float
    text: str


class Scale(NamedTuple):
    """An axis.

    Attributes:
        low: The value at its beginning.
        high: The value at its end, which is larger.
        begin: Place of `low` in the picture.
        end: Place of `high` in the picture.
        logarithmic: Whether equal distances are equal ratios.
    """

    low: float
    high: float
    begin: float
    end: float
    logarithmic: bool

    def place(self, value: float) -> float:
        """Where a value stands."""
        if self.logarithmic:
            share = (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    @property
    def ticks(self) -> list[Tick]:
        """Round values between the ends, two to six of them."""
        values = self._decades() if self.logarithmic else []
        if len(values) < 2:
            values = self._round_values()
        return [Tick(self.place(value), _text(value)) for value in values]

    def _decades(self) -> list[float]:
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        every = max(1, -(-(last - first + 1) // 6))
        decades = [10.0**exponent for exponent in range(first, last + 1, every)]
        if len(decades) != 2:
            return decades
        between = (3 * 10.0**exponent for exponent in range(first - 1, last + 1))
        return sorted([*decades, *(value for value in between if self.low <= value <= self.high)])

    def _round_values(self) -> list[float]:
        rough = (self.high - self.low) / 5
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough * (1 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def linear_scale(low: float, high: float, begin: float, end: float) -> Scale:
    """A scale of equal distances; a single value gets room on both sides."""
    if not high > low:
        room = abs(low) / 2 or 0.5
        low, high = low - room, high + room
    return Scale(low, high, begin, end, False)


def log_scale(low: float, high: float, begin: float, end: float) -> Scale:
    """A scale of equal ratios, for positive values of which the highest is larger than the lowest."""
    return Scale(low, high, begin, end, True)


def _text(value: float) -> str:
    if 1e3 <= abs(value) < 1e7 and value == round(value):
        return f"{value:,.0f}"
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.6g}"
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{float(mantissa):g}e{int(exponent)}"
