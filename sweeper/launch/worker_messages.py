"""The messages between the driver and its workers: work and reports.

Work goes out as a Tune configuration. Reports come back as Tune results, about one a second. Orders
(`sweeper.packs.orders`) wait with an actor that workers ask between two reports, because Tune's own way to stop a Tune
trial cannot distinguish "leave a checkpoint" from "evaluate and commit now", and kills a worker that does not stop in
time.
"""

import dataclasses
import json
from typing import Any

from sweeper.events import PackProgressed
from sweeper.packs.packing import Pack
from sweeper.packs.plan import Segment, Work
from sweeper.trial.record import canonical
from sweeper.trial.trial import trial_of

GIVEN_UP = "given_up"  # a key in the Tune configuration of a pack that is lost: its worker has nothing to do


@dataclasses.dataclass(frozen=True)
class Failed:
    """The pack ended with an exception, here in one line, and these trials have a failed row, which had none.

    The traceback is in the log, a file on the worker's host.
    """

    trial_ids: tuple[str, ...]
    reason: str
    log: str


@dataclasses.dataclass(frozen=True)
class Lost:
    """The pack ended, and its pending trials could not be committed, for a reason in one line.

    If the reason is the store or the machine (`of_store`), the next pack will hardly do better.
    """

    reason: str
    of_store: bool = True


@dataclasses.dataclass(frozen=True)
class Report:
    """The report of a worker, about once a second."""

    done: bool  # whether the worker has ended its work on the pack
    progress: PackProgressed | None = None  # how far the pack is; None before the worker has begun the pack
    trouble: Failed | Lost | None = None  # the failure or loss that ended the pack, if any
    # Why a checkpoint of the pack is not continued; only in the first report about the pack
    refused_checkpoint: str | None = None
    printed: tuple[str, ...] = ()  # what plug-ins have printed since the last report; of many lines the last

    def result(self) -> dict[str, Any]:
        """The Tune result: the report itself, and what Tune reads."""
        return {"report": self, "done": self.done}


def encoded(work: Work) -> dict[str, Any]:
    """The Tune configuration of a pack: plain data, which no version of Python or pydantic can fail to read."""
    return {
        "pack_id": work.pack.pack_id,
        "trials": json.dumps([canonical(trial) for trial in work.pack.trials]),
        "pending": json.dumps(work.pending),
        "segment": json.dumps(None if work.segment is None else dataclasses.asdict(work.segment)),
    }


def decoded(config: dict[str, Any]) -> Work:
    trials = tuple(map(trial_of, json.loads(config["trials"])))
    segment = json.loads(config["segment"])
    return Work(Pack(trials), tuple(json.loads(config["pending"])), None if segment is None else Segment(**segment))
