"""Errors of pydantic become messages in the words of the author's document.

A `ValidationError` names locations in plain data. The tree that the data came from knows where each value was written,
down to the entry of a choice. The message on an unknown name proposes the nearest valid name, also from another depth,
and the message on a mapping that was meant as a hole says which holes there are. Where a record belongs and something
else stands, the message says what to write: `sampler: tpe` becomes `{name: tpe}`. Everything else is said by pydantic.
"""

import contextlib
import functools
import re
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ValidationError, create_model

from sweeper.messages import did_you_mean, nearest_name, printable
from sweeper.space import other_tools
from sweeper.space.problems import Problem, shortened, shown
from sweeper.space.yaml_tree import RESERVED, SCALARS, Node, descendant, joined
from sweeper.trial import plugins
from sweeper.trial.trial import Trial, record_of

_EXPECTED = {
    "int_type": "be an integer",
    "float_type": "be a number",
    "bool_type": "be true or false",
    "string_type": "be a string",
    **dict.fromkeys(("model_type", "model_attributes_type", "dict_type"), "be a mapping"),
    **dict.fromkeys(("list_type", "tuple_type"), "be a list"),
}
"""What a value should be where pydantic names types of Python."""

_NO_FILE_HAS = {"tuple", "set", "frozenset", "bytes", "date", "datetime", "time", "timedelta", "complex", "instance"}
"""Types of Python that no value of a file has, as pydantic calls them."""


def problems_of(error: ValidationError, node: Node, annotation: type[BaseModel]) -> list[Problem]:
    """The problems of the tree `node`, whose data pydantic has refused as a record: at most one for each path."""
    refused: dict[str, tuple[Node, tuple[Any, ...], list[str]]] = {}
    problems: list[Problem] = []
    missing: dict[tuple[Any, ...], Problem] = {}
    meant: set[tuple[Any, ...]] = set()
    for detail in error.errors(include_url=False):
        location, context = _untagged(detail["loc"], annotation), detail.get("ctx", {})
        at = descendant(node, location)
        match detail["type"]:
            case "default_factory_not_called":
                pass  # another value of the record is refused
            case "missing":
                missing[location] = at.problem("is missing", location[-1])
            case "union_tag_not_found":
                problems.append(at.problem("is missing", context["discriminator"].strip("'")))
            case "extra_forbidden":
                names, nearest = _names_for(location, node, annotation)
                message = _unknown_key(location, names, nearest, annotation)
                problems.append(Problem(_key_path(at.path, location[-1]), message, at.where))
                meant.add((*location[:-1], nearest))
            case "invalid_key":
                path = _key_path(at.path, location[-1])
                problems.append(Problem(path, f"a key must be a word here, not {location[-1]}", at.where))
            case "literal_error" | "enum" | "union_tag_invalid" if not isinstance(at.value, dict) or "tag" in context:
                problems.append(_not_listed(descendant(at, (context.get("discriminator", "").strip("'"),)), context))
            case "string_pattern_mismatch":
                problems.append(at.problem(_no_file_name(str(at.value), context["pattern"])))
            case "value_error":
                problems.append(_raised(context["error"], at, annotation))
            case kind:
                words = _EXPECTED.get(kind, re.sub(r"^\w+ should | after validation", "", detail["msg"]))
                refused.setdefault(at.path, (at, location, []))[-1].append(words)
    problems += _of_types(refused, annotation)
    # A key that is missing because it was misspelt is one mistake, not two.
    return problems + [missing[location] for location in missing if location not in meant]


def _untagged(location: Iterable[Any], annotation: Any) -> tuple[Any, ...]:
    """Pydantic's location without the tags of unions, since a key may be called as one is: the pruner `percentile`."""
    keys = []
    for part in location:
        records = _records_in(annotation)
        tagged = [record for record in records if any(part == tag for _, tag in _tags_of(record))]
        if tagged and len(records) > 1:
            annotation = tagged[0]
        else:
            keys.append(part)
            annotation = _below(annotation, part)
    return tuple(keys)


def _of_types(refused: Mapping[str, tuple[Node, tuple[Any, ...], list[str]]], annotation: Any) -> list[Problem]:
    """The problems of values that are of no expected type, by path; of a list and its items those of the items."""
    # Pydantic does not count an item that it refuses, and refuses the list for its length.
    lists = {path for path in refused if any(other.startswith(f"{path}[") for other in refused)}
    return [_of_type(*value, annotation) for path, value in refused.items() if path not in lists]


def _of_type(at: Node, location: tuple[Any, ...], words: list[str], annotation: Any) -> Problem:
    """The problem of a value that should be of one of some types; `words` say each."""
    if isinstance(at.value, list):  # which a field that is declared as a tuple does not take
        words = ["be a tuple" if word == _EXPECTED["tuple_type"] else word for word in words]
    advice = _advice(at, words, annotation) or _example(at, location, words, annotation)
    message = f"should {' or '.join(dict.fromkeys(words))}, got {shown(at.value)}{advice}"
    return at.problem(_failed_hole(at.value, annotation) or message)


def _unknown_key(location: Sequence[Any], names: Sequence[str], nearest: str | None, annotation: Any) -> str:
    hint = did_you_mean(nearest) or ("" if location[-1] in RESERVED else other_tools.hint({location[-1]: None}))
    known = f" (known: {', '.join(names)})" if names else ""
    if len(location) == 1 and _is_document(annotation) and not hint:
        known += "; a key that only holds an anchor begins with x-"
    return f"unknown key {shown(location[-1])}{hint}{known}"


def _not_listed(at: Node, context: Mapping[str, Any]) -> Problem:
    """The problem of a value that is none of some names, which pydantic has put into quotes."""
    names = context.get("expected") or context["expected_tags"]
    known = re.findall(r"'([^']*)'", names)
    nearest = other_tools.name_for(at.value, known) or nearest_name(at.value, known)
    hint = did_you_mean(nearest) or other_tools.hint({str(at.value): None})
    return at.problem(f"expected {names}, got {shown(at.value)}{hint}")


def _names_for(location: Sequence[Any], node: Node, annotation: Any) -> tuple[list[str], str | None]:
    """The keys of the record in which an unknown key stands, and what was meant, perhaps by its path elsewhere."""
    key, parent = location[-1], descendant(node, location[:-1])
    places = list(_places(annotation, node, "" if _is_document(annotation) else "trial"))
    names = next((_keys(record) for _, place, record in places if place is parent), [])
    last = str(key).rpartition(".")[2]
    elsewhere = [f"{path}.{last}" for path, _, record in places if path and last in _keys(record)]
    nearest = nearest_name(key, names, cutoff=0.8) or (elsewhere[0] if len(elsewhere) == 1 else None)
    if nearest is None and not other_tools.hint({key: None}):
        nearest = nearest_name(key, [*names, *(RESERVED if _is_trial(annotation) else ())])
    return names, nearest


def _keys(record: type[BaseModel]) -> list[str]:
    """The keys that a record has in a document."""
    return [field.alias or name for name, field in record.model_fields.items()]


def _key_path(path: str, key: Any) -> str:
    """The path of a value up to its key, without the hole that the value may have come from."""
    match = re.match(rf"(.*\.)?{re.escape(joined('', key))}(?=\.|$)", path)
    return match[0] if match else path


def _no_file_name(value: str, pattern: str) -> str:
    """The message about a name that cannot be the name of a file, with the nearest name that can."""
    space = " " if " " in pattern else ""
    nearest = re.sub(rf"[^A-Za-z0-9{space}._-]+", "-", value).lstrip("._- ")
    signs = f"letters, digits, {'spaces, ' if space else ''}'.', '_' and '-'"
    return f"may have {signs}, the first a letter or a digit, got {shown(value)}{did_you_mean(nearest)}"


def _failed_hole(value: Any, annotation: Any) -> str | None:
    """The message about a mapping that stands where a single value belongs, as an open value might."""
    if not isinstance(value, dict) or not value:
        return None
    key = next(iter(value))
    if not _is_trial(annotation) and key in RESERVED:
        return f"'{key}' stands for a whole value inside trial and variants, and nowhere else"
    if key == "seeds":
        return "'seeds' fits trial.seed only; elsewhere write {choice: [...]}"
    if not _is_trial(annotation):
        return None  # where no hole fits, nobody is told the names of holes
    hint = other_tools.hint(value) or did_you_mean(nearest_name(key, RESERVED))
    return f"{shown(key)} opens no hole{hint} (known: {', '.join(RESERVED)})"


def _advice(at: Node, expected: Sequence[str], annotation: Any) -> str:
    """The end of a message on a value of a wrong type or size."""
    value = at.value
    if _NO_FILE_HAS & set(re.findall(r"\w+", re.sub("'[^']*'", "", " ".join(expected)))):  # without names in quotes
        of_file = "ListOf[…] of sweeper.trial.field_types for a list, Literal[…] for names, or a number"
        return f"; no file has such a value: declare the field as {of_file}"
    if expected[0] == _EXPECTED["int_type"] and isinstance(value, float):
        if at.path.endswith(".formula"):
            return "; write round(…)"
        if re.search(r"\.(log_)?(uniform|normal)\[\d\]$", at.path):
            return "; draw it with {int: [a, b]}"
        if value.is_integer():
            return f"; write {value:.0f}"
    if isinstance(value, str) and re.fullmatch(SCALARS["float"], value):
        return "; write it without quotes"
    several = isinstance(value, list) or (isinstance(value, str) and "," in value and not set(value) & set("([{"))
    if _is_trial(annotation) and several and _EXPECTED["dict_type"] not in expected:
        return "; to try several values write {choice: [...]}"
    return other_tools.hint(value)


def _example(at: Node, location: tuple[Any, ...], expected: Sequence[str], annotation: Any) -> str:
    """The end of a message on a value where a mapping belongs, or a list of mappings: what to write."""
    if isinstance(at.value, dict) and _EXPECTED["list_type"] in expected:
        return "; write a list of such mappings: [{…}]"
    if isinstance(at.value, dict | list):
        return ""
    written = _example_of(annotation, location, at.value)
    if isinstance(at.value, str) and at.value not in (written or "") and (hint := other_tools.hint({at.value: None})):
        return hint
    if _EXPECTED["dict_type"] in expected:
        written = written or _of_equation(at.value)
        return f"; write {written}" if written else ""
    return f"; write [{written}]" if written and _EXPECTED["list_type"] in expected else ""


def _raised(error: Exception, at: Node, annotation: Any) -> Problem:
    """The problem that one of our validators reports.

    Its message may begin with the path of a field, with a place in a list, or both, such as `int[0]: `.
    """
    message = shortened(" ".join(str(error).split())) if len(str(error)) > 400 else str(error)
    if isinstance(error, plugins.PluginError):
        at = descendant(at, ("name",))
    elif isinstance(at.value, dict) and len(at.value) == 1 and nearest_name(next(iter(at.value)), RESERVED):
        return at.problem(_failed_hole(at.value, annotation) or message)
    elif match := re.match(r"([a-z][\w.]*(?:\[\d+\])?|\[\d+\]): (.*)", message):
        location = re.findall(r"\w+", match[1])
        blamed = descendant(at, [int(part) if part.isdigit() else part for part in location])
        if blamed is not at:
            return blamed.problem(match[2])
    hint = other_tools.hint(at.value) if _is_trial(annotation) and not isinstance(at.value, dict) else ""
    return at.problem(message + hint)


def _is_trial(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Trial)


def _is_document(annotation: Any) -> bool:
    return annotation.model_fields.keys() >= {"trial", "search"}


# The records of a document


def _places(annotation: Any, node: Node, path: str) -> Iterator[tuple[str, Node, type[BaseModel]]]:
    """Every record that a tree is meant to be and to hold, with its path and its node."""
    if isinstance(node.value, list):
        for number, item in enumerate(node.value):
            yield from _places(annotation, item, f"{path}[{number}]")
        return
    record = _record(annotation, node)
    if record is None:
        return
    yield path, node, record
    for name, entry in record.model_fields.items():
        below = node.value.get(name, Node({}, "", None))
        whole = _is_document(record) and name == "trial" and isinstance(below.value, dict)
        yield from _places(record_of(below.value) if whole else entry.annotation, below, f"{path}.{name}".lstrip("."))


def _record(annotation: Any, node: Node) -> type[BaseModel] | None:
    """The record that this mapping is meant to be: by the name of its plug-in, or by a tag such as `kind`."""
    records = _records_in(annotation) if isinstance(node.value, dict) else []
    if len(records) != 1:
        return next((record for record in records if _has_tag(record, node)), None)
    kind = vars(records[0]).get("KIND")  # of a contract, which plug-ins extend
    if kind is None:
        return records[0]
    name = node.value["name"].value if "name" in node.value else plugins.DEFAULTS.get(kind)
    with contextlib.suppress(plugins.PluginError):  # which another problem reports
        return plugins.load(kind, name) if name in plugins.names(kind) else None
    return None


def _has_tag(record: type[BaseModel], node: Node) -> bool:
    """Whether a mapping has a tag of a record, such as its `kind`; a tag with a default may be left out."""
    tags = ((key, record.model_fields[key].default, tag) for key, tag in _tags_of(record))
    return any(tag == (node.value[key].value if key in node.value else default) for key, default, tag in tags)


def _records_in(annotation: Any) -> list[type[BaseModel]]:
    """Every record that a value of this type may be."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [record for argument in typing.get_args(annotation) for record in _records_in(argument)]


def _below(annotation: Any, part: Any) -> Any:
    """The type of the field `part` of the records that a value of this type may be; without one the type itself."""
    fields = [field for record in _records_in(annotation) for field in record.model_fields.items()]
    return next((field.annotation for name, field in fields if part in (name, field.alias)), annotation)


def _tags_of(record: type[BaseModel]) -> list[tuple[str, Any]]:
    """The fields that say which of several records a mapping is, each with every value that it may have."""
    for name in ("kind", "method", "name"):
        annotation = record.model_fields[name].annotation if name in record.model_fields else None
        if typing.get_origin(annotation) is Literal:
            return [(name, tag) for tag in typing.get_args(annotation)]
    return []


# Examples of mappings


def _example_of(annotation: Any, location: Iterable[Any], value: Any) -> str | None:
    """The mapping that a value at pydantic's location in data of this type may have meant; None if none is known."""
    records = _records_in(functools.reduce(_below, location, annotation))
    return _of_record(records[0], value) if len(records) == 1 else _of_one_of(records, value)


def _of_record(record: type[BaseModel], value: Any) -> str:
    """The mapping of a record with the value in the first field that takes it."""
    needed = _needed(record)
    takes = next((name for name in needed or record.model_fields if _takes(record, name, value)), None)
    names = needed or [takes or next(iter(record.model_fields))]
    written = _mapping({name: value if name == takes else None for name in names})
    others = [] if needed else [name for name in record.model_fields if name not in names]
    return f"{written}, or another of {', '.join(others)}" if others else written


def _of_one_of(records: Iterable[type[BaseModel]], value: Any) -> str | None:
    """The mapping of the record that the value names, or else the field that says which record it is."""
    tags = {tag: (key, record) for record in records for key, tag in _tags_of(record)}
    if isinstance(value, str) and value in tags:
        key, record = tags[value]
        return _mapping({key: value} | dict.fromkeys(name for name in _needed(record) if name != key))
    keys = {key for key, _ in tags.values()}
    return f"{_mapping(dict.fromkeys(keys))}, one of {', '.join(tags)}" if len(keys) == 1 else None


def _needed(record: type[BaseModel]) -> list[str]:
    return [name for name, field in record.model_fields.items() if field.is_required()]


def _of_equation(value: Any) -> str | None:
    """The mapping that an equation such as `width = 3` may have meant."""
    match = re.fullmatch(r"(\w+)\s*==?\s*([\w.+-]+)", value) if isinstance(value, str) else None
    return match and _mapping({match[1]: match[2]})


def _takes(record: type[BaseModel], name: str, value: Any) -> bool:
    field: Any = record.model_fields[name]
    try:
        create_model("OneField", value=(field.annotation, field)).model_validate({"value": value}, strict=True)
    except ValidationError:
        return False
    return True


def _mapping(entries: dict[Any, Any]) -> str:
    """A mapping as one writes it in YAML; a value of None is left to the author."""
    return f"{{{', '.join(f'{key}: {_text(value)}' for key, value in entries.items())}}}"


def _text(value: Any) -> str:
    if value is None:
        return "…"
    return str(value).lower() if isinstance(value, bool) else printable(str(value))
