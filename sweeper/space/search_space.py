"""A search space is a trial with holes: YAML in, identified trials out, and one readable message for every mistake.

The document is read into a tree (`document`), each of its variants is merged over its trial, and holes are found
(`holes`). A grid is the product of all choices, a random setting fills every hole from a counter, an Optuna setting
from what the study suggests; pydantic then validates the filled trial, and what it says is told with the place in the
author's file (`validation_messages`).

Invariants:
    - `read` returns a space of which every constant, every entry of every choice and both ends of every range fit
      their fields, or raises `SearchSpaceError`; it raises nothing else, whatever the file holds.
    - The set of trials does not depend on the order of keys. A random setting depends on the search seed, its own index
      and the paths of the holes alone, so that more settings extend a search and leave the first ones as they are.
"""

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sweeper.messages import counted, did_you_mean, nearest_name
from sweeper.space import holes, validation_messages
from sweeper.space.holes import MAX_SETTINGS, Hole
from sweeper.space.panels import Panel, Panels
from sweeper.space.yaml_tree import (
    RESERVED,
    Node,
    Problem,
    Refused,
    SearchSpaceError,
    descendant,
    document_tree,
    joined,
    merged,
    overridden,
    plain,
    shown,
    signature,
)
from sweeper.training import evaluation
from sweeper.trial.record import Spec
from sweeper.trial.trial_spec import Count, TrialSpec, trial_id

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

MAX_BYTES = 2**20
MAX_FAILURES = 1000


class Resources(Spec):
    """How a sweep is executed; nothing of it is part of a trial's identity.

    Attributes:
        lanes: How many trials one pack holds at most, of whatever shares the structure; None makes a pack of the
            training seeds of one combination.
        cpus: Cores of a pack.
        gpus: GPUs of a pack; a share below 1 puts several packs on one GPU.
        population_workers: Processes of one core each that evaluate the population of a pack that PGPE trains. The
            pack's own process works while they wait, so that its `cpus` are not reserved beside them. 0: it does all.
        checkpoint_seconds: Time between two checkpoints of a pack.
        outcomes: Whether the results of every single evaluation input are kept.
    """

    lanes: Count | None = None
    cpus: Count = 1
    gpus: Annotated[float, Field(ge=0)] = 0.0
    population_workers: Annotated[int, Field(ge=0)] = 0
    checkpoint_seconds: Annotated[float, Field(gt=0)] = 60.0
    outcomes: bool = True

    def bundles(self) -> list[dict[str, float]]:
        """What a pack reserves: of its own process, which may be nothing, and of each population worker."""
        own = {"CPU": float(self.cpus)} if self.population_workers == 0 else {}
        return [own | ({"GPU": self.gpus} if self.gpus else {}), *[{"CPU": 1.0}] * self.population_workers]

    @model_validator(mode="after")
    def _gpus_are_whole(self) -> "Resources":
        if self.gpus > 1 and not self.gpus.is_integer():
            raise ValueError(f"gpus: more than one GPU must be a whole number, got {self.gpus:g}")
        return self


class Asha(Spec):
    """Early stopping by asynchronous successive halving (Li et al., arXiv 1810.05934) of the training loss.

    Attributes:
        metric: What packs are compared by while they train.
        grace_steps: No trial is stopped before this step.
        reduction_factor: One of so many trials goes on at each rung; rungs are so many times further apart.
    """

    metric: Literal["train_loss"] = "train_loss"
    grace_steps: Count
    reduction_factor: Annotated[int, Field(ge=2)] = 4


class Search(Spec):
    """How settings are taken from the space.

    Attributes:
        method: `grid` takes all, `random` draws independently, `optuna` asks a study.
        trials: Number of settings to draw, each with all of its training seeds; for random and optuna.
        seed: Seed of the draws.
        metric: What a study improves, averaged over training seeds; given together with `mode`.
        mode: Whether the metric is to become small or large.
        early_stopping: Stops trials that fall behind.
    """

    method: Literal["grid", "random", "optuna"] = "grid"
    trials: Annotated[int, Field(ge=1, le=MAX_SETTINGS)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    metric: str = "success_p5"
    mode: Literal["min", "max"] = "max"
    early_stopping: Asha | None = None

    @model_validator(mode="after")
    def _consistent(self) -> "Search":
        if self.method == "grid" and self.trials is not None:
            raise ValueError("trials: a grid is run whole; the number of settings is for random and optuna")
        if self.method != "grid" and self.trials is None:
            raise ValueError(f"method: '{self.method}' needs search.trials, the number of settings to draw")
        if "metric" in self.model_fields_set and "mode" not in self.model_fields_set:
            raise ValueError(f"metric: say with search.mode whether '{self.metric}' is to be min or max")
        return self


class _Document(BaseModel):
    """The top level of a search space."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]
    description: str = ""
    trial: dict[Any, Any]
    variants: Annotated[list[dict[Any, Any]], Field(min_length=1)] = [{}]
    search: Search = Search()
    resources: Resources = Resources()
    panels: Panels = ()


ROOTS: validation_messages.Roots = {"trial": TrialSpec, "search": Search, "resources": Resources}


@dataclass(frozen=True)
class Expansion:
    """The trials of a space.

    Attributes:
        trials: Each once, in the order of the document.
        trial_ids: Their ids, in the same order.
        settings: Number of settings before equal ones were merged.
    """

    trials: tuple[TrialSpec, ...]
    trial_ids: tuple[str, ...]
    settings: int

    @property
    def merged(self) -> int:
        """How many settings are equal to an earlier one, because they differ in nothing that the baseline uses."""
        return self.settings - len(self.trials)

    @property
    def summary(self) -> str:
        """Such as "40 settings, 18 equal to others, 22 trials"."""
        if not self.merged:
            return counted(self.settings, "trial")
        settings, trials = counted(self.settings, "setting"), counted(len(self.trials), "trial")
        return f"{settings}, {self.merged:,} equal to others, {trials}"


@dataclass(frozen=True)
class SweepSpec:
    """A search space that has been read.

    Attributes:
        name: The name given, or the file's.
        description: For people.
        panels: Figures to draw from its results.
        search: How settings are taken.
        resources: How packs are executed.
        path: The file.
        text: Its content.
        overrides: What `--set` changed in it.
        variants: For every variant the whole trial with its holes.
    """

    name: str
    description: str
    panels: tuple[Panel, ...]
    search: Search
    resources: Resources
    path: Path
    text: str = field(repr=False)
    overrides: tuple[str, ...]
    variants: tuple[Node, ...] = field(repr=False)

    def expand(self) -> Expansion:
        """All trials of a grid or random search.

        Raises:
            SearchSpaceError: values that are legal one by one exclude each other.
            ValueError: the search is Optuna's, whose settings are not known before it runs.
        """
        match self.search.method:
            case "grid":
                trees = itertools.chain.from_iterable(map(holes.grid, self.variants))
            case "random":
                trees = itertools.chain.from_iterable(map(self._grid_of, self._random_settings()))
            case "optuna":
                raise ValueError("an Optuna search has no list of trials; see distributions() and trials_of()")
        settings, trials, problems = 0, {}, []
        records: dict[tuple[str, str], Spec] = {}
        for tree in trees:
            settings += 1
            try:
                trial = _validated(tree, records)
            except ValidationError as error:
                problems += validation_messages.problems_of(error, tree, TrialSpec, ROOTS)
                if len(problems) > MAX_FAILURES:
                    break
            else:
                trials.setdefault(trial_id(trial), trial)
        if problems:
            raise SearchSpaceError(str(self.path), problems)
        return Expansion(tuple(trials.values()), tuple(trials), settings)

    def distributions(self) -> dict[str, "BaseDistribution"]:
        """Optuna's distribution of every hole, in the order of their paths.

        Of a choice, and of `variants` where there are several, the index is drawn. Seeds are no part of it: every
        setting is trained with all of its seeds. Holes inside an entry that was not chosen have no influence.
        """
        from optuna import distributions  # a second of import that only this method needs

        found: dict[str, BaseDistribution] = {}
        for path, hole in self._open_holes().items():
            options = hole.options
            match hole.kind:
                case "choice":
                    found[path] = distributions.CategoricalDistribution(range(len(options)))
                case "int":
                    found[path] = distributions.IntDistribution(options[0].value, options[1].value)
                case kind:
                    low, high = (end.value for end in options)
                    found[path] = distributions.FloatDistribution(low, high, log=kind == "log_uniform")
        return found

    def trials_of(self, setting: Mapping[str, Any]) -> tuple[TrialSpec, ...]:
        """The trials of one setting, one for each of its training seeds.

        Args:
            setting: A value for every path in `distributions()`. Real numbers are rounded to six digits.

        Raises:
            SearchSpaceError: values that are legal one by one exclude each other.
        """
        trials = []
        for tree in self._grid_of(setting):
            try:
                trials.append(TrialSpec.model_validate(plain(tree)))
            except ValidationError as error:
                problems = validation_messages.problems_of(error, tree, TrialSpec, ROOTS)
                raise SearchSpaceError(str(self.path), problems) from None
        return tuple(trials)

    def _grid_of(self, setting: Mapping[str, Any]) -> Iterator[Node]:
        """The filled trees of a setting, one for each of its training seeds."""
        return holes.grid(holes.filled(self.variants[setting.get("variants", 0)], setting))

    def _random_settings(self) -> Iterator[dict[str, Any]]:
        """Settings in which every hole has a stream of its own, so that none depends on what else is open."""
        found = self._open_holes()
        for index in range(self.search.trials or 0):
            streams = {path: random.Random(f"{self.search.seed}/{index}/{path}") for path in found}
            yield {path: holes.drawn(hole, streams[path].random()) for path, hole in found.items()}

    def _open_holes(self) -> dict[str, Hole]:
        found = {node.path: node.value for variant in self.variants for node in holes.holes_in(variant)}
        if len(self.variants) > 1:
            found["variants"] = Hole("choice", self.variants)
        return {path: found[path] for path in sorted(found) if found[path].kind != "seeds"}


def read(path: str | Path, overrides: Sequence[str] = ()) -> SweepSpec:
    """The search space in a YAML file.

    Args:
        path: The file.
        overrides: Texts `path=value`, written into the document before anything is checked; the value is YAML.

    Raises:
        SearchSpaceError: the space cannot be run. It lists every mistake that can be told from the others: those of
            the document first, and once it has none, those of the values.
    """
    try:
        text = _text(Path(path))
        root = document_tree(text)
        for override in overrides:
            root = overridden(root, override)
        return _sweep(Path(path), text, tuple(overrides), root)
    except Refused as refused:
        raise SearchSpaceError(str(path), [refused.problem]) from None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        others = [str(other) for folder in (path.parent, Path("search_spaces")) for other in folder.glob("*.yaml")]
        raise Refused("", f"there is no such file{did_you_mean(nearest_name(str(path), others))}", None) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise Refused("", f"cannot be read: {reason}", None) from None
    if len(content) > MAX_BYTES:
        raise Refused("", f"larger than {MAX_BYTES:,} bytes; no search space needs that", None)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise Refused("", f"not UTF-8: the byte {content[error.start]:#04x} cannot stand here", line) from None


def _sweep(path: Path, text: str, overrides: tuple[str, ...], root: Node) -> SweepSpec:
    problems: list[Problem] = []

    def stop_at_problems() -> None:
        if problems:
            raise SearchSpaceError(str(path), problems)

    if root.value is None:
        raise Refused("", "the file is empty", None)
    if isinstance(root.value, dict) and "name" not in root.value:
        root = replace(root, value=root.value | {"name": Node(path.stem, "name", None)})
    try:
        document = _Document.model_validate(plain(root))
    except ValidationError as error:
        raise SearchSpaceError(str(path), validation_messages.problems_of(error, root, _Document, ROOTS)) from None

    trial = root.value["trial"]
    patches = root.value["variants"].value if "variants" in root.value else [replace(trial, value={})]
    seen: dict[Any, Node] = {}
    for patch in patches:
        if (earlier := seen.setdefault(signature(patch), patch)) is not patch:
            problems.append(Problem(patch.path, f"repeats {earlier.path}", patch.where))
    for tree in (trial, *patches):
        for key in filter(RESERVED.__contains__, tree.value):
            message = "a hole cannot stand for a whole trial; use variants"
            problems.append(Problem(joined(tree.path, key), message, tree.where))
    stop_at_problems()
    variants = tuple(holes.with_holes(merged(trial, patch), (), problems) for patch in patches)
    problems += _without_effect(overrides, variants)
    stop_at_problems()

    problems += _too_many(document.search, variants) + _without_grid(document.search, variants)
    stop_at_problems()

    for probe in itertools.chain.from_iterable(map(holes.probes, variants)):
        try:
            TrialSpec.model_validate(plain(probe))
        except ValidationError as error:
            problems += validation_messages.problems_of(error, probe, TrialSpec, ROOTS)
            if len(problems) > MAX_FAILURES:
                break
    stop_at_problems()

    problems += _unknown_metric(document.search, root, variants)
    stop_at_problems()
    return SweepSpec(
        name=document.name,
        description=document.description,
        panels=document.panels,
        search=document.search,
        resources=document.resources,
        path=path,
        text=text,
        overrides=overrides,
        variants=variants,
    )


def _validated(tree: Node, records: dict[tuple[str, str], Spec]) -> TrialSpec:
    """The trial of a filled tree; `records` keeps tasks and models, which are slow to find by name for every trial."""
    data = plain(tree)
    keys = [(part, repr(data[part])) for part in ("task", "model")]
    trial = TrialSpec.model_validate(
        data | {part: records[part, text] for part, text in keys if (part, text) in records}
    )
    records |= {(part, text): getattr(trial, part) for part, text in keys}
    return trial


def _without_effect(overrides: Sequence[str], variants: Sequence[Node]) -> list[Problem]:
    """Overrides of the trial that every variant, or a later override, overrides in its turn."""

    def origins(node: Node) -> Iterator[int | str | None]:
        yield node.where
        match node.value:
            case Hole(options=below) | list(below):
                pass
            case dict() as entries:
                below = entries.values()
            case _:
                return
        for entry in below:
            yield from origins(entry)

    if not overrides:
        return []
    effective = {origin for variant in variants for origin in origins(variant)}
    message = "has no effect: every variant, or a later --set, says otherwise"
    return [
        Problem(override.partition("=")[0], message, override)
        for override in overrides
        if override.startswith(("trial", "variants")) and override not in effective
    ]


def _too_many(search: Search, variants: Sequence[Node]) -> list[Problem]:
    values = sum(len(hole.value.options) for variant in variants for hole in holes.holes_in(variant))
    settings = sum(map(holes.grid_size, variants)) if search.method == "grid" else 0
    for count, what in ((settings, "settings"), (values, "values on all axes together")):
        if count > MAX_SETTINGS:
            # The product of many axes may have more digits than Python likes to print.
            shown = f"{count:,}" if count < 10**15 else f"about 10^{math.log10(count):.0f}"
            return [Problem("trial", f"{shown} {what} are too many; at most {MAX_SETTINGS:,}", variants[0].where)]
    return []


def _without_grid(search: Search, variants: Sequence[Node]) -> list[Problem]:
    if search.method != "grid":
        return []
    return [
        Problem(node.path, f"'{node.value.kind}' needs search.method random or optuna; a grid takes choice", node.where)
        for variant in variants
        for node in holes.holes_in(variant)
        if node.value.kind in holes.RANGES
    ]


def _unknown_metric(search: Search, root: Node, variants: Sequence[Node]) -> list[Problem]:
    if "metric" not in search.model_fields_set:
        return []
    known = ["train_loss"]
    for variant in variants:
        # Of all baselines this one has voters, and so every metric that the others have.
        trial = plain(next(holes.probes(variant))) | {"baseline": "Aq_R"}
        known += evaluation.metric_names(TrialSpec.model_validate(trial))
    if search.metric in known:
        return []
    at = descendant(root, ("search", "metric"))
    names = ", ".join(dict.fromkeys(known))
    hint = did_you_mean(nearest_name(search.metric, known))
    return [Problem(at.path, f"unknown metric {shown(search.metric)}{hint} (known: {names})", at.where)]
