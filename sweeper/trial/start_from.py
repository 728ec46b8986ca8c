"""The other trial whose network a trial needs: to begin with (the entry `start_from`), or for a field (`trained`).

A search space names that trial by its id, or by its sweep: then the trial that is the same in some entries is meant, by
default in the training seed. A plan finds it in the store (`sweeper.packs.start_from`). Only then the new trial has an
id of its own, as this hashes the id of the other. A program gets networks as an argument, so that trials with different
ones share a program.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Self, TypeVar

from pydantic import model_validator

from sweeper.trial.field_types import ListOf
from sweeper.trial.record import Spec, Unwritten, values

T = TypeVar("T", bound=Spec)


class StartError(ValueError):
    """A trial that cannot have the network that it names; the message is one line, `path` the entry that names it."""

    def __init__(self, message: str, path: str = "start_from"):
        super().__init__(message)
        self.path = path


class StartFrom(Spec):
    """The committed trial whose network another trial needs; of a sweep until a plan has found the trial."""

    trial: str | None = None  # its id
    # Digest of its setting, which it shares with its other training seeds. So ten trainings that go on from ten
    # training seeds of a setting are of one setting themselves.
    setting: str | None = None
    sweep: Annotated[str | None, Unwritten(None)] = None  # the sweep whose trial is meant that is
    same: Annotated[ListOf[str], Unwritten(("seed",))] = ("seed",)  # the same in these entries, by dotted path

    @model_validator(mode="before")
    @classmethod
    def _named_by_id(cls, value: Any) -> Any:
        return {"trial": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_is_named(self) -> Self:
        if (self.trial is None) == (self.sweep is None):
            raise ValueError("must name a trial by its id, or a sweep: {sweep: NAME}")
        if self.trial is not None and re.fullmatch(r"[0-9a-f]{20}", self.trial) is None:
            digits = "the id of a trial has twenty hexadecimal digits"
            raise ValueError(f"{digits}, got '{self.trial}'; for a sweep write {{sweep: NAME}}")
        return self

    @property
    def found(self) -> bool:
        """Whether a plan has found the trial."""
        return self.setting is not None

    def for_programs(self) -> Self | None:
        """What a compiled program sees of it, which does not depend on which trial it is; None for nothing."""
        return None


AnyStart = Annotated[StartFrom | None, Unwritten(None)]
"""The field of a trial; None for a training that begins with fresh weights."""


def starts_in(record: Spec, place: str = "") -> Iterator[tuple[str, StartFrom]]:
    """Dotted path and record of every trial that a record names, but for those that these trials name themselves."""
    for name, value in values(record).items():
        if isinstance(value, StartFrom):
            yield f"{place}{name}", value
        elif isinstance(value, Spec):
            yield from starts_in(value, f"{place}{name}.")


def replaced(record: T, path: str, value: Any) -> T:
    """The record with another value at a dotted path, which no validator sees."""
    name, _, rest = path.partition(".")
    return record.model_copy(update={name: replaced(getattr(record, name), rest, value) if rest else value})


# Settings


def setting(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A canonical trial without what differs between the training seeds of its setting."""
    return {**_without_ids(spec), "seed": None}


def _without_ids(entries: Mapping[str, Any]) -> dict[str, Any]:
    without = {name: _without_ids(value) if isinstance(value, dict) else value for name, value in entries.items()}
    return without | {"trial": None} if "setting" in without and "trial" in without else without


def differs_by_seed(path: str, paths: Collection[str]) -> bool:
    """Whether an entry differs between the training seeds of a setting; `paths` are all entries of the trial."""
    return path == "seed" or (path.endswith(".trial") and f"{path.removesuffix('trial')}setting" in paths)


def setting_digest(spec: Mapping[str, Any]) -> str:
    """Twenty hexadecimal digits that name the setting of a canonical trial."""
    return hashlib.sha256(json.dumps(setting(spec), sort_keys=True).encode()).hexdigest()[:20]
