"""Published numbers beside measured ones, and how many of them agree."""

from collections.abc import Iterable
from typing import NamedTuple

MISS = 0.05
"""A share that is further than this from its published value is a miss."""


class Comparison(NamedTuple):
    """One published number beside what was measured; `measured` is None where the store has no answer yet.

    `measured` is the mean over training seeds, `lowest` and `highest` are single seeds. Values are in the store's
    units (success between 0 and 1), and `percent` says whether the panel draws them as per cent. `steps` and `seeds`
    describe the trials behind the number.
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
    steps: str
    percent: bool
    source: str

    @property
    def difference(self) -> float | None:
        """The measured less the published value."""
        return None if self.measured is None else self.measured - self.published

    @property
    def missed(self) -> bool:
        """Whether a measured share is far from its published value."""
        # 0.75 - 0.8 is a little more than 0.05 in floating point.
        return self.percent and self.difference is not None and abs(self.difference) > MISS + 1e-9

    @property
    def both_zero(self) -> bool:
        """Whether a share is 0 where it was published as 0: what fails always, as an untrained network also does."""
        return self.percent and self.measured == 0 == self.published


class Agreement(NamedTuple):
    """How many measured shares are near their published values, those that are 0 in both counted apart."""

    near: int
    compared: int
    zeros: int

    def sentence(self) -> str:
        """The counts in words, without a full stop."""
        zeros = f"; {self.zeros:,} more are 0 in both" if self.zeros else ""
        return f"{self.near:,} of {self.compared:,} percentages lie within {100 * MISS:g} points{zeros}"


def agreement(compared: Iterable[Comparison]) -> Agreement:
    """The shares among published numbers that are measured, counted."""
    shares = [comparison for comparison in compared if comparison.percent and comparison.measured is not None]
    telling = [comparison for comparison in shares if not comparison.both_zero]
    near = sum(not comparison.missed for comparison in telling)
    return Agreement(near, len(telling), len(shares) - len(telling))
