"""What happens to a sweep, as a stream of typed events that any number of listeners hear.

`sweeps.on_cluster` and the driver's loop (`sweeper.launch`) emit events, and so does `sweeps.in_process`; the live view
is a listener like any other (`sweeper/listeners`). An event is plain data (numbers, strings, and mappings and tuples of
these), so that a listener may store or send an event.

Invariants:
    - Every listener hears every event, in the order in which it happened.
    - `SweepEnded` is the last event, also after an error or a signal; at this event listeners close what they opened.
    - A listener that raises does not disturb the sweep: the exception becomes one warning, and the listener goes on
      hearing events.
    - Listeners are called in the driver's loop, which stands still meanwhile: a listener that needs long, such as one
      that asks a server, does its work in a thread of its own.
"""

import contextlib
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Status = Literal["finished", "stopped", "failed"]  # status of a committed row


class Event:
    """What may happen to a sweep."""


@dataclass(frozen=True)
class SweepPlanned(Event):
    """The planned trials. Comes again whenever an adaptive search has asked for more."""

    name: str
    trials: int  # those with a row included
    done: int  # trials that earlier starts have finished or stopped early
    failed: int  # trials that failed in earlier starts and are not run again
    # Training steps of all trials that are to be run, together, as far as they are known: by the number of the program,
    # or for 0 where it is not known which trials a program will train
    steps: Mapping[int, int]
    programs: int  # how many compiled programs train them


@dataclass(frozen=True)
class SweepStarted(Event):
    """The start is connected to a cluster."""

    address: str | None  # host and port of its head; None for a local cluster that belongs to this start


@dataclass(frozen=True)
class ResourcesAwaited(Event):
    """No node of the cluster has the resources of a pack; a cluster that grows may have them later."""

    bundle: Mapping[str, float]  # the resources that no node has, such as {"CPU": 1.0, "GPU": 0.5}


@dataclass(frozen=True)
class PackStarted(Event):
    """A worker has taken up a pack, for the first time or after the death of an earlier worker."""

    pack_id: str
    label: str  # what it trains, and what varies in the sweep, in a few words for people
    pending: tuple[str, ...]  # ids of its trials that have no row yet
    steps: int  # training steps of each of its trials
    program: int = 1  # number of the compiled program that trains it, from 1


@dataclass(frozen=True)
class PackProgressed(Event):
    """How far a pack is; comes about once a second while a worker has it."""

    pack_id: str
    # `waiting` until the worker says something; `preparing`: data and checkpoint of the first pack of a cell;
    # `compiling`: the first steps, which need a program
    phase: Literal["waiting", "preparing", "compiling", "training", "evaluating", "done"]
    step: int  # training steps done of each trial, those of earlier workers included
    steps: int  # training steps of each trial
    lanes: int  # trials that are trained at once
    rows: Mapping[str, Status]  # status of every trial that this worker has committed, by id
    train_loss: float  # mean over the sound lanes at the last point of the curve; NaN before the first point
    steps_per_second: float  # training steps a second of all lanes together
    lanes_reason: str | None = None  # why so many lanes, in a few words, if the worker has chosen the number
    refused_checkpoint: str | None = None  # why a checkpoint is not continued, in a few words
    evaluated: tuple[int, float] | None = None  # step and value of the latest, for early stopping
    node: str = field(default_factory=socket.gethostname)  # the machine

    @property
    def news(self) -> tuple[str, int, Mapping[str, Status]]:
        """What changes when the pack moves: another phase, a further step or a row."""
        return self.phase, self.step, self.rows


@dataclass(frozen=True)
class LanesChosen(Event):
    """A worker has chosen how many trials of a pack it trains at once; after a lack of memory it chooses again."""

    pack_id: str
    lanes: int
    trial_ids: tuple[str, ...]  # those that are to be trained
    reason: str  # why so many, in a few words


@dataclass(frozen=True)
class CoresIdle(Event):
    """The only pack of a sweep trains on one core for minutes, and smaller packs would use the others too."""

    pack_id: str
    cores: int  # of this process
    seconds: float  # that the training still takes
    lanes: int  # trials of a pack, so that there is one for each core


@dataclass(frozen=True)
class CheckpointRefused(Event):
    """A pack has a checkpoint that its worker does not continue, and its training starts anew."""

    pack_id: str
    trial_ids: tuple[str, ...]
    reason: str  # one line


@dataclass(frozen=True)
class PluginPrinted(Event):
    """A task, a model or an objective has printed in a worker."""

    pack_id: str  # the pack that the worker was at
    lines: tuple[str, ...]  # of many the last


@dataclass(frozen=True)
class TrialCommitted(Event):
    """A trial has its row in the store. Comes once for each trial of a start."""

    pack_id: str
    trial_id: str
    status: Status  # in its row


@dataclass(frozen=True)
class PackFailed(Event):
    """Pending trials of a pack became failed rows: a task or model raised, or workers died too often."""

    pack_id: str
    trial_ids: tuple[str, ...]
    reason: str  # one line
    log: str | None  # host and file with the traceback; None where no worker has written one


@dataclass(frozen=True)
class TrialsLost(Event):
    """Trials stay without a row for a reason that is not their own, such as a full disk; the next start runs them."""

    pack_id: str
    trial_ids: tuple[str, ...]
    reason: str  # one line


@dataclass(frozen=True)
class WorkerDied(Event):
    """The process of a worker is gone; its pack goes on elsewhere, from its last checkpoint."""

    pack_id: str
    trial_ids: tuple[str, ...]  # those of its trials that had no row when the worker took it up
    started: bool  # whether the worker had taken up the pack, or died before
    reason: str | None = None  # why it died, and the way out, where that is known


@dataclass(frozen=True)
class PackEnded(Event):
    """No worker has the pack any more."""

    pack_id: str


@dataclass(frozen=True)
class SweepStopping(Event):
    """No more packs are started, and running packs are asked to leave a checkpoint."""

    cause: Literal["interrupted", "store refuses", "limit"]  # by a signal, as nothing can be committed, or at a limit
    packs: int  # how many packs are running
    limit: str = ""  # which limit, in a few words


@dataclass(frozen=True)
class SweepStopped(Event):
    """The packs that were asked to leave a checkpoint have ended, or had their time to."""

    packs: int  # how many were asked
    checkpoints: int  # how many of them have a checkpoint in the store
    finished: int  # how many of them were done before they left


@dataclass(frozen=True)
class Ticked(Event):
    """Time has passed; comes about ten times a second while packs run, for periodic work of listeners."""


@dataclass(frozen=True)
class SweepEnded(Event):
    """Everything has ended; the last event."""


Listener = Callable[[Event], None]
"""Takes note of an event, quickly; it may ignore events."""


class Stream:
    """Passes every event to every listener, in their order, and `SweepEnded` when its context is left.

    `warn` prints a line about a listener that raised.
    """

    def __init__(self, listeners: Iterable[Listener], warn: Callable[[str], None]):
        self._listeners = tuple(listeners)
        self._warn = warn
        self._raised: set[int] = set()

    def emit(self, event: Event) -> None:
        for place, listener in enumerate(self._listeners):
            try:
                listener(event)
            except Exception as error:  # no mistake of a listener may end the sweep
                if place not in self._raised:
                    self._raised.add(place)
                    name = getattr(listener, "__qualname__", type(listener).__name__)
                    with contextlib.suppress(Exception):
                        self._warn(f"{name} raised {type(error).__name__}: {error}; the sweep goes on")

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.emit(SweepEnded())
