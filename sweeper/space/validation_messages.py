"""Errors of pydantic become problems of the author's document.

A `ValidationError` names locations in plain data. The tree that the data came from knows where each value was written,
down to the entry of a choice. A problem has this place, what pydantic says, and for a name that is not known the
nearest that is.
"""

import re
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from sweeper.messages import did_you_mean, instead, nearest_name
from sweeper.space.problems import Problem, shown
from sweeper.space.yaml_tree import OPENING, RESERVED, Node, descendant, entry_at, joined
from sweeper.trial import plugins
from sweeper.trial.trial import Trial

_HABITS = (
    (r"\$\{(trial|variables)\b", "a value that follows from others is {formula: 2 * trial.steps}"),
    (r"\$\{", "nothing is put in for ${…}: write the value, or let the shell put in $X"),
    (r"(range|interval|choice)\(|[^,]+,", "several values are {choice: [a, b]}, a range {uniform: [a, b]}"),
)
"""Spellings of Hydra, as patterns of a text that fits no field, and what is written here instead."""


def problems_of(error: ValidationError, node: Node, record: type[BaseModel]) -> list[Problem]:
    """The problems of the tree `node`, whose data pydantic has refused as a record."""
    details = error.errors(include_url=False)
    # A default that is made of other values is not made where one of these is refused.
    return [_problem(each, node, record) for each in details if each["type"] != "default_factory_not_called"]


def _problem(detail: Mapping[str, Any], node: Node, record: type[BaseModel]) -> Problem:
    location, context = detail["loc"], detail.get("ctx", {})
    at, discriminator = descendant(node, location), context.get("discriminator", "").strip("'")
    match detail["type"]:
        case "missing" | "union_tag_not_found":
            return at.problem("is missing", discriminator or location[-1])
        case "invalid_key":
            return at.problem("a key must be a word here")
        case "extra_forbidden":
            key, hint = location[-1], _instead(node, location, record)
            return Problem(_key_path(at.path, key), f"unknown key {shown(key)}{hint}", at.where)
        case "value_error":
            return _raised(context["error"], at)
    found = context.get("tag", at.value)
    names = re.findall(r"'([^']*)'", context.get("expected_tags", context.get("expected", "")))
    hint = did_you_mean(nearest_name(found, names)) or _hole_meant(at.value, location, record) or _habit(at.value)
    message = re.sub(r"^\w+ (?=should )| or (instance|object) .*", "", detail["msg"])
    if detail["type"] == "tuple_type":
        if isinstance(found, list):
            hint = "; no file has a tuple: declare the field as ListOf[…] of sweeper.trial.field_types"
        else:
            message = message.replace("valid tuple", "list")
    return descendant(at, [discriminator]).problem(f"{message}, got {shown(found)}{hint}")


def _key_path(path: str, key: Any) -> str:
    """The path of a value up to its key, without the hole that the value may have come from."""
    match = re.match(rf"(.*\.)?{re.escape(joined('', key))}(?=\.|$)", path)
    return match[0] if match else path


def _instead(node: Node, location: Sequence[Any], record: type[BaseModel]) -> str:
    """The end of a message on an unknown key: the nearest of the keys that its record has, and all of them."""
    annotation: Any = record
    for part in location[:-1]:
        if (below := entry_at(node, [part])) is None:  # the tag of a union, which the location has beside the keys
            annotation = next((each for each in _records_in(annotation) if _has_tag(each, part)), annotation)
        else:
            annotation = next((field.annotation for key, field in _fields(annotation, node) if key == part), annotation)
            node = below
    return instead(location[-1], [key for key, _ in _fields(annotation, node)])


def _fields(annotation: Any, node: Node) -> list[tuple[str, FieldInfo]]:
    """The fields of the record that a mapping is meant to be, by their keys in a document."""
    records = _records_in(annotation) if isinstance(node.value, dict) else []
    if len(records) != 1:
        return []
    record = records[0]
    if (kind := vars(record).get("KIND")) is not None:  # of a contract, which plug-ins extend
        record = plugins.load(kind, node.value["name"].value if "name" in node.value else plugins.DEFAULTS[kind])
    return [(field.alias or name, field) for name, field in record.model_fields.items()]


def _records_in(annotation: Any) -> list[type[BaseModel]]:
    """Every record that a value of this type may be."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [record for argument in typing.get_args(annotation) for record in _records_in(argument)]


def _has_tag(record: type[BaseModel], tag: Any) -> bool:
    return any(tag in typing.get_args(field.annotation) for field in record.model_fields.values())


def _hole_meant(value: Any, location: Sequence[Any], record: type[BaseModel]) -> str:
    """The end of a message on a mapping that stands where a single value of a trial belongs, as a hole might."""
    if not isinstance(value, dict) or not value or not issubclass(record, Trial):
        return ""
    key = next(iter(value))
    return f"; {shown(key)} opens no hole{instead(key, OPENING.get(location[-1], RESERVED))}"


def _habit(value: Any) -> str:
    """The end of a message on a text that would be more than one value elsewhere."""
    meant = (words for pattern, words in _HABITS if isinstance(value, str) and re.match(pattern, value))
    return next((f"; {words}" for words in meant), "")


def _raised(error: Exception, at: Node) -> Problem:
    """The problem that one of our validators reports.

    Its message may begin with the path of a field, with a place in a list, or both, such as `int[0]: `.
    """
    if isinstance(error, plugins.PluginError):
        named = descendant(at, ["name"])
        return named.problem(str(error) + _habit(named.value))
    if match := re.match(r"([a-z][\w.]*(?:\[\d+\])?|\[\d+\]): (.*)", str(error), re.DOTALL):
        location = [int(part) if part.isdigit() else part for part in re.findall(r"\w+", match[1])]
        if (blamed := descendant(at, location)) is not at:
            return blamed.problem(match[2])
    return at.problem(str(error))
