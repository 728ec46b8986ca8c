"""Errors of pydantic become messages in the words of the author's document.

A `ValidationError` names locations in plain data. The tree that the data came from knows where each value was written,
down to the entry of a choice. The message on an unknown name proposes the nearest valid name, also from another depth,
and the message on a mapping that was meant as a hole says which holes there are.
"""

import re
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from sweeper.messages import did_you_mean, nearest_name
from sweeper.space import other_languages
from sweeper.space.problems import Problem, shortened, shown
from sweeper.space.resources import Resources
from sweeper.space.search_methods import SearchMethod
from sweeper.space.yaml_tree import RESERVED, SCALARS, Node, descendant, is_number, joined
from sweeper.trial import plugins
from sweeper.trial.contracts import Model, Task
from sweeper.trial.experiment_contract import Experiment
from sweeper.trial.objective_contract import Objective
from sweeper.trial.optimizer_contract import Optimizer
from sweeper.trial.trial import Trial, record_of

_EXPECTED = {
    "int_type": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a string",
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "a mapping"),
    **dict.fromkeys(("list_type", "tuple_type"), "a list"),
}
_SINGLE = ("int_type", "float_type", "bool_type", "string_type", "literal_error", "enum")
_BOUND = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}
_SEVERAL = re.compile(rf"({SCALARS['int']}|{SCALARS['float']})(, *({SCALARS['int']}|{SCALARS['float']}))+")
"""Several numbers with commas between them."""

_PLUGINS: Mapping[Any, plugins.Kind] = {
    Task: "task", Model: "model", Objective: "objective", Optimizer: "optimizer", Experiment: "experiment",
}  # fmt: skip
"""Records that a plug-in extends, with the kind of the plug-in."""

_ROOTS: Mapping[str, Any] = {"trial": None, "search": SearchMethod, "resources": Resources}
"""The records of a document in which the path of a misplaced key is searched; that of a trial depends on its kind."""


def problems_of(error: ValidationError, node: Node, annotation: type[BaseModel]) -> list[Problem]:
    """The problems of the tree `node`, whose data pydantic has refused as a record: at most one for each path."""
    expected: dict[str, tuple[Node, list[str]]] = {}
    problems: list[Problem] = []
    missing: list[tuple[tuple[Any, ...], Problem]] = []
    meant: set[tuple[Any, ...]] = set()
    for detail in error.errors(include_url=False):
        location = detail["loc"]
        at = descendant(node, location)
        value = at.value
        context = detail.get("ctx", {})
        if problem := _other_language(node, location, detail["type"], annotation):
            if problem not in problems:
                problems.append(problem)
                meant |= {location, *[location[:depth] for depth in range(len(location))]}
            continue
        match detail["type"]:
            case "default_factory_not_called":
                pass  # another value of the record is refused
            case "missing":
                missing.append((location, Problem(joined(at.path, location[-1]), "is missing", at.where)))
            case "extra_forbidden":
                record = _record_at(annotation, node, location[:-1])
                names, key = list(record.model_fields) if record else [], location[-1]
                nearest = nearest_name(key, names, cutoff=0.75) or _elsewhere(key, node)
                nearest = nearest or nearest_name(key, [*names, *(RESERVED if _is_trial(annotation) else ())])
                known = f" (known: {', '.join(names)})" if record else ""
                if len(location) == 1 and not _is_trial(annotation) and not nearest:
                    known += "; a key that only holds an anchor begins with x-"
                message = f"unknown key {shown(key)}{did_you_mean(nearest)}{known}"
                problems.append(Problem(_key_path(at.path, key), message, at.where))
                meant.add((*location[:-1], nearest))
            case kind if kind in _SINGLE and (message := _failed_hole(value, annotation, kind)):
                problems.append(Problem(at.path, message, at.where))
            case "int_type" if spaced := re.fullmatch(r"(.*\.(?:lin|log)space)\[\d+\]", at.path):
                message = "integers belong here: both ends must be integers, and all values between them whole"
                if (problem := Problem(spaced[1], message, at.where)) not in problems:
                    problems.append(problem)
            case "int_type" if re.search(r"\.(log_)?(uniform|normal)\[\d\]$", at.path):
                problems.append(Problem(at.path, "an integer belongs here; draw it with {int: [a, b]}", at.where))
            case "literal_error" | "enum":
                known = re.findall(r"'([^']*)'", context["expected"])
                instead = other_languages.name_instead(value, known) if at.path.startswith("search.") else None
                hint = did_you_mean(instead or nearest_name(value, known))
                message = f"expected {context['expected']}, got {shown(value)}{hint}"
                problems.append(Problem(at.path, message, at.where))
            case kind if kind in _EXPECTED:
                expected.setdefault(at.path, (at, []))[1].append(_EXPECTED[kind])
            case kind if kind in _BOUND:
                words, key = _BOUND[kind]
                drawn = "; {log_normal: […]} draws numbers above 0" if at.path.endswith(".normal[0]") else ""
                message = f"must be {words} {context[key]:.10g}, got {shown(value)}{drawn}"
                problems.append(Problem(at.path, message, at.where))
            case "string_pattern_mismatch":
                problems.append(Problem(at.path, _no_file_name(value, context["pattern"]), at.where))
            case "finite_number":
                problems.append(Problem(at.path, f"must be finite, got {shown(value)}", at.where))
            case "invalid_key":
                path = _key_path(at.path, location[-1])
                problems.append(Problem(path, f"a key must be a word here, not {location[-1]}", at.where))
            case "union_tag_not_found":
                path = joined(at.path, str(context["discriminator"]).strip("'"))
                problems.append(Problem(path, "is missing", at.where))
            case "union_tag_invalid":
                key = str(context["discriminator"]).strip("'")
                at = descendant(at, (key,))
                known = re.findall(r"'([^']*)'", context["expected_tags"])
                hint = did_you_mean(other_languages.name_instead(at.value, known) or nearest_name(at.value, known))
                hint = other_languages.method_instead(at.value) or hint if at.path == "search.method" else hint
                names = _either([f"'{name}'" for name in known])
                message = f"expected {names}, got {shown(at.value)}{hint}"
                problems.append(Problem(at.path, message, at.where))
            case "value_error":
                problems.append(_raised(context["error"], at, annotation))
            case _:
                message = detail["msg"][:1].lower() + detail["msg"][1:]
                problems.append(Problem(at.path, f"{message}, got {shown(value)}", at.where))
    for at, words in expected.values():
        choices = " or ".join(dict.fromkeys(words))
        message = f"expected {choices}, got {shown(at.value)}{_advice(at, choices, annotation)}"
        problems.append(Problem(at.path, message, at.where))
    # A key that is missing because it was misspelt is one mistake, not two.
    return problems + [problem for location, problem in missing if location not in meant]


def _key_path(path: str, key: Any) -> str:
    """The path of a value up to its key, without the hole that the value may have come from."""
    match = re.match(rf"(.*\.)?{re.escape(joined('', key))}(?=\.|$)", path)
    return match[0] if match else path


def _either(texts: Sequence[str]) -> str:
    """Such as "a, b or c"."""
    *others, last = texts
    return f"{', '.join(others)} or {last}" if others else last


def _no_file_name(value: str, pattern: str) -> str:
    """The message about a name that cannot be the name of a file, with the nearest name that can."""
    space = " " if " " in pattern else ""
    nearest = re.sub(rf"[^A-Za-z0-9{space}._-]+", "-", value).lstrip("._- ")
    signs = f"letters, digits, {'spaces, ' if space else ''}'.', '_' and '-'"
    return f"may have {signs}, the first a letter or a digit, got {shown(value)}{did_you_mean(nearest)}"


def _failed_hole(value: Any, annotation: Any, expected: str) -> str | None:
    """The message about a mapping that stands where a single value belongs; `expected` is the type of the error."""
    if not isinstance(value, dict) or not value:
        return None
    key = next(iter(value))
    if not _is_trial(annotation) and key in RESERVED:
        return f"'{key}' fits inside trial and variants only"
    if key == "seeds":
        return "'seeds' fits trial.seed only; elsewhere write {choice: [...]}"
    if not _is_trial(annotation):
        return None  # where no hole fits, nobody is told the names of holes
    ends = [entry.value for entry in value.values()]
    if len(ends) == 2 and all(map(is_number, ends)):
        kinds = ("int",) if expected == "int_type" else ("uniform", "log_uniform", "int")
        return f"a range is written {_either([f'{{{kind}: [{ends[0]}, {ends[1]}]}}' for kind in kinds])}"
    nearest = nearest_name(key, RESERVED)
    known = f"(known: {', '.join(RESERVED)})"
    return f"a single value belongs here, and {shown(key)} opens no hole{did_you_mean(nearest)} {known}"


def _advice(at: Node, expected: str, annotation: Any) -> str:
    if at.path == "variants":
        return other_languages.variants_instead(at)
    if at.path == "exclude":
        return other_languages.conditions(at)
    if isinstance(at.value, list) and _is_trial(annotation) and expected != "a mapping":
        return "; to try several values write {choice: [...]}"
    if isinstance(at.value, float) and expected == "an integer" and at.path.endswith(".formula"):
        return "; write round(…)"
    if isinstance(at.value, str) and "number" in expected and re.fullmatch(SCALARS["float"], at.value):
        return "; write it without quotes"
    if isinstance(at.value, str) and _is_trial(annotation) and _SEVERAL.fullmatch(at.value):
        return f"; to try several values write {{choice: [{', '.join(re.split(', *', at.value))}]}}"
    return ""


def _raised(error: Exception, at: Node, annotation: Any) -> Problem:
    """The problem that one of our validators reports; its message may begin with the path of a field."""
    message = shortened(" ".join(str(error).split())) if len(str(error)) > 400 else str(error)
    if isinstance(error, plugins.PluginError):
        at = descendant(at, ("name",))
    elif isinstance(at.value, dict) and len(at.value) == 1 and nearest_name(next(iter(at.value)), RESERVED):
        return Problem(at.path, _failed_hole(at.value, annotation, "value_error") or message, at.where)
    elif match := re.match(r"([a-z][\w.]*): (.*)", message):
        blamed = descendant(at, tuple(match[1].split(".")))
        if blamed is not at:
            return Problem(blamed.path, match[2], blamed.where)
    return Problem(at.path, message, at.where)


def _is_trial(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Trial)


def _records(annotation: Any) -> list[type[BaseModel]]:
    """Every record that a value of this type may be."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [record for argument in typing.get_args(annotation) for record in _records(argument)]


def _record(annotation: Any, node: Node) -> type[BaseModel] | None:
    """The record that this mapping is meant to be: by the name of its plug-in, or by a tag such as `kind`."""
    records = _records(annotation)
    if not isinstance(node.value, dict):
        return None
    if len(records) == 1 and (kind := _PLUGINS.get(records[0])):
        written = node.value.get("name")
        name = written.value if written else plugins.DEFAULTS.get(kind)
        try:
            return plugins.load(kind, name) if name in plugins.names(kind) else None
        except plugins.PluginError:  # another problem reports this
            return None
    return next((record for record in records if len(records) == 1 or _has_tag(record, node)), None)


def _has_tag(record: type[BaseModel], node: Node) -> bool:
    """Whether a mapping has the tag of a record, such as its `kind`; a tag with a default may be left out."""
    for key, entry in record.model_fields.items():
        if typing.get_origin(entry.annotation) is Literal and len(values := typing.get_args(entry.annotation)) == 1:
            written = node.value[key].value if key in node.value else entry.default
            return written == values[0]
    return False


def _record_at(annotation: Any, node: Node, location: Iterable[Any]) -> type[BaseModel] | None:
    record = _record(annotation, node)
    for part in location:
        if record and part in record.model_fields:
            annotation = record.model_fields[part].annotation
        below = descendant(node, (part,))
        node, record = below, _record(annotation, below)
    return record


def _elsewhere(key: Any, node: Node) -> str | None:
    """The path where a key belongs that was written at the wrong depth; None where no or several records know it."""
    nowhere = Node({}, "", None)

    def paths(annotation: Any, node: Node, path: str) -> Iterator[str]:
        if (record := _record(annotation, node)) is None:
            return
        for name, entry in record.model_fields.items():
            yield from paths(entry.annotation, node.value.get(name, nowhere), f"{path}.{name}")
            if name == key:
                yield f"{path}.{name}"

    places: list[str] = []
    for path, record in _ROOTS.items():
        # The tree is either the whole document or the trial itself, and only the trial has plug-ins to look into.
        root = node.value.get(path, nowhere) if "trial" in node.value else node if path == "trial" else nowhere
        places += paths(record or record_of(root.value), root, path)
    return places[0] if len(places) == 1 else None


def _other_language(root: Node, location: tuple[Any, ...], kind: str, annotation: Any) -> Problem | None:
    """The problem, if a value or key that was refused is written as another tool has it."""
    at, words = descendant(root, location), None
    if kind == "extra_forbidden":
        above = descendant(root, location[:-1])
        top = not _is_trial(annotation) and len(location) == 1
        if words := other_languages.key(location[-1], at, "" if top else above.path):
            return Problem(at.path, f"unknown key {shown(location[-1])}: {words}", at.where)
        words, at = other_languages.advice(above), replace(at, path=above.path)
    elif _is_trial(annotation) and kind != "missing":
        words = other_languages.advice(at)
    elif re.fullmatch(r"search\.metric(\[\d+\])?", at.path):
        at = descendant(root, ("search", "metric"))
        words = other_languages.metric(at)
    return Problem(at.path, words, at.where) if words else None
