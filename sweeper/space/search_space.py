"""Reads a search space: YAML in, a `SweepSpec` out, and one readable message for every mistake.

The document is read into a tree (`document`), each of its variants is merged over its trial, and its holes are opened
(`holes`), beside those of the variables. Then a few filled trees that together hold every value of every axis are
validated, so that the message on a mistake in a large grid comes at once.

Invariants:
    - `read` returns a space of which every constant, every entry of every choice and both ends of every range fit
      their fields and the numbers of a compiled program, or raises `SearchSpaceError`.
    - The set of trials does not depend on the order of keys.
"""

import contextlib
import functools
import itertools
import json
import keyword
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from sweeper.messages import did_you_mean, nearest_name, one_line
from sweeper.panels.kinds import Panels
from sweeper.space import formulas, holes, validation_messages
from sweeper.space.array_sizes import too_large
from sweeper.space.early_stopping import TRAIN_LOSS
from sweeper.space.extended_files import document
from sweeper.space.holes import MAX_SETTINGS, Choice
from sweeper.space.known_settings import known_settings
from sweeper.space.limits import Limits
from sweeper.space.panel_names import wrong_names
from sweeper.space.problems import Problem, Refused, SearchSpaceError, shown
from sweeper.space.resources import Resources
from sweeper.space.search_methods import GridSearch, OptunaSearch, Search, SearchMethod
from sweeper.space.settings import Settings
from sweeper.space.sweep_spec import SweepSpec
from sweeper.space.yaml_tree import (
    RESERVED,
    Node,
    descendant,
    document_tree,
    joined,
    merged,
    overridden,
    plain,
    signature,
)
from sweeper.training.kind import kind_of
from sweeper.trial.contract_checks import ContractError
from sweeper.trial.record import canonical

ANCHORS = "x-"
"""The beginning of keys at the top that hold values for aliases, and nothing else."""


_ABSENT = document_tree("{variables: {}, variants: [{}], exclude: []}", place=lambda _: None)
"""Sections that a document may leave out, and that are read as trees."""


class _Searched(BaseModel):
    """The search of a document, whatever else is in it."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    search: SearchMethod = GridSearch()


class _Document(_Searched, extra="forbid"):
    """The top level of a search space."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]
    description: Annotated[str, Field(max_length=10_000)] = ""
    variables: dict[Any, Any]
    trial: dict[Any, Any]
    variants: Annotated[list[dict[Any, Any]], Field(min_length=1)]
    exclude: list[Annotated[str, AfterValidator(formulas.Formula)]]
    resources: Resources = Resources()
    limits: Limits = Limits()
    panels: Panels = ()


def read(path: str | Path, overrides: Sequence[str] = ()) -> SweepSpec:
    """The search space in a YAML file.

    `overrides` are texts `path=value`, written into the document before anything is checked; the value is YAML. A space
    that cannot be run raises `SearchSpaceError`, which lists all mistakes of the document. If the document has none,
    it lists all mistakes of the values.
    """
    with _refusals(path):
        root, text = document(Path(path))
        spec = _sweep(Path(path), text, tuple(overrides), root)
        if problems := list(wrong_names(spec, traced=False)):
            raise SearchSpaceError(str(path), problems)
        return spec


def of_text(path: str | Path, text: str, overrides: Sequence[str] = ()) -> SweepSpec:
    """The search space with this text, which a store has kept; arguments and errors are those of `read`.

    The text has the entries of all files, and comes from anybody: it extends nothing, and no file is read.
    """
    with _refusals(path):
        return _sweep(Path(path), text, tuple(overrides), document_tree(text))


def written(overrides: Mapping[str, object]) -> list[str]:
    """Overrides as texts for `read`; a value that is no plain data is a `TypeError`."""
    return [f"{entry}={json.dumps(canonical(value))}" for entry, value in overrides.items()]  # JSON is YAML


def protocol_of(overrides: Sequence[str]) -> dict[str, Any]:
    """The changed entries of a protocol, by name, that texts such as `evaluation.seeds=1000` say."""
    with _refusals("--set"):
        written: Any = plain(functools.reduce(overridden, overrides, document_tree("{}")))
    return {name: value for entries in written.values() for name, value in entries.items()}


@contextlib.contextmanager
def _refusals(source: str | Path) -> Iterator[None]:
    try:
        yield
    except Refused as refused:
        raise SearchSpaceError(str(source), [refused.problem]) from None
    except ContractError as error:
        raise SearchSpaceError(str(source), [Problem("", str(error))]) from None


def search_of(text: str, overrides: Sequence[str] = ()) -> Search:
    """How the space with this text, which a store has kept, takes its settings; nothing else of it is checked.

    An unknown search raises `SearchSpaceError`.
    """
    with _refusals("space.yaml"):
        data = plain(functools.reduce(overridden, overrides, document_tree(text)))
    try:
        return _Searched.model_validate(data).search
    except ValidationError as error:
        raise SearchSpaceError("space.yaml", [Problem("search", str(error), None)]) from None


def _sweep(path: Path, text: str, overrides: tuple[str, ...], root: Node) -> SweepSpec:
    """The space of a document without its overrides; each check presumes that those before it had no problem."""

    def stop_at(*checks: Iterable[Problem]) -> None:
        if problems := list(itertools.chain(*checks)):
            raise SearchSpaceError(str(path), problems)

    root = functools.reduce(overridden, overrides, root)
    if root.value is None:
        raise Refused(Problem("", "the file is empty"))
    if isinstance(root.value, dict):
        entries = {key: entry for key, entry in root.value.items() if not str(key).startswith(ANCHORS)}
        root = replace(root, value={"name": Node(path.stem, "name", None)} | _ABSENT.value | entries)
    try:
        top = _Document.model_validate(plain(root))
    except ValidationError as error:
        raise SearchSpaceError(str(path), validation_messages.problems_of(error, root, _Document)) from None

    trial, patches, named = (root.value[key] for key in ("trial", "variants", "variables"))
    stop_at(_ill_formed(trial, patches.children, named))
    problems: list[Problem] = []
    whole = [Node({"variables": named, "trial": merged(trial, patch)}, "", trial.where) for patch in patches.children]
    opened = [tree.with_children([holes.with_holes(part, problems) for part in tree.children]) for tree in whole]
    tree = opened[0] if len(opened) == 1 else Node(Choice.among(opened), "variants", None)
    conditions = zip(root.value["exclude"].children, top.exclude, strict=True)
    exclusions = tuple(replace(node, value=condition) for node, condition in conditions)
    stop_at(problems)
    stop_at(_too_many(top.search, root, tree), _undrawable(top.search, tree))
    stop_at(_unusable_sampler(top.search, root, tree))
    stop_at(_illegal_values(tree, exclusions, root))
    first = descendant(root, ("search", "first")).children if top.search.first else []
    known = known_settings(tree, first, top.search.seed, problems)
    stop_at(problems)
    spec = SweepSpec(
        name=top.name,
        description=top.description,
        panels=top.panels,
        search=top.search,
        resources=top.resources,
        limits=top.limits,
        path=path,
        text=text,
        overrides=overrides,
        document=root,
        tree=tree,
        exclusions=exclusions,
        first=known,
    )
    spec = _directed(spec)
    stop_at(_wrong_metrics(spec))
    return spec


def _ill_formed(trial: Node, patches: Sequence[Node], variables: Node) -> Iterator[Problem]:
    """Variants that repeat another variant, holes that stand for a whole trial, and variables without a name."""
    seen: dict[Any, Node] = {}
    for patch in patches:
        if (earlier := seen.setdefault(signature(patch), patch)) is not patch:
            yield patch.problem(f"repeats {earlier.path}")
    for tree in (trial, *patches):
        for key in filter(RESERVED.__contains__, tree.value):
            yield tree.problem("a hole cannot stand for a whole trial; use variants", key)
    for key, node in variables.value.items():
        if not str(key).isidentifier() or keyword.iskeyword(key) or key in RESERVED:
            message = "cannot name a variable: letters, digits and '_', no key of a hole, no word of Python"
            yield Problem(joined("variables", key), message, node.where)


def _illegal_values(tree: Node, exclusions: Sequence[Node], root: Node) -> list[Problem]:
    """Constants, entries of choices and ends of ranges that do not fit, formulas without a value, absurd sizes.

    Values that meet only in probes that are left out are checked when the space is expanded.
    """
    settings = Settings(tree, exclusions)
    trials = [trial for _, trial in settings.trials([holes.probes(tree)])]
    return settings.problems or [problem for trial in trials for problem in too_large(trial, root)]


def _too_many(search: Search, root: Node, tree: Node) -> Iterator[Problem]:
    """More settings or values than a space may have."""
    values = sum(len(hole.value.probed) for hole in holes.holes_in(tree))
    starts = 1 if search.halving is None else search.halving.starts
    draws = search.draws * holes.grid_size(tree, draws=True)
    settings = draws if search.DRAWS else starts * holes.grid_size(tree)
    for count, what in ((settings, "settings"), (values, "values on all axes together")):
        if count > MAX_SETTINGS:
            found = f"{count:,}" if count < 10**15 else "more than 10^15"  # as many digits as Python prints
            yield Problem("trial", f"{found} {what} are too many; at most {MAX_SETTINGS:,}", root.value["trial"].where)
            return


def _undrawable(search: Search, tree: Node) -> Iterator[Problem]:
    """Ranges in a search that takes every entry of every choice."""
    for node in holes.holes_in(tree):
        if not search.DRAWS and not node.value.options:
            yield node.problem(f"a {search.method} takes all values; a range needs search.method random or optuna")


def _unusable_sampler(search: Search, root: Node, tree: Node) -> Iterator[Problem]:
    """What Optuna raises when the sampler that a space names is made, and asked as often as samplers begin at random.

    Some need a package that they import only then.
    """
    if not isinstance(search, OptunaSearch) or "sampler" not in search.model_fields_set:
        return
    try:
        study = search.study(tree)
        for number in range(12):
            study.ask()
            study.tell(number, [float(number)] * len(search.metric))
    except Exception as error:  # of whatever class of Optuna
        yield descendant(root, ("search", "sampler")).problem(one_line(str(error)))


def _directed(spec: SweepSpec) -> SweepSpec:
    """The space with the direction that plug-ins declare for each metric of its search, where none is written."""
    search = spec.search
    if "metric" not in search.model_fields_set or "mode" in search.model_fields_set:
        return spec
    directions = [kind_of(trial).directions(trial) for trial in spec.names.trials]
    declared = [{each[metric] for each in directions if metric in each} for metric in search.metric]
    if any(len(large) != 1 for large in declared):
        return spec
    modes = tuple("max" if True in large else "min" for large in declared)
    return replace(spec, search=search.model_copy(update={"mode": modes}))


def _wrong_metrics(spec: SweepSpec) -> Iterator[Problem]:
    """A metric or a curve that no trial will have, and a metric without a direction."""
    search, names, root = spec.search, spec.names, spec.document
    written, goal, stopping = search.model_fields_set, spec.limits.goal, search.early_stopping
    asked: list[tuple[formulas.Location, str, Sequence[str]]] = []  # places, names, and names that trials have
    if search.ADAPTS and "metric" not in written and not all(kind_of(trial).goal for trial in names.trials):
        yield Problem("search.metric", f"is missing (known: {', '.join(names.metrics)})", root.where)
    if "metric" in written:
        known = [TRAIN_LOSS, *names.metrics]
        asked += [(("search", "metric", place), metric, known) for place, metric in enumerate(search.metric)]
    if search.halving is not None and names.curves_known:
        asked.append((("search", "curve"), search.halving.curve, names.curves))
    if goal is not None:
        asked.append((("limits", "goal", "metric"), goal.metric, names.metrics))
    if stopping is not None and names.curves_known and stopping.metric not in names.training_curves:
        asked.append(
            (("search", "early_stopping", "metric"), stopping.metric, [*names.training_curves, *names.metrics])
        )
    for location, name, known in asked:
        if name not in known:
            # With the statistics of each metric, whose names begin with its name, the list is three times as long.
            listed = [each for each in known if not any(each.startswith(f"{other}_") for other in known)]
            hint = f"{did_you_mean(nearest_name(name, known))} (known: {', '.join(listed)}, …)"
            yield descendant(root, location).problem(f"no trial has {shown(name)}{hint}")
    if "metric" in written and "mode" not in written:
        at = descendant(root, ("search", "metric"))
        yield Problem("search.mode", "is missing: min or max, for each metric", at.where)
