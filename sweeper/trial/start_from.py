"""The trial whose network a training begins with: the entry `start_from` of a trial.

A search space names that trial by its id, or by its sweep: then the trial with the same training seed is meant. A plan
finds it in the store (`sweeper.packs.start_from`). Only then the new trial has an id of its own, as this hashes the id
of the other. A program gets networks as an argument, so that trials that start from different ones share a program.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, model_validator

from sweeper.trial.record import Spec, Unwritten

OF_A_SEED = ("seed", "start_from.trial")
"""Paths of the entries that differ between the training seeds of a setting."""


class StartError(ValueError):
    """A training that cannot start from what it names; the message is one line."""


class StartFrom(Spec):
    """The committed trial whose network a training begins with; of a sweep until a plan has found the trial."""

    trial: str | None = None  # its id
    # Digest of its setting, which it shares with its other training seeds. So ten trainings that go on from ten
    # training seeds of a setting are of one setting themselves.
    setting: str | None = None
    sweep: Annotated[str | None, Unwritten(None)] = None  # the sweep whose trial with the same training seed is meant

    @model_validator(mode="after")
    def _one_is_named(self) -> Self:
        if (self.trial is None) == (self.sweep is None):
            raise ValueError("must name a trial by its id, or a sweep: {sweep: NAME}")
        if self.trial is not None and re.fullmatch(r"[0-9a-f]{20}", self.trial) is None:
            digits = "the id of a trial has twenty hexadecimal digits"
            raise ValueError(f"{digits}, got '{self.trial}'; for a sweep write {{sweep: NAME}}")
        return self


def _named_by_id(value: Any) -> Any:
    if isinstance(value, int | float):
        raise ValueError(f"the id of a trial is a text: write it in quotes, got the number {value}")
    return {"trial": value} if isinstance(value, str) else value


AnyStart = Annotated[Annotated[StartFrom | None, BeforeValidator(_named_by_id)], Unwritten(None)]
"""The field of a trial; None for a training that begins with fresh weights."""


def setting(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A canonical trial without what differs between the training seeds of its setting."""
    without = {**spec, "seed": None}
    return without | {"start_from": {**spec["start_from"], "trial": None}} if "start_from" in spec else without


def setting_digest(spec: Mapping[str, Any]) -> str:
    """Twenty hexadecimal digits that name the setting of a canonical trial."""
    return hashlib.sha256(json.dumps(setting(spec), sort_keys=True).encode()).hexdigest()[:20]
