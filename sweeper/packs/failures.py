"""What an exception means for the trials of a pack: a failure or a loss.

A *failure* is a fact about a trial, and becomes its row. A *loss* has a reason outside the trial (a full disk, a store
out of reach, code that was edited, a worker that cannot start): the trial gets no row and stays pending.
"""

import dataclasses
import datetime
import logging
import re
import traceback
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import jax

from sweeper.events import PackProgressed
from sweeper.messages import message_of, one_line
from sweeper.packs.device_memory import out_of_memory
from sweeper.packs.plan import Work
from sweeper.store.store import Store, StoreError, TrialResult
from sweeper.trial import plugins
from sweeper.trial.contract_checks import ContractError
from sweeper.trial.fingerprint import OtherCodeError
from sweeper.trial.provenance import Provenance

LOST_IN_A_ROW = 3
"""After this number of packs in a row that could not commit, nothing can be committed any more: the sweep ends."""


class PluginRaised(RuntimeError):
    """An error of a plug-in in another process, in words: many cannot travel, and some would end that process."""


@dataclasses.dataclass(frozen=True)
class Failed:
    """The pack ended with an exception, here in one line, and these trials have a failed row, which had none.

    The traceback is in the log, a file on the worker's host, if a worker has written one.
    """

    trial_ids: tuple[str, ...]
    reason: str
    log: str | None = None


@dataclasses.dataclass(frozen=True)
class Lost:
    """The pack ended, and its pending trials could not be committed, for a reason in one line.

    If the reason is the store or the machine (`of_store`), the next pack will hardly do better.
    """

    reason: str
    of_store: bool = True


def trouble(
    error: Exception,
    progress: PackProgressed | None,
    commit: Callable[[dict[str, Any]], tuple[str, ...]] | None,
    log: str | None = None,
) -> Failed | Lost:
    """What an exception means for the trials of a pack that had come so far.

    `commit` makes failed rows of an error (see `commit_failed`), and returns the ids of their trials; None where packs
    make no rows.
    """
    if isinstance(error, StoreError | OtherCodeError):
        # The disk, the network, the object store, or other code on this machine
        return Lost(reason(error), of_store=isinstance(error, StoreError))
    if out_of_memory(error):
        # Of the evaluation, or of one lane: another device may have enough.
        return Lost(f"the device has too little memory: {reason(error)}", of_store=False)
    kind, message = kind_and_message(error)
    if commit is None:
        return Lost(f"{kind}: {message}", of_store=False)
    try:
        failed = commit({"kind": kind, "message": message, "step": 0 if progress is None else progress.step})
    except Exception as second:  # a failure that cannot be committed must still be told
        return Lost(f"{kind}: {message}; and no row of it: {reason(second)}")
    return Failed(failed, f"{kind}: {message}", log)


def commit_failed(
    store: Store, provenance: Provenance, work: Work, error: dict[str, Any], committed: Collection[str] = ()
) -> tuple[str, ...]:
    """Commit a failed row for every pending trial that is not committed; returns their ids.

    The checkpoint stays, so that a retry goes on from it.
    """
    now = datetime.datetime.now(datetime.UTC)
    failed = tuple(key for key in work.pending if key not in committed)
    for trial, key in zip(work.pack.trials, work.pack.trial_ids, strict=True):
        if key in failed:
            result = TrialResult(
                trial=trial,
                status="failed",
                error=error,
                provenance=provenance,
                pack_id=work.pack.pack_id,
                lanes=len(work.pack.trials),
                device="",
                started=now,
                finished=now,
            )
            store.commit(result)
    return failed


def log_no_callbacks() -> None:
    """Have JAX log nothing of what functions that programs call raise, which rows and messages tell."""
    for name in ("callback", "debugging"):
        logging.getLogger(f"jax._src.{name}").setLevel(logging.CRITICAL)


def reason(error: BaseException) -> str:
    """One line about an exception, with the line of a plug-in or of this package where it was raised."""
    _, text, frames = _raised(error)
    place = plugins.line_of_ours(frames)
    explained = isinstance(error, StoreError | OtherCodeError | ContractError | PluginRaised)
    return one_line(text) if place is None or explained else f"{one_line(text)} ({place})"


def kind_and_message(error: Exception) -> tuple[str, str]:
    """The class of an error and `reason`; of one that was raised in another process, as it was there."""
    if isinstance(error, PluginRaised):
        kind, _, message = reason(error).partition(": ")
        return kind, message
    return _raised(error)[0], reason(error)


def _raised(error: BaseException) -> tuple[str, str, list[traceback.FrameSummary]]:
    """The class of an error, its message, and where it was raised.

    What a function raises that a program has called (`jax.pure_callback`, `equinox.error_if`) comes as an error of JAX,
    whose message ends with the traceback of the function. The author's own error stands below the last frame.
    """
    message = message_of(error)
    if isinstance(error, jax.errors.JaxRuntimeError) and (frames := list(_FRAME.finditer(message))):
        kind, _, text = message[frames[-1].end() :].partition(": ")
        # Frames of this package only called the program; below a line of dashes equinox speaks of itself.
        places = [traceback.FrameSummary(frame[1], int(frame[2]), frame[3]) for frame in frames]
        own = [place for place in places if not Path(place.filename).is_relative_to(plugins.PACKAGE)]
        return kind, _RULE.split(text, 1)[0], own
    return type(error).__name__, message, traceback.extract_tb(error.__traceback__)


_RULE = re.compile(r"^-{10,}$", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)\n', re.MULTILINE)
