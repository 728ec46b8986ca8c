"""A hole is a value of a trial that is left open, and a class says what one kind of hole is.

A hole is written as a mapping with the key of its kind, such as `{log_uniform: [1e-4, 1e-1]}`. The class of the kind is
a pydantic record of this mapping, so that pydantic checks what is written. Its methods say what a grid takes, what a
search draws and what Optuna is asked. A new kind is a class, a name in `KINDS`, and its key in `RESERVED`, by which
trees are merged.

A choice may hold whole records, and these may have holes of their own. So the size of a grid is a sum over the entries
of a choice and a product over the keys of a mapping. A hole is named by its path in the document, which is unique. The
formulas of a tree (`formulas`) are no holes: they have a value as soon as the tree is filled.

Invariants:
    - Each value of a filled tree has the path of its hole or of its entry.
    - The order of keys changes the order of a grid and nothing else.
    - `probes` contains every value of every axis, and has as many trees as the axes have values together; the grid has
      as many as the product.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from sweeper.space import formulas, validation_messages
from sweeper.space.problems import Problem, Refused, shown
from sweeper.space.scales import Scale
from sweeper.space.yaml_tree import OPENING, RESERVED, Alternatives, Node, plain, signature
from sweeper.trial.entry_names import is_number
from sweeper.trial.field_types import Count, Positive, infinity

if TYPE_CHECKING:
    from optuna.trial import Trial as OptunaTrial

MAX_SETTINGS = 100_000
SIGNIFICANT_DIGITS = 6

MAX_VALUES = 50_000
"""Most values of a `logspace`, which are made whenever one of them is taken."""


class Hole(BaseModel):
    """A value that is left open: one of its options, unless the kind says otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    DRAWN: ClassVar[bool] = True
    """Whether a search that draws settings draws this hole, and does not take it in full."""

    _content: Node = PrivateAttr()  # what stands under the key of the hole

    def model_post_init(self, context: Any) -> None:
        self._content = context

    @classmethod
    def checked(cls, content: Node) -> Any:
        """What pydantic checks as the content of the hole."""
        return plain(content)

    @property
    def options(self) -> Sequence[Node]:
        """Every tree that may stand in place of the hole, for a grid; they may have holes. Empty if there is no end."""
        return ()

    @property
    def probed(self) -> Sequence[Node]:
        """The trees that are checked before anything runs: every option, or the ends between which all others are."""
        return self.options

    @property
    def scale(self) -> Scale | None:
        """Where its numbers lie; None of a list of values."""
        return None

    def grid_size(self, draws: bool) -> int:
        """Number of settings of a grid; if a search draws, the most trees that one value in a setting stands for."""
        return 1 if draws and self.DRAWN else len(self.options)

    def drawn(self, u: float) -> Any:
        """What a setting holds for the hole, by a uniform number in [0, 1): the index of an option, or a number."""
        return int(u * len(self.options))

    def suggested(self, trial: "OptunaTrial", path: str) -> Any:
        """What a setting holds for the hole, by Optuna, which knows it as the parameter `path`."""
        return trial.suggest_int(path, 0, len(self.options) - 1)

    def held(self, value: Node) -> Any:
        """What a setting holds if this value is to stand in place of the hole; a `ValueError` if it cannot."""
        wanted = signature(value)
        for number, option in enumerate(self.options):
            if signature(option) == wanted:
                return number
        ends = f"{shown(self.options[0].value)} to {shown(self.options[-1].value)}"
        raise ValueError(f"is none of the {len(self.options):,} values from {ends}, got {shown(value.value)}")

    def parameter(self, held: Any) -> Any:
        """The value of Optuna's parameter for what a setting holds."""
        return held

    def filled(self, node: Node, setting: Mapping[str, Any]) -> Node:
        """The tree in place of the hole, which stands at `node` and is drawn."""
        return filled(self.options[setting[node.path]], setting)


class _Numbered(Sequence[Node]):
    """So many nodes, which are made when they are asked for."""

    def __init__(self, count: int, made: Callable[[int], Node]):
        self._numbers, self._made = range(count), made

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, number: Any) -> Any:
        return self._made(self._numbers[number])


def _require(holds: bool, message: str, got: Any = None) -> None:
    """Refuse what a hole holds; the message may begin with the place of a number in its list, such as `[0]: `."""
    if not holds:
        raise ValueError(message if got is None else f"{message}, got {shown(got)}")


def _rounded(value: Any) -> float:
    """Few digits are the same on every machine, although logarithms round differently, and legible in every table."""
    return float(f"{float(value):.{SIGNIFICANT_DIGITS}g}")


# Lists


class Choice(Hole, Alternatives):
    """One of some entries, which are equally likely. They may be whole records, and these may have holes.

    Optuna takes the entries for unlike each other, and numbers that rise or fall for points on a scale.
    """

    entries: Annotated[list[Node], Field(min_length=1)] = Field(alias="choice")

    @classmethod
    def among(cls, entries: Sequence[Node]) -> Self:
        """The choice among trees that no document lists."""
        return cls.model_construct(entries=list(entries))

    @classmethod
    def checked(cls, content: Node) -> Any:
        return content.value

    @field_validator("entries")
    @classmethod
    def _different(cls, entries: list[Node]) -> list[Node]:
        seen: dict[Any, Node] = {}
        for number, entry in enumerate(entries):
            earlier = seen.setdefault(signature(entry), entry)
            _require(earlier is entry, f"[{number}]: repeats {earlier.path} ({shown(entry.value)})")
        return entries

    @property
    def options(self) -> Sequence[Node]:
        return self.entries

    def with_entries(self, entries: list[Node]) -> Self:
        return self.model_copy(update={"entries": entries})

    def grid_size(self, draws: bool) -> int:
        sizes = [grid_size(option, draws) for option in self.entries]
        return max(sizes) if draws else sum(sizes)

    def suggested(self, trial: "OptunaTrial", path: str) -> int:
        values = [infinity(entry.value) for entry in self.entries]
        if len(values) > 2 and all(map(is_number, values)) and values in (sorted(values), sorted(values, reverse=True)):
            return super().suggested(trial, path)
        return trial.suggest_categorical(path, range(len(values)))


class Seeds(Hole):
    """So many training seeds, which every setting takes in full. If the largest is legal, all smaller ones are."""

    DRAWN = False

    number: Annotated[int, Field(ge=1, le=MAX_SETTINGS)] = Field(alias="seeds")

    @property
    def options(self) -> Sequence[Node]:
        return _Numbered(self.number, lambda seed: replace(self._content, value=seed))

    @property
    def probed(self) -> Sequence[Node]:
        return [self.options[-1]]


class Logspace(Hole):
    """Numbers at equal distances in the logarithm: first, last and number; the ends are values, not exponents.

    They are integers if both ends and all numbers are whole.
    """

    spacing: Annotated[tuple[Positive, Positive, Annotated[int, Field(ge=2, le=MAX_VALUES)]], Field(strict=False)] = (
        Field(alias="logspace")
    )

    @property
    def options(self) -> Sequence[Node]:
        first, last, count = self.spacing
        values = [first, *map(_rounded, np.geomspace(first, last, count)[1:-1]), last]
        whole = all(isinstance(end.value, int) for end in self._content.value) and all(map(float.is_integer, values))
        return [replace(self._content, value=int(value) if whole else value) for value in values]

    @property
    def scale(self) -> Scale:
        values = [option.value for option in self.options]
        return Scale(min(values), max(values), log=True, whole=all(isinstance(value, int) for value in values))


# Ranges

TWO = Field(min_length=2, max_length=2)
WholeEnd = Annotated[int, Field(ge=-(2**53), le=2**53)]


class _Range(Hole):
    """A number between two ends, which a setting holds."""

    LOGARITHMIC: ClassVar[bool] = False
    """Whether it is uniform on a logarithmic scale."""

    ends: Annotated[list[float], TWO]

    @field_validator("ends")
    @classmethod
    def _rising(cls, ends: list[float]) -> list[float]:
        _require(ends[0] != ends[1], f"both ends are {shown(ends[0])}; write the value itself")
        _require(ends[0] < ends[1], f"the range is upside down: {shown(ends[0])} is above {shown(ends[1])}")
        return ends

    @property
    def probed(self) -> Sequence[Node]:
        return [replace(end, value=value) for end, value in zip(self._content.value, self.ends, strict=True)]

    @property
    def scale(self) -> Scale:
        return Scale(*self.ends, log=self.LOGARITHMIC)

    def suggested(self, trial: "OptunaTrial", path: str) -> float:
        return trial.suggest_float(path, *self.ends, log=self.LOGARITHMIC)

    def held(self, value: Node) -> Any:
        low, high = self.ends
        within = is_number(value.value) and low <= value.value <= high
        _require(within, f"must be between {shown(low)} and {shown(high)}", value.value)
        return value.value

    def filled(self, node: Node, setting: Mapping[str, Any]) -> Node:
        low, high = self.ends
        return replace(node, value=min(max(_rounded(setting[node.path]), low), high))


class LogUniform(_Range):
    """A real number, uniform in its logarithm."""

    LOGARITHMIC = True

    ends: Annotated[list[Positive], TWO] = Field(alias="log_uniform")

    def drawn(self, u: float) -> float:
        low, high = map(math.log, self.ends)
        return math.exp(low * (1 - u) + high * u)


class Uniform(_Range):
    """A real number; with a step one of the decimal sums of the lower end and so many steps, of which a setting holds
    the number."""

    ends: Annotated[list[float], TWO] = Field(alias="uniform")
    step: Positive | None = None

    @field_validator("step")
    @classmethod
    def _fits(cls, step: float | None, info: ValidationInfo) -> float | None:
        if step is not None and (ends := info.data.get("ends")):
            _require(step <= ends[1] - ends[0], f"{shown(step)} is longer than the range")
            _require(ends[1] - ends[0] <= MAX_SETTINGS * step, f"{shown(step)} makes more than {MAX_SETTINGS:,} values")
        return step

    @property
    def options(self) -> Sequence[Node]:
        if self.step is None:
            return ()
        (low, high), step = map(Fraction, map(repr, self.ends)), Fraction(repr(self.step))
        last = int((high - low) / step)

        def after(steps: int) -> Node:
            end = self._content.value[steps == last]
            return replace(end, value=type(self.ends[0])(low + steps * step))

        return _Numbered(last + 1, after)

    @property
    def probed(self) -> Sequence[Node]:
        return [self.options[0], self.options[-1]] if self.options else super().probed

    @property
    def scale(self) -> Scale:
        return super().scale._replace(high=self.options[-1].value, step=self.step) if self.step else super().scale

    def drawn(self, u: float) -> Any:
        return super().drawn(u) if self.options else self._between(u)

    def _between(self, u: float) -> Any:
        """What is drawn without a step."""
        low, high = self.ends
        return low * (1 - u) + high * u

    def suggested(self, trial: "OptunaTrial", path: str) -> Any:
        if self.step is None:
            return self._suggested(trial, path, self.ends[1])
        value = self._suggested(trial, path, self.options[-1].value)
        return round((value - self.ends[0]) / self.step)

    def _suggested(self, trial: "OptunaTrial", path: str, last: Any) -> Any:
        return trial.suggest_float(path, self.ends[0], last, step=self.step)

    def held(self, value: Node) -> Any:
        return Hole.held(self, value) if self.options else super().held(value)

    def parameter(self, held: Any) -> Any:
        return self.options[held].value if self.options else held

    def filled(self, node: Node, setting: Mapping[str, Any]) -> Node:
        return self.options[setting[node.path]] if self.options else super().filled(node, setting)


class Int(Uniform):
    """An integer, perhaps with a step, or uniform in its logarithm."""

    ends: Annotated[list[WholeEnd], TWO] = Field(alias="int")
    step: Count | None = None
    log: bool = False

    @model_validator(mode="after")
    def _on_one_scale(self) -> Self:
        if self.log:
            _require(self.step is None, "log: integers have a step or a logarithmic scale; for both write logspace")
            _require(self.ends[0] > 0, "int[0]: must be above 0 on a logarithmic scale", self.ends[0])
        return self

    @property
    def scale(self) -> Scale:
        return super().scale._replace(log=self.log, whole=True)

    def _between(self, u: float) -> int:
        low, high = self.ends
        if not self.log:
            return low + int(u * (high - low + 1))
        # Each integer has the share of the logarithm from half below it to half above it, as in Optuna.
        value = math.exp(math.log(low - 0.5) * (1 - u) + math.log(high + 0.5) * u)
        return min(max(round(value), low), high)

    def _suggested(self, trial: "OptunaTrial", path: str, last: Any) -> int:
        return trial.suggest_int(path, self.ends[0], last, log=self.log, step=self.step or 1)

    def filled(self, node: Node, setting: Mapping[str, Any]) -> Node:
        return super().filled(node, setting) if self.options else replace(node, value=setting[node.path])

    def held(self, value: Node) -> Any:
        held = super().held(value)
        _require(isinstance(held, int), "must be an integer", value.value)
        return held


KINDS: Mapping[str, type[Hole]] = {
    field.alias: kind
    for kind in (Choice, Uniform, LogUniform, Int, Logspace, Seeds)
    for field in kind.model_fields.values()
    if field.alias is not None
}
"""The kinds of hole, by the key that opens one."""


class _Computed(BaseModel, extra="forbid"):
    """A value that follows from others, and stands where a hole may stand."""

    formula: Annotated[str, AfterValidator(formulas.Formula)]


# Trees


def with_holes(section: Node, problems: list[Problem]) -> Node:
    """A trial, or the variables of a space, with a `Hole` or a `Formula` for every mapping that opens one.

    `problems` gets the mappings that cannot be opened.
    """
    entries = section.value.items()
    return section.with_children([_opened(entry, OPENING.get(key, RESERVED), problems) for key, entry in entries])


def _opened(node: Node, kinds: Sequence[str], problems: list[Problem]) -> Node:
    """The node with holes; `kinds` may open one at its top, those of `RESERVED` anywhere."""
    key = next((key for key in node.value if key in kinds), None) if isinstance(node.value, dict) else None
    if key is None:
        return node.with_children([_opened(child, RESERVED, problems) for child in node.children])
    content, kind = node.value[key], KINDS.get(key)
    try:
        if kind is None:
            return replace(content, value=_Computed.model_validate(plain(node)).formula)
        written = {name: plain(entry) for name, entry in node.value.items()} | {key: kind.checked(content)}
        hole = replace(node, value=kind.model_validate(written, context=content))
        return hole.with_children([_opened(option, kinds, problems) for option in hole.children])
    except Refused as refused:
        problems.append(refused.problem)
    except ValidationError as error:
        problems += validation_messages.problems_of(error, node, kind or _Computed)
    return node


def holes_in(node: Node, chosen: bool = True) -> Iterator[Node]:
    """Every hole; `chosen` says whether those inside the entries of choices are included."""
    if isinstance(node.value, Hole):
        yield node
    if chosen or not isinstance(node.value, Choice):
        for child in node.children:
            yield from holes_in(child, chosen)


def grid_size(node: Node, draws: bool = False) -> int:
    """Number of settings of the grid; of a search that draws, the most trees that one of its settings stands for."""
    if isinstance(node.value, Hole):
        return node.value.grid_size(draws)
    return math.prod(grid_size(child, draws) for child in node.children)


def probes(node: Node) -> Iterator[Node]:
    """Filled trees that together hold every constant and every value that is probed of a hole.

    There are as many trees as the axes have values together.
    """
    if isinstance(node.value, Hole):
        yield from itertools.chain.from_iterable(map(probes, node.value.probed))
        return
    first = [next(probes(child)) for child in node.children]
    yield node.with_children(first)
    for i, child in enumerate(node.children):
        for probe in itertools.islice(probes(child), 1, None):
            yield node.with_children([*first[:i], probe, *first[i + 1 :]])


def grid(node: Node) -> Iterator[Node]:
    """Every filled tree, the last axis of the document fastest."""
    if isinstance(node.value, Hole):
        return itertools.chain.from_iterable(map(grid, node.value.options))
    return map(node.with_children, itertools.product(*map(grid, node.children)))


def filled(node: Node, setting: Mapping[str, Any]) -> Node:
    """The tree with every hole of the setting filled, by the index of an option or by a value."""
    if isinstance(node.value, Hole) and node.path in setting:
        return node.value.filled(node, setting)
    return node.with_children([filled(child, setting) for child in node.children])
