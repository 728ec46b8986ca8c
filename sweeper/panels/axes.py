"""Axes of panels, and the types of values that all records of panels share."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from sweeper.learned_algorithms.metrics import Statistic, metric_named
from sweeper.trial.field_types import infinity

Color = Literal["red", "blue", "purple", "green", "teal", "lime", "orange", "black"]
"""Names of a palette's colours; a palette gives each name its shade (`sweeper.analysis.figures.style`)."""


def _not_zero(value: float) -> float:
    if value == 0:
        raise ValueError("nothing can be measured in units of 0")
    return value


def _rising(limits: tuple[Any, Any]) -> tuple[Any, Any]:
    low, high = limits
    if isinstance(low, float) and isinstance(high, float) and not low < high:
        raise ValueError(f"{low} must be below {high}")
    return limits


Value = Annotated[str | bool | int | float, BeforeValidator(infinity)]
Number = Annotated[float, BeforeValidator(infinity)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=500)]
Text = Annotated[str, Field(max_length=500)]
Unit = Annotated[Finite, AfterValidator(_not_zero)]
Limits = Annotated[tuple[Finite | None, Finite | None], Field(strict=False), AfterValidator(_rising)]
ColumnLimits = Annotated[
    tuple[Finite | Name | None, Finite | Name | None], Field(strict=False), AfterValidator(_rising)
]
"""Limits; each end may be a column of the trials, such as `task_horizon`."""


_WORDS: dict[str, tuple[Statistic, ...]] = {
    "worst 5 %": ("worst5",), "worst input": ("worst", "heldout"), "th percentile": ("percentile", "pooled"),
}  # fmt: skip
"""The words of this package for statistics over inputs."""


def label_of(metric: str, percent: bool = False) -> str:
    """The label of an axis that shows a metric, such as "5th percentile of success (%)"."""
    named = metric_named(metric)
    quantity = named._replace(statistic="mean").name.replace("_", " ")
    words = next((words for words, statistics in _WORDS.items() if named.statistic in statistics), "")
    if words == "th percentile":
        text = f"{named.percentile}{words} of {quantity}"
    else:
        text = f"{quantity[0].upper()}{quantity[1:]} of the {words}" if words else metric
    return text + " (%)" * percent


def contradiction(label: str, metrics: Iterable[str | None]) -> str | None:
    """What is wrong with a label that has our words for another statistic than that of any metric it stands for."""
    drawn = {metric: metric_named(metric).statistic for metric in metrics if metric}
    for words, statistics in _WORDS.items():
        if words in label.lower() and drawn and not set(statistics) & set(drawn.values()):
            right = " or ".join(f"'{label_of(metric)}'" for metric in drawn)
            return f"'{label}' is not what {' and '.join(drawn)} is: {right}; without a label the metric gives it"
    return None


class Declaration(BaseModel):
    """A record that says what to draw: frozen, and without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Axis(Declaration):
    """The column on the horizontal axis; in YAML its bare name is enough. Infinity gets a place of its own at the end.

    Trials in which the column is empty stand at `empty`; without `empty` they are left out.
    """

    column: Name
    label: str = ""
    scale: Literal["linear", "log"] = "linear"
    empty: Finite | None = None


class Categories(Declaration):
    """A horizontal axis on which the values of the column stand side by side, in order, at equal distances."""

    column: Name
    label: str = ""


class Points(Declaration):
    """The horizontal axis of points of single trials: a column, or the value of a training curve after so many steps.

    In YAML the bare name of a column will do. `percent` draws a share as per cent.
    """

    column: Name | None = None
    curve: Name | None = None
    step: Annotated[int, Field(ge=1)] | None = None
    label: str = ""
    scale: Literal["linear", "log"] = "linear"
    percent: bool = False

    @model_validator(mode="after")
    def _says_what(self) -> "Points":
        if (self.column is None) == (self.curve is None):
            raise ValueError("column or curve: give exactly one")
        if (self.curve is None) != (self.step is None):
            raise ValueError("step: belongs to a curve, and a curve needs one")
        return self

    def text(self) -> str:
        """Such as "width", or "train_loss at step 4,000"."""
        return self.column or f"{self.curve} at step {self.step:,}"


def _column_shorthand(value: Any) -> Any:
    return {"column": value} if isinstance(value, str) else value


ColumnAxis = Annotated[Axis, BeforeValidator(_column_shorthand)]
PointAxis = Annotated[Points, BeforeValidator(_column_shorthand)]
ColumnCategories = Annotated[Categories, BeforeValidator(_column_shorthand)]


class ValueAxis(Declaration):
    """The vertical axis.

    `percent` draws a share as per cent. `unit` is the number of the store that is drawn as 1: 60 makes minutes of
    seconds, -1 a reward of a cost. `limits` are in the unit that is drawn; the data decide an end that is None.
    """

    label: str = ""
    scale: Literal["linear", "log"] = "linear"
    percent: bool = False
    unit: Unit = 1.0
    limits: Limits | None = None

    @model_validator(mode="after")
    def _consistent(self) -> "ValueAxis":
        if self.percent and self.unit != 1:
            raise ValueError("percent or unit: give at most one")
        if self.scale == "log" and any(limit is not None and limit <= 0 for limit in self.limits or ()):
            raise ValueError("limits: a logarithmic scale cannot show 0 or negative numbers")
        if self.unit < 0 and self.scale == "log":
            raise ValueError("unit: negative numbers have no place on a logarithmic scale")
        return self

    @property
    def factor(self) -> float:
        """The factor from a number of the store to the number drawn."""
        return 100.0 if self.percent else 1 / self.unit
