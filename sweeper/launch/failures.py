"""Failures and losses: why a planned trial has a failed row, or no row.

A *failure* is a fact about a trial, and becomes its row. A *loss* has a reason outside the trial (a full disk, a store
out of reach, a worker that cannot start): the trial gets no row and stays pending. A `LaunchError` ends the start.
"""

import datetime
import traceback
from typing import Any

from sweeper.messages import message_of, one_line
from sweeper.packs.plan import Work
from sweeper.store.store import Store, StoreError, TrialResult
from sweeper.trial import plugins
from sweeper.trial.contract_checks import ContractError
from sweeper.trial.fingerprint import OtherCodeError
from sweeper.trial.provenance import Provenance


class LaunchError(RuntimeError):
    """The cluster cannot be reached; the message is for the user."""


class PluginRaised(RuntimeError):
    """An error of a plug-in in another process, in words: many cannot travel, and some would end that process."""


class SetupError(LaunchError):
    """A pack, this machine or the project cannot be used as it is set up; the message says what to change."""


def commit_failed(store: Store, provenance: Provenance, work: Work, error: dict[str, Any]) -> None:
    """Commit a failed row for every pending trial. The checkpoint stays, so that a retry goes on from it."""
    now = datetime.datetime.now(datetime.UTC)
    for trial, key in zip(work.pack.trials, work.pack.trial_ids, strict=True):
        if key in work.pending:
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


def reason(error: BaseException) -> str:
    """One line about an exception, with the line of a plug-in or of this package where it was raised."""
    text = one_line(message_of(error))
    place = plugins.line_of_ours(traceback.extract_tb(error.__traceback__))
    explained = isinstance(error, StoreError | OtherCodeError | ContractError | PluginRaised)
    return text if place is None or explained else f"{text} ({place})"
