"""Metrics: what is measured of every input, and by which statistic over the inputs.

A metric is a record. The name of its column is made from the record and read back into it here, and nowhere else:

    loss  loss_p95  accuracy_p5  accuracy_p5_pooled  accuracy_worst  accuracy_worst_heldout  accuracy_worst_staged
    accuracy_30_se

A kind of trial may know more of its metrics than their names tell (`sweeper.training.kind.Kind.metric`).
"""

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np

Statistic = Literal["mean", "percentile", "pooled", "worst", "heldout", "staged", "worst5", "error"]

_SUFFIXES: dict[str, tuple[Statistic, bool | None]] = {
    "p5": ("percentile", True), "p95": ("percentile", False), "p5_pooled": ("pooled", True),
    "p95_pooled": ("pooled", False), "worst": ("worst", None), "worst_heldout": ("heldout", None),
    "worst_staged": ("staged", None), "worst5": ("worst5", None), "se": ("error", None),
}  # fmt: skip
"""The statistic of a name with this ending, and whether high values are the good ones, if the ending tells."""

WORDS: dict[Statistic, str] = {
    "percentile": "th percentile", "pooled": "th percentile", "worst": "worst input", "heldout": "worst input",
    "staged": "worst input", "worst5": "worst 5 %",
}  # fmt: skip
"""The words of this package for statistics over inputs."""

_NAME = re.compile(rf"(.+?)(?:_({'|'.join(_SUFFIXES)}))?")
_NUMBERED = re.compile(r"(.+)_(\d+)")


class Metric(NamedTuple):
    """A quantity that every input has, and a statistic over the inputs."""

    quantity: str  # such as `loss` or `accuracy`
    # The mean; the percentile of the bad tail, the 5th or the 95th, of one training or of the inputs of all training
    # seeds of its setting together; the worst input; the input that is worst by one half of the evaluation, by the
    # other half; the worst input by a search in stages, each with fresh samples; the mean over the worst 5 % of the
    # inputs; or the standard error of the mean
    statistic: Statistic = "mean"
    number: int | None = None  # for how many of something the quantity is measured, such as 30 of `accuracy_30`
    high_is_good: bool = True  # whether high values of the quantity are the good ones

    @property
    def name(self) -> str:
        """The name of the metric's column."""
        wanted = [(self.statistic, None), (self.statistic, self.high_is_good)]
        suffix = next((text for text, meaning in _SUFFIXES.items() if meaning in wanted), "")
        number = "" if self.number is None else str(self.number)
        return "_".join(filter(None, (self.quantity, number, suffix)))

    @property
    def percentile(self) -> int:
        """Which percentile is the bad tail."""
        return 5 if self.high_is_good else 95

    @property
    def tail(self) -> "Metric":
        """The bad tail of the same quantity."""
        return self._replace(statistic="percentile")

    @property
    def mode(self) -> Literal["min", "max"]:
        """Whether the metric is to become small or large."""
        return "max" if self.high_is_good and self.statistic != "error" else "min"

    @property
    def jumps(self) -> bool:
        """Whether the metric is 0 or 1 for a model that always gives the same answer."""
        return self.statistic in ("percentile", "worst", "heldout", "staged") and self.high_is_good

    def has_no_mean(self, lowest: float, highest: float) -> bool:
        """Whether the mean of values from `lowest` to `highest` describes no training: one has 0 and another 1."""
        return self.jumps and (lowest, highest) == (0, 1)

    def label(self, flipped: bool = False) -> str:
        """In words, such as "5th percentile"; `flipped` where a panel shows high values as low ones."""
        words = self.name if self.statistic in ("heldout", "staged") else WORDS.get(self.statistic, self.name)
        if self.statistic not in ("percentile", "pooled"):
            return words
        of_all = ", of all seeds together" * (self.statistic == "pooled")
        return f"{100 - self.percentile if flipped else self.percentile}{words}{of_all}"

    def axis_label(self, percent: bool = False) -> str:
        """The label of an axis that shows the metric, such as "5th percentile of accuracy (%)"."""
        quantity = self._replace(statistic="mean").name.replace("_", " ")
        text = self.name
        if self.statistic in ("percentile", "pooled"):
            text = f"{self.percentile}{WORDS[self.statistic]} of {quantity}"
        elif words := WORDS.get(self.statistic):
            text = f"{quantity[0].upper()}{quantity[1:]} of the {words}"
        return text + " (%)" * percent

    def over_inputs(self, values: np.ndarray) -> float:
        """The statistic of float64 values, one per input (of all training seeds, if `pooled`).

        Percentiles interpolate linearly.
        """
        match self.statistic:
            case "mean":
                return float(values.mean())
            case "percentile" | "pooled":
                return float(np.percentile(values, self.percentile))
            case "worst":
                return float(values.min() if self.high_is_good else values.max())
            case "worst5":
                return float(np.sort(values)[: max(1, round(0.05 * len(values)))].mean())
            case "heldout" | "staged" | "error":
                raise ValueError(f"{self.name} is not made from the values of the inputs alone")

    def held_out(self, halves: np.ndarray) -> float:
        """The value of the worst input, chosen by one half of an evaluation and judged by the other, `[half, input]`.

        The worst of many noisy values looks worse than it is. Judged by other samples, the chosen input has no such
        bias; its true value is that of the worst input or a better one. Both halves choose, inputs that are equally bad
        share the judgement, and the result is the mean.
        """
        judged = []
        for chosen, judge in (halves, halves[::-1]):
            worst = chosen.min() if self.high_is_good else chosen.max()
            judged.append(judge[chosen == worst].mean())
        return float(np.mean(judged))


ROUNDING = 8 * float(np.finfo(np.float32).eps)  # relative error of the sums of a trial, which are in float32


def equal_but_rounding(one: float, other: float) -> bool:
    """Whether two values of a metric differ by rounding alone, so that their difference means nothing."""
    return abs(one - other) <= ROUNDING * max(abs(one), abs(other))


def metric_named(name: str, own: Mapping[str, Metric] = {}) -> Metric:
    """The metric of a column, also without a number; a name without a known ending is a quantity itself.

    `own` are quantities that are known better than by their names, by name.
    """
    match = _NAME.fullmatch(name)
    assert match is not None, "a name has a character"
    quantity, suffix = match.groups()
    metric = own.get(quantity)
    if metric is None:
        numbered = _NUMBERED.fullmatch(quantity)
        metric = Metric(numbered[1], number=int(numbered[2])) if numbered else Metric(quantity)
    statistic, high_is_good = _SUFFIXES.get(suffix or "", ("mean", None))
    return metric._replace(
        statistic=statistic, high_is_good=metric.high_is_good if high_is_good is None else high_is_good
    )
