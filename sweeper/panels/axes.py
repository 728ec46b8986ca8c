"""Axes of panels, and the types of values that all records of panels share."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

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


class Declaration(BaseModel):
    """A record that says what to draw: frozen, and without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Categories(Declaration):
    """The column on a horizontal axis, whose values stand side by side; in YAML its bare name is enough."""

    column: Name
    label: str = ""

    @model_validator(mode="before")
    @classmethod
    def _written_out(cls, value: Any) -> Any:
        return {"column": value} if isinstance(value, str) else value


class Axis(Categories):
    """The column on a horizontal axis of numbers. Infinity gets a place of its own at the end.

    Trials in which the column is empty stand at `empty`; without `empty` they are left out.
    """

    scale: Literal["linear", "log"] = "linear"
    empty: Finite | None = None


class Points(Categories):
    """The column on a horizontal axis of points of single trials; `percent` draws a share as per cent."""

    scale: Literal["linear", "log"] = "linear"
    percent: bool = False


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
