"""Seals: canonical JSON in every file of a store, which says to which trial the file belongs.

A file belongs to one trial, or to many after compaction. The seal of a trial's row names the trial's curves, outcomes
and network by their digests. The seal of compacted rows repeats for every member the seal of the member's own row: it
is the manifest of the compaction, which counts from the publication of the file.

The JSON has sorted keys and no spaces. Seals of version 2 are seals of version 3 without networks. Seals of version 1
were lists, see `positional_seals`.
"""

import dataclasses
import hashlib
import json
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import ConfigDict, Field, NonNegativeInt, TypeAdapter
from pydantic_core import from_json

from sweeper.store.file_names import COMPACTED, IDENTIFIER, TRIAL_ID, file_name
from sweeper.store.files import StoreError
from sweeper.store.schema import SCHEMA_VERSION, Detail, FileKind, Status

SEAL_VERSION: Literal[3] = 3
"""Version of the form of the seals that this program writes."""

READ_VERSIONS = (2, 3)
"""Versions of keyed seals that this program reads."""


class DamagedError(Exception):
    """A damaged file; the message says how the file is damaged."""


Identifier = Annotated[str, Field(pattern=f"^{IDENTIFIER}$")]
TrialId = Annotated[str, Field(pattern=f"^{TRIAL_ID}$")]


@dataclasses.dataclass(frozen=True, slots=True)
class DetailFile:
    """The file of a trial's curves, outcomes or network, as the trial's row names it.

    Attributes:
        bytes: Size of the file when the row was made.
        digest: The digest in that file. None in rows from before keyed seals.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    bytes: NonNegativeInt
    digest: str | None

    def is_file(self, digest: str | None) -> bool:
        """Whether the file with this digest is the file that the row names; an older row takes any."""
        return self.digest in (None, digest)


@dataclasses.dataclass(frozen=True, slots=True)
class Seal:
    """The seal of a trial's own file.

    Attributes:
        kind: Which of the trial's files this is.
        schema_version: Version of the columns.
        trial_id: The trial.
        task: Name of its task.
        baseline: Its baseline.
        status: How it ended.
        curves: The trial's curves; None if there are none, and in files that are not a row.
        outcomes: The trial's outcomes, in the same way.
        outcome_columns: Columns of the outcomes that depend on the task.
        fingerprint: Fingerprint of the code that computed the trial; None where it is not known.
        networks: The trial's network, in the same way as the outcomes.
        version: Version of the form of the seal.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    kind: FileKind
    schema_version: int
    trial_id: TrialId
    task: Identifier
    baseline: Identifier
    status: Status
    curves: DetailFile | None = None
    outcomes: DetailFile | None = None
    outcome_columns: tuple[str, ...] = ()
    fingerprint: str | None = None
    networks: DetailFile | None = None
    version: Literal[2, 3] = SEAL_VERSION

    @property
    def name(self) -> str:
        """The trial's row below `trials`, which stands for the trial (`file_names.file_path`)."""
        return file_name(self.task, self.baseline, self.trial_id)

    def detail(self, kind: Detail) -> DetailFile | None:
        """The curves, outcomes or network that the row names."""
        return {"curves": self.curves, "outcomes": self.outcomes, "networks": self.networks}[kind]

    def bare(self, kind: Detail) -> "Seal":
        """The seal of the trial's file of another kind, which names no files."""
        return dataclasses.replace(self, kind=kind, curves=None, outcomes=None, networks=None)


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """One trial of a compacted file; its rows stand in the order of the members.

    Attributes:
        trial_id: The trial.
        status: How it ended.
        curves_group: Row group of the compacted curves that holds the trial's; None if it has none.
        outcomes: The trial's outcomes, which stay in a file of their own.
        outcome_columns: Columns of the outcomes that depend on the task.
        fingerprint: Fingerprint of the code that computed the trial; None where it is not known.
        networks: The trial's network, which stays in a file of its own.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    trial_id: TrialId
    status: Status
    curves_group: NonNegativeInt | None
    outcomes: DetailFile | None
    outcome_columns: tuple[str, ...]
    fingerprint: str | None = None
    networks: DetailFile | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class CompactedSeal:
    """The seal of a compacted file; the seal of compacted curves has no members and names no curves.

    Attributes:
        kind: "trials" or "curves".
        schema_version: Version of the columns.
        title: The file's name without its folder and ending.
        task: Name of the task of all members.
        baseline: Baseline of all members.
        curves: The compacted curves of the members; None if no member has any.
        members: The trials, in the order of their rows.
        version: Version of the form of the seal.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    kind: FileKind
    schema_version: int
    title: Annotated[str, Field(pattern=f"^{COMPACTED}$")]
    task: Identifier
    baseline: Identifier
    curves: DetailFile | None
    members: tuple[Member, ...]
    version: Literal[2, 3] = SEAL_VERSION

    @property
    def name(self) -> str:
        """The file below `trials` or `curves`."""
        return file_name(self.task, self.baseline, self.title)

    @property
    def rows(self) -> list[Seal]:
        """The seals that the members' own rows would have."""
        return [self.of(member) for member in self.members]

    def of(self, member: Member) -> Seal:
        """The seal that the member's own row would have; its curves are not in a file of their own."""
        return Seal(
            "trials", self.schema_version, member.trial_id, self.task, self.baseline, member.status,
            None, member.outcomes, member.outcome_columns, member.fingerprint, member.networks,
        )  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class EvaluationSeal:
    """The seal of the file of an evaluation of a stored network.

    Attributes:
        kind: "evaluations".
        schema_version: Version of the columns.
        trial_id: The trial.
        task: Name of its task.
        baseline: Its baseline.
        protocol: Id of the protocol.
        network: Digest of the network that was evaluated.
        fingerprint: Fingerprint of the code that evaluated it; None where it is not known.
        version: Version of the form of the seal.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    kind: Literal["evaluations"]
    schema_version: int
    trial_id: TrialId
    task: Identifier
    baseline: Identifier
    protocol: TrialId
    network: str
    fingerprint: str | None
    version: Literal[3] = SEAL_VERSION

    @property
    def name(self) -> str:
        """The file below `evaluations`."""
        return file_name(self.task, self.baseline, f"{self.trial_id}-{self.protocol}")


class SealedFile(NamedTuple):
    """A whole file: ready to be published, or read and proven.

    Attributes:
        data: Its bytes.
        mark: How a row names it.
    """

    data: bytes
    mark: DetailFile


AnySeal = Seal | CompactedSeal | EvaluationSeal

_WORDS: dict[type, str] = {Seal: "seal", CompactedSeal: "compacted", EvaluationSeal: "evaluation"}
_FORMS: dict[str, TypeAdapter[Any]] = {word: TypeAdapter(form) for form, word in _WORDS.items()}
"""The class of seal for each word."""


def word_of(seal: AnySeal) -> str:
    """The word that says which kind of seal a text is."""
    return _WORDS[type(seal)]


def text_of(seal: AnySeal) -> str:
    """The seal as it stands in its file."""
    return json.dumps(dataclasses.asdict(seal), sort_keys=True, separators=(",", ":"))


def seal_of(text: bytes | str, word: str, what: str) -> Any:
    """The seal in a text of that word.

    Raises:
        ValueError: it has no known form.
        StoreError: a newer version of this program wrote it.
    """
    values = from_json(text)
    check_seal_version(values["version"], what)
    check_version(values["schema_version"], what)
    return _FORMS[word].validate_json(text)


def digest_without(data: bytes, start: int, end: int) -> bytes:
    """Digest of a file with the digest's own place, from `start` to `end`, zeroed; 32 hexadecimal digits."""
    digest = hashlib.blake2b(memoryview(data)[:start], digest_size=16)
    digest.update(b"0" * (end - start))
    digest.update(memoryview(data)[end:])
    return digest.hexdigest().encode()


def check_seal_version(version: Any, what: str) -> None:
    """Refuse a form of seals that is newer than this program's.

    Raises:
        StoreError: the version is newer.
        ValueError: it is no version.
    """
    if type(version) is int and version > SEAL_VERSION:
        raise StoreError(f"{what!r} has seal version {version}, this program knows up to {SEAL_VERSION}: update it")
    if version not in READ_VERSIONS:
        raise ValueError(f"{version!r} is not a version of seals")


def check_version(version: Any, what: str) -> None:
    """Refuse a store that a newer program has written.

    Raises:
        StoreError: the version is newer than this program's.
        ValueError: it is no version.
    """
    if not isinstance(version, int):
        raise ValueError(f"{version!r} is not a schema version")
    if version > SCHEMA_VERSION:
        raise StoreError(f"{what!r} has schema version {version}, this program knows up to {SCHEMA_VERSION}: update it")
