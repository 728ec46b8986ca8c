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
        fields = [record.model_fields[part] for record in records_in(annotation) if part in record.model_fields]
        annotation = fields[0].annotation if fields else annotation
    records = records_in(annotation)
    if len(records) == 1:
        (record,) = records
        needed = [name for name, field in record.model_fields.items() if field.is_required()]
        takes = next((name for name in needed or record.model_fields if _takes(record, name, value)), None)
        names = needed or [takes or next(iter(record.model_fields))]
        written = _mapping({name: value if name == takes else None for name in names})
        others = [] if needed else [name for name in record.model_fields if name not in names]
        return f"{written}, or another of {', '.join(others)}" if others else written
    tags = {tag: (key, record) for record in records for key, tag in tag_of(record)}
    key, record = tags.get(value, (None, None)) if isinstance(value, str) else (None, None)
    if record is None:
        keys = {key for key, _ in tags.values()}
        return f"{_mapping(dict.fromkeys(keys))}, one of {', '.join(tags)}" if len(keys) == 1 else None
    more = [name for name, field in record.model_fields.items() if field.is_required() and name != key]
    return _mapping({key: value} | dict.fromkeys(more))


def of_equation(value: Any) -> str | None:
    """The mapping that an equation such as `width = 3` may have meant."""
    match = re.fullmatch(r"(\w+)\s*==?\s*([\w.+-]+)", value) if isinstance(value, str) else None
    return match and _mapping({match[1]: match[2]})


def records_in(annotation: Any) -> list[type[BaseModel]]:
    """Every record that a value of this type may be."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [record for argument in typing.get_args(annotation) for record in records_in(argument)]


def tag_of(record: type[BaseModel]) -> list[tuple[str, Any]]:
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
