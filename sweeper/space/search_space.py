"""Reads a search space: YAML in, a `SweepSpec` out, and one readable message for every mistake.

The document is read into a tree (`document`), each of its variants is merged over its trial, and its holes are opened
(`holes`), beside those of the variables. Then a few filled trees that together hold every value of every axis are
validated, so that the message on a mistake in a large grid comes at once.

Invariants:
    - `read` returns a space of which every constant, every entry of every choice and both ends of every range fit
      their fields and the numbers of a compiled program, or raises `SearchSpaceError`; it raises nothing else, whatever
      the file holds.
    - The set of trials does not depend on the order of keys.
"""

import contextlib
import functools
import itertools
import json
import keyword
import math
import operator
import typing
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from sweeper.messages import counted, did_you_mean, instead, nearest_name
from sweeper.panels.kinds import Panels
from sweeper.space import formulas, holes, validation_messages
from sweeper.space.early_stopping import TRAIN_LOSS
from sweeper.space.extended_files import document
from sweeper.space.holes import MAX_SETTINGS, Choice
from sweeper.space.limits import Limits
from sweeper.space.optuna_options import AS_RECORDED
from sweeper.space.problems import Problem, Refused, SearchSpaceError, shown
from sweeper.space.resources import Resources
from sweeper.space.search_methods import GridSearch, Method, OptunaSearch, Search, SearchMethod
from sweeper.space.settings import Settings
from sweeper.space.sweep_spec import SweepSpec
from sweeper.space.yaml_tree import (
    RESERVED,
    Node,
    descendant,
    document_tree,
    entry_at,
    joined,
    merged,
    overridden,
    path_of,
    plain,
    signature,
    walk,
)
from sweeper.training.kind import kind_of
from sweeper.trial.contract_checks import ContractError
from sweeper.trial.record import canonical
from sweeper.trial.trial import leaf_values

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
    exclude: list[Annotated[Any, AfterValidator(formulas.Formula)]]
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
        return _sweep(Path(path), text, tuple(overrides), root)


def of_text(path: str | Path, text: str, overrides: Sequence[str] = ()) -> SweepSpec:
    """The search space with this text, which a store has kept; arguments and errors are those of `read`.

    The text has the entries of all files, and comes from anybody: it extends nothing, and no file is read.
    """
    with _refusals(path):
        return _sweep(Path(path), text, tuple(overrides), document_tree(text))


def written(path: str | Path, overrides: Mapping[str, object]) -> list[str]:
    """Overrides as texts for `read`; values that are no plain data, of numpy or of pandas are a `SearchSpaceError`."""
    texts, problems = [], []
    for entry, value in overrides.items():
        try:
            # Scalars and arrays of numpy, series and indices of pandas have `tolist`.
            plain_data = json.loads(json.dumps(value, default=operator.methodcaller("tolist")))
            texts.append(f"{entry}={json.dumps(canonical(plain_data))}")  # JSON is YAML
        except Exception:  # whatever an object of a stranger raises when it is asked for its data
            found = type(value).__name__
            problems.append(Problem(entry, f"expected numbers, texts, lists and mappings of these, got {found}"))
    if problems:
        raise SearchSpaceError(str(path), problems)
    return texts


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
        return _Searched.model_validate(data, context=AS_RECORDED).search
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
    stop_at(problems, _without_effect(overrides, whole), _unused(named, tree, exclusions))
    stop_at(_too_many(top.search, root, tree, len(opened)), _undrawable(top.search, tree))
    stop_at(_illegal_values(tree, exclusions))
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
    )
    spec = _directed(spec)
    stop_at(_wrong_metric(spec))
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


def _unused(variables: Node, tree: Node, exclusions: Sequence[Node]) -> Iterator[Problem]:
    """Variables that no formula and no condition names."""
    found = [*formulas.formulas_in(tree), *(node.value for node in exclusions)]
    used = {location[:2] for formula in found for location in formula.entries}
    for key, node in variables.value.items():
        if ("variables", key) not in used:
            yield node.problem(f"no formula has variables.{key}, so that it changes nothing")


def _illegal_values(tree: Node, exclusions: Sequence[Node]) -> list[Problem]:
    """Constants, entries of choices and ends of ranges that do not fit their fields, and formulas without a value.

    Values that meet only in probes that are left out are checked when the space is expanded.
    """
    if wrong := _wrong_conditions(tree, exclusions):
        return wrong
    settings = Settings(tree, exclusions)
    for _ in settings.trials([holes.probes(tree)]):
        pass
    return settings.problems


def _wrong_conditions(tree: Node, exclusions: Sequence[Node]) -> list[Problem]:
    """A problem for each condition with an entry that no setting has, a word for an entry, or no entry at all."""
    unseen = {location for node in exclusions for location in node.value.entries}
    written: dict[str, str] = {}  # the path of an entry, by its last part
    for probe in holes.probes(tree) if exclusions else ():
        unseen = {location for location in unseen if entry_at(probe, location) is None}
        written |= {path.split(".")[-1]: path for path, _ in leaf_values(plain(probe))}

    def mistake(condition: formulas.Formula) -> str | None:
        for location in filter(unseen.__contains__, condition.entries):
            near = written.get(nearest_name(location[-1], written, cutoff=0.75) or "")
            hint = did_you_mean(near) or "; a condition names what the space writes"
            return f"no setting has {path_of(location)}{hint}"
        for word in (word for word, left in condition.words if left or word in written):
            path = written.get(nearest_name(word, written) or "", "from the top, such as trial.model.width")
            return f"'{word}' is a word; an entry is written {path}"
        none = "names no entry, such as trial.model.width, so that it holds for all settings or for none"
        return None if condition.entries else none

    return [node.problem(message) for node in exclusions if (message := mistake(node.value))]


def _without_effect(overrides: Sequence[str], trials: Sequence[Node]) -> Iterator[Problem]:
    """Overrides that a later override, or every variant, overrides again; `trials` are those of the variants."""
    effective = {node.where for trial in trials for node in walk(trial)} if overrides else set()
    for override in overrides:
        path = override.partition("=")[0]
        if path.startswith(ANCHORS):
            yield Problem(path, "has no effect: aliases are written out before a --set", override)
        if override.startswith(("trial", "variants", "variables")) and override not in effective:
            yield Problem(path, "has no effect: every variant, or a later --set, says otherwise", override)


def _too_many(search: Search, root: Node, tree: Node, variants: int) -> Iterator[Problem]:
    """More settings or values than a space may have, and numbers of draws that do not fit the variants."""
    if search.trials is not None and len(search.trials) not in (1, variants):
        at = descendant(root, ("search", "trials"))
        found = f"{len(search.trials)} numbers for {counted(variants, 'variant')}"
        yield at.problem(f"{found}; write one number for all, or one for each")
        return
    values = sum(len(hole.value.probed) for hole in holes.holes_in(tree))
    starts = 1 if search.halving is None else search.halving.starts
    draws = search.draws * holes.grid_size(tree, draws=True)
    settings = draws if search.DRAWS else starts * holes.grid_size(tree)
    for count, what in ((settings, "settings"), (values, "values on all axes together")):
        if count > MAX_SETTINGS:
            # The product of many axes may have more digits than Python likes to print.
            shown = f"{count:,}" if count < 10**15 else f"about 10^{math.log10(count):.0f}"
            yield Problem("trial", f"{shown} {what} are too many; at most {MAX_SETTINGS:,}", root.value["trial"].where)
            return


def _undrawable(search: Search, tree: Node) -> Iterator[Problem]:
    """Ranges and weights in a search that takes every entry of every choice."""
    methods = [record.model_fields["method"].annotation for record in typing.get_args(Method) if record.DRAWS]
    names = " or ".join(typing.get_args(method)[0] for method in methods)
    message = f"needs search.method {names}; a {search.method} takes choice, linspace, logspace and ranges with a step"
    for node in holes.holes_in(tree):
        if search.DRAWS:
            return
        if not node.value.options:
            yield node.problem(message)
        if isinstance(node.value, Choice) and node.value.weights is not None:
            unused = f"are for search.method {names}; a {search.method} takes every entry"
            yield node.problem(unused, "weights")


def _directed(spec: SweepSpec) -> SweepSpec:
    """The space with the direction that plug-ins declare for each metric of its search, where none is written."""
    search = spec.search
    if "metric" not in search.model_fields_set or "mode" in search.model_fields_set:
        return spec
    declared: dict[str, set[bool]] = defaultdict(set)
    for trial in spec.names.trials:
        for metric, large in kind_of(trial).directions(trial).items():
            declared[metric].add(large)
    if any(len(declared[metric]) != 1 for metric in search.metric):
        return spec
    modes = tuple("max" if True in declared[metric] else "min" for metric in search.metric)
    return replace(spec, search=search.model_copy(update={"mode": modes}))


def _wrong_metric(spec: SweepSpec) -> Iterator[Problem]:
    """A metric or a curve that no trial will have, a metric without a direction, and a goal that is not known."""
    search, root = spec.search, spec.document
    written, halving = search.model_fields_set, search.halving
    if search.ADAPTS and "metric" not in written and not all(kind_of(trial).goal for trial in spec.names.trials):
        known = ", ".join(spec.names.metrics)
        yield Problem("search.metric", f"is missing: which metric is to be improved? (known: {known})", root.where)
    if halving is not None and halving.curve not in (curves := spec.names.curves):
        at = replace(descendant(root, ("search", "curve")), path="search.curve")
        hint = f"{instead(halving.curve, curves)}; a metric of the evaluation is one with trial.evaluate_every"
        yield at.problem(f"no trial has the training curve {shown(halving.curve)}{hint}")
    if isinstance(search, OptunaSearch) and search.scale:
        tasks = spec.names.tasks
        for task in sorted({*search.scale} ^ {*tasks}):
            mistake = f"lacks {task}" if task in tasks else f"no trial has the task {shown(task)}{instead(task, tasks)}"
            yield descendant(root, ("search", "scale", task)).problem(mistake)
    yield from _unknown_metrics(spec)
    if "metric" in written and "mode" not in written:
        large = f"write 'mode: max' if {shown(search.metric[0])} is to become large, 'mode: min' if small"
        direction = large if len(search.metric) == 1 else "write a direction, min or max, for each metric"
        yield Problem("search.mode", f"is missing: {direction}", descendant(root, ("search", "metric")).where)


def _unknown_metrics(spec: SweepSpec) -> Iterator[Problem]:
    """Metrics in the search and in the limits that no trial will have."""
    search, goal, stopping = spec.search, spec.limits.goal, spec.search.early_stopping
    if "metric" in search.model_fields_set:
        for number, metric in enumerate(search.metric):
            yield from _unknown(spec, metric, ("search", "metric", number), [TRAIN_LOSS, *spec.names.metrics])
    if goal is not None:
        yield from _unknown(spec, goal.metric, ("limits", "goal", "metric"), spec.names.metrics)
    if stopping is not None and stopping.metric not in (curves := spec.names.training_curves):
        known = [*curves, *spec.names.metrics]
        yield from _unknown(spec, stopping.metric, ("search", "early_stopping", "metric"), known)


def _unknown(spec: SweepSpec, metric: str, location: formulas.Location, known: Sequence[str]) -> Iterator[Problem]:
    if metric in known:
        return
    # With the statistics of each metric, whose names begin with its name, the list is three times as long.
    begun = {name: [other for other in known if name.startswith(f"{other}_")] for name in known}
    listed = ", ".join(name for name, others in begun.items() if not others)
    endings = sorted({f"_{name.removeprefix(f'{other}_')}" for name, others in begun.items() for other in others})
    listed += f"; some of them also with {', '.join(endings)}" * bool(endings)
    hint = did_you_mean(nearest_name(metric, known))
    at = descendant(spec.document, location)
    yield at.problem(f"unknown metric {shown(metric)}{hint} (known: {listed})")
