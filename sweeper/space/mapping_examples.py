"""What to write where a record belongs and something else stands: `sampler: tpe` becomes `{name: tpe}`."""

import re
import typing
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ValidationError, create_model

from sweeper.messages import printable


def example(annotation: Any, location: Iterable[Any], value: Any) -> str | None:
    """The mapping that a value at pydantic's location in data of this type may have meant; None if none is known."""
    for part in location:
        fields = [field for record in records_in(annotation) for field in record.model_fields.items()]
        annotation = next((field.annotation for name, field in fields if part in (name, field.alias)), annotation)
    records = records_in(annotation)
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
    tags = {tag: (key, record) for record in records for key, tag in tags_of(record)}
    if isinstance(value, str) and value in tags:
        key, record = tags[value]
        return _mapping({key: value} | dict.fromkeys(name for name in _needed(record) if name != key))
    keys = {key for key, _ in tags.values()}
    return f"{_mapping(dict.fromkeys(keys))}, one of {', '.join(tags)}" if len(keys) == 1 else None


def _needed(record: type[BaseModel]) -> list[str]:
    return [name for name, field in record.model_fields.items() if field.is_required()]


def of_equation(value: Any) -> str | None:
    """The mapping that an equation such as `width = 3` may have meant."""
    match = re.fullmatch(r"(\w+)\s*==?\s*([\w.+-]+)", value) if isinstance(value, str) else None
    return match and _mapping({match[1]: match[2]})


def records_in(annotation: Any) -> list[type[BaseModel]]:
    """Every record that a value of this type may be."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [record for argument in typing.get_args(annotation) for record in records_in(argument)]


def tags_of(record: type[BaseModel]) -> list[tuple[str, Any]]:
    """The fields that say which of several records a mapping is, each with every value that it may have."""
    literals = {
        name: typing.get_args(field.annotation)
        for name, field in record.model_fields.items()
        if typing.get_origin(field.annotation) is Literal
    }
    tags = [name for name in ("kind", "method", "name") if name in literals]
    return [(name, tag) for name in tags[:1] for tag in literals[name]]


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
