"""Axes without a canvas: where a value stands, and which round values have ticks, by matplotlib's rules."""

import math
from typing import NamedTuple

import numpy as np
from matplotlib.ticker import LogLocator, MaxNLocator


class Scale(NamedTuple):
    """An axis from `low` to `high`, which is larger, drawn from `begin` to `end`."""

    low: float
    high: float
    logarithmic: bool = False
    begin: float = 0.0
    end: float = 1.0

    @classmethod
    def over(cls, values: np.ndarray, logarithmic: bool = False, begin: float = 0.0, end: float = 1.0) -> "Scale":
        """From the lowest to the highest of the values; a single value gets room on both sides."""
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        room = (abs(low) / 2 or 0.5) if low == high else 0.0
        return cls(low - room, high + room, logarithmic, begin, end)

    def place(self, values: np.ndarray) -> np.ndarray:
        """Where the values stand."""
        return self.begin + self._shares(values) * (self.end - self.begin)

    def _shares(self, values: np.ndarray) -> np.ndarray:
        scaled = np.log if self.logarithmic else np.asarray
        low, high = scaled(self.low), scaled(self.high)
        return (scaled(values) - low) / (high - low)

    def ticks(self) -> list[tuple[float, float]]:
        """Place and value of each tick."""
        decades = math.log10(self.high / self.low) if self.logarithmic else 0.0
        if decades >= 1:
            between = (1, 2, 5) if decades < 2 else (1, 3) if decades < 3.5 else (1,)
            values = np.array(LogLocator(subs=between, numticks=8).tick_values(self.low, self.high))
        else:
            values = np.array(MaxNLocator(5).tick_values(self.low, self.high))
        values = values[(values > 0) | (not self.logarithmic)]
        shares = self._shares(values)
        values = values[(shares >= -1e-9) & (shares <= 1 + 1e-9)]
        return list(zip(self.place(values).tolist(), values.tolist(), strict=True))
