"""A trial as the platform knows it: a record with steps, a training seed, and plug-ins that give it meaning.

Fields marked `Traced` are the leaves of the record, every other field is part of its structure. So two trials may share
one compiled program exactly when `jax.tree.structure` of the two is equal, and a pack of trials is their leaves stacked
along a new axis. What the fields mean is the matter of a kind of trial (`sweeper.trial.kinds`), which has a subclass.

The content of a trial and its execution are kept apart: no record speaks of workers, lanes, folders or machines.
`trial_id` hashes the whole record with every default written out, so a default that changes later changes the id. A
field that joins a record later is marked `Unwritten` and changes no id (`sweeper.trial.record`).

Invariant: `trial_of(canonical(trial))` equals `trial`.
"""

import abc
import contextlib
import functools
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from pydantic import BeforeValidator, ValidationError
from pydantic_core import from_json

from sweeper.trial import loaded_code, plugins
from sweeper.trial.kinds import Declared, Traits, declared_with, entry_of, kind_with
from sweeper.trial.record import Spec, Unwritten, canonical, marks, values
from sweeper.trial.remembered import remembered
from sweeper.trial.start_from import StartFrom, replaced, starts_in


class Folder(NamedTuple):
    """The two words by which trials are sorted into the folders of a store."""

    task: str  # the name of what is trained
    baseline: str  # a variant of it, or the kind of trial


class Trial(Spec, abc.ABC):
    """One training and its evaluation, down to the last random number.

    Entries are named by their dotted paths, such as `experiment.width`.
    """

    DECLARED: ClassVar[Declared]
    """What its kind declares of its entries and columns."""

    if TYPE_CHECKING:  # each kind declares these fields in its own order
        steps: int
        seed: int
        # Steps between evaluations while the trial trains, whose metrics are curves too; None for one at the end alone
        evaluate_every: int | None
        start_from: StartFrom | None  # the trial whose network the training begins with; None for fresh weights

    @property
    @abc.abstractmethod
    def folder(self) -> Folder:
        """Where the file of the trial lies."""

    @property
    @abc.abstractmethod
    def words(self) -> str:
        """The trial in a few words, for a person who debugs it."""

    @property
    def plug_ins(self) -> tuple[tuple[plugins.Kind, Any], ...]:
        """Kind and record of the plug-ins that give the trial its meaning, also those inside of others.

        Those of trials whose networks it uses are the last.
        """
        records = (self, *(start for _, start in starts_in(self)))
        return tuple((kind, plugin) for record in records for _, kind, plugin in _plug_ins(record))

    @property
    def short_sums(self) -> bool:
        """Whether the sums of a training step have few terms, which XLA is told to write for a CPU in its own way."""
        return False

    @property
    def plugin_names(self) -> tuple[str, ...]:
        """The names of the plug-ins: trials that agree in these are computed by the same code."""
        return tuple(plugin.name for _, plugin in self.plug_ins)

    @property
    def columns(self) -> dict[str, Any]:
        """The values of the trial in the columns of a store that only its kind fills."""
        return {}

    @property
    def work(self) -> int:
        """A number that grows with the time of the training, to compare trials of one kind."""
        return self.steps

    @property
    def matmul_precision(self) -> str:
        """The precision of matrix products, as JAX calls it."""
        return "float32"

    @property
    def lanes_together(self) -> bool:
        """Whether the lanes of a program run together on a CPU, so that last bits depend on their number."""
        return False

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Path and words for each value that is legal and hardly meant; the words end a sentence."""
        for path, kind, plugin in _plug_ins(self):
            if kind == "optimizer" and (doubt := plugin.doubt(self.steps)):
                field, words = doubt
                yield f"{path}.{field}", words

    @property
    def protocol(self) -> Spec | None:
        """The entries by which its network is evaluated, and which an evaluation may change; None without any."""
        return getattr(self, self.DECLARED.protocol) if self.DECLARED.protocol else None

    def with_protocol(self, changes: Mapping[str, Any]) -> Self:
        """The trial with changed entries of its protocol; a `ValueError` if they do not fit the others."""
        entry = self.DECLARED.protocol
        return type(self).model_validate({**canonical(self), entry: {**canonical(self.protocol), **changes}})

    def versions(self) -> dict[str, int]:
        """The versions of this checkout that count for the trial, by part; the id has them."""
        of_plugins = {str(kind): type(plugin).VERSION for _, kind, plugin in _plug_ins(self)}
        return of_plugins | {"numerics": NUMERICS_VERSION}

    def with_every_name(self) -> Self:
        """A trial of the same plug-ins whose evaluation has every metric that another of these trials can have."""
        return self

    def for_programs(self) -> Self:
        """The trial as a compiled program sees it; also for trials that are stacked along a lane axis.

        A program gets the networks of other trials as arguments, and does not see which trials these are.
        """
        seen = self
        for path, start in starts_in(self):
            seen = replaced(seen, path, start.for_programs())
        return seen

    @classmethod
    def traits(cls, part: Any) -> dict[str, Any]:
        """What tables need to know of the record of the first part, as data that JSON keeps."""
        return {}


def used_plug_ins(trials: Iterable[Trial]) -> set[tuple[plugins.Kind, str]]:
    """Kind and name of all plug-ins of some trials."""
    return {(kind, plugin.name) for trial in trials for kind, plugin in trial.plug_ins}


def _plug_ins(record: Spec, place: str = "") -> Iterator[tuple[str, plugins.Kind, Any]]:
    """Path, kind and record of the plug-ins in a record, but for those of other trials that it names."""
    for name, value in values(record).items():
        if isinstance(value, Spec) and not isinstance(value, StartFrom):
            if (kind := getattr(type(value), "KIND", None)) is not None:
                yield f"{place}{name}", kind, value
            yield from _plug_ins(value, f"{place}{name}.")


plugins.when_loaded(loaded_code.noted)

NUMERICS_VERSION = 1
"""Raise the version when a mended trainer or evaluation gives other results: then every id changes."""


def numerics_version() -> int:
    """The version of the numerics of this checkout."""
    return NUMERICS_VERSION


_ALWAYS_WRITTEN = ("task", "model")
"""Parts whose version is in every id. The first version of the others is not written, as ids are without it."""


def trial_id(trial: Trial) -> str:
    """Twenty hexadecimal digits that identify the trial; how and where it runs does not enter them.

    The digest covers the canonical trial and its `versions`. What a trial starts from must be known by its id.
    """
    if not all(start.found for _, start in starts_in(trial)):
        raise ValueError("a trial has an id when a plan has found the trials whose networks it needs")
    versions = trial.versions().items()
    written = {part: version for part, version in versions if part in _ALWAYS_WRITTEN or version != 1}
    text = json.dumps({"trial": canonical(trial), "versions": written}, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def plugin_record(kind: plugins.Kind) -> Any:
    """Validator that turns `{name: x, ...}` into the record of the plug-in called x, or the default without a name."""

    def validate(value: Any) -> Any:
        if isinstance(value, Spec):
            return value
        if not isinstance(value, dict):
            name = value if isinstance(value, str) else "…"
            raise ValueError(f"expected a mapping with the key 'name', got {value!r}; write {{name: {name}}}")
        name = value.get("name", plugins.DEFAULTS.get(kind))
        if not isinstance(name, str):
            raise ValueError(f"the key 'name' is missing (known: {', '.join(plugins.names(kind))})")
        return plugins.load(kind, name).model_validate(value)

    return BeforeValidator(validate)


# Records of trials from plain data


def record_of(data: Any) -> type[Trial]:
    """The record of trials that these entries of a mapping make, whatever their values are."""
    return kind_with(data).record


def trial_of(data: Any) -> Trial:
    """The trial with these entries; pydantic's `ValidationError` if they make none."""
    return record_of(data).model_validate(data)


def first_part(spec: str) -> Any:
    """The record of the first part of a specification, such as its experiment, of JSON as in the column `spec`.

    It is None if this checkout does not have the plug-in, or not with these fields.
    """
    return part_of(*_first(from_json(spec)))


def _first(entries: Mapping[str, Any]) -> tuple[plugins.Kind, str]:
    """The kind of the plug-in that is the first part of a specification, and its entries as JSON with sorted keys."""
    part, kind = next(iter(declared_with(entries).parts.items()))
    return kind, json.dumps(entries.get(part, {}), sort_keys=True)


@functools.lru_cache(2**14)  # the checks of a plug-in may take seconds
def part_of(kind: plugins.Kind, entries: str) -> Any:
    """The record of a plug-in with these entries, as JSON with sorted keys; None as for `first_part`."""
    fields = json.loads(entries)
    try:
        record: Any = plugins.load(kind, fields.get("name", ""))
        return record.model_validate(fields)
    except (plugins.PluginError, ValidationError):
        return None


def with_unwritten(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A canonical specification with the values at which `Unwritten` fields are not written.

    So a trial from before a field has the value that it was trained with. A field that is not written where it equals
    another field stays away there, and so do fields of a plug-in that this checkout lacks.
    """
    whole = _completed(spec, _unwritten_of_trials(entry_of(spec)))
    for part, kind in declared_with(spec).parts.items():
        written = whole.get(part, {})
        whole[part] = _completed(written, _unwritten_or_none(kind, written.get("name")))
    return whole


def _completed(written: Mapping[str, Any], unwritten: Mapping[str, Any]) -> dict[str, Any]:
    return {**written, **{name: value for name, value in unwritten.items() if name not in written}}


@remembered
def _unwritten_of_trials(entry: str) -> dict[str, Any]:
    """The values of the fields that trials with this entry of `KINDS` may leave out, by name; see `with_unwritten`."""
    return _unwritten(record_of({entry: {}}))


@remembered
def _unwritten_of_plugin(kind: plugins.Kind, name: str) -> dict[str, Any]:
    """The values of the fields that records of a plug-in may leave out, by name; a `PluginError` without it."""
    return _unwritten(plugins.load(kind, name))


@functools.cache  # a store has thousands of rows
def _unwritten_or_none(kind: plugins.Kind, name: str | None) -> dict[str, Any]:
    try:
        return _unwritten_of_plugin(kind, name or plugins.DEFAULTS[kind])
    except (plugins.PluginError, KeyError):
        return {}


def _unwritten(record: type[Spec]) -> dict[str, Any]:
    unwritten = marks(record, Unwritten).items()
    return {name: canonical(mark.at) for name, mark in unwritten if mark.same_as is None and mark.at is not None}


def traits_of(spec: str) -> Traits | None:
    """What the first part of a specification says of itself, of JSON as in the column `spec`; None as `first_part`."""
    return traits_of_entries(from_json(spec))


def traits_of_entries(entries: Mapping[str, Any]) -> Traits | None:
    """As `traits_of`, of a specification as nested mappings; None without a part that is a plug-in."""
    with contextlib.suppress(plugins.PluginError, StopIteration):
        return _traits(entry_of(entries), *_first(entries))
    return None


@remembered
def _traits(entry: str, kind: plugins.Kind, part: str) -> dict[str, Any] | None:
    """The traits of a first part by its entries, as JSON with sorted keys; a `PluginError` without its plug-in."""
    plugins.load(kind, json.loads(part).get("name", ""))
    record = part_of(kind, part)
    return None if record is None else record_of({entry: {}}).traits(record)


@remembered
def plugin_version(kind: plugins.Kind, name: str) -> int:
    """The version of a plug-in in this checkout; a `PluginError` without it."""
    return plugins.load(kind, name).VERSION


def leaf_values(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted path and value of every entry of nested mappings, such as `canonical` returns."""
    for key, item in value.items():
        path = f"{prefix}{key}"
        if isinstance(item, dict):
            yield from leaf_values(item, f"{path}.")
        else:
            yield path, item
