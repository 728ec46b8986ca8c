"""The plan of an evaluation of stored networks: the chosen trials with a network, minus the trials evaluated already.

As for training, the store is the only memory, so that an interrupted evaluation goes on where it was. A trial is
evaluated by its own protocol with the changes of the command line.
"""

import collections
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import ValidationError

from sweeper.packs.plan import Plan, plan
from sweeper.packs.trained_trial import LoadError, current_trial
from sweeper.store.evaluations import protocol_id, stored_evaluations
from sweeper.store.seal import TrialSeal
from sweeper.store.store import Status, Store
from sweeper.trial.fingerprint import Code
from sweeper.trial.record import canonical
from sweeper.trial.trial_spec import Evaluation, TrialSpec


class ProtocolError(ValueError):
    """A protocol that makes no sense for a trial; the message is one line."""


class ProtocolChanges(NamedTuple):
    """Changes of the protocols of trials.

    Attributes:
        seeds: Number of seeds r of the evaluation; None for the trial's own number.
        votes: Group sizes of the votes; None for the trial's own sizes.
    """

    seeds: int | None = None
    votes: tuple[int, ...] | None = None

    def of(self, trial: TrialSpec) -> Evaluation:
        """The protocol by which a trial is evaluated.

        Raises:
            ProtocolError: the changes do not fit the rest of the trial's protocol.
        """
        changes = {name: value for name, value in self._asdict().items() if value is not None}
        try:
            return Evaluation.model_validate({**canonical(trial.evaluation), **changes})
        except ValidationError as error:
            message = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise ProtocolError(message) from error


@dataclass(frozen=True)
class EvaluationPlan:
    """An evaluation held against a store.

    Attributes:
        plan: The trials with a network, in packs; a trial is done when it has an evaluation.
        other_code: Ids of trials whose evaluation was made by other code than this, and counts as done.
        left_out: Why trials cannot be evaluated: the number of trials by reason.
    """

    plan: Plan
    other_code: tuple[str, ...]
    left_out: Mapping[str, int]


def evaluation_plan(
    store: Store,
    trial_ids: Iterable[str],
    changes: ProtocolChanges,
    code: Code,
    lanes: int | None,
    recompute_other_code: bool,
) -> EvaluationPlan:
    """The plan of the pending evaluations.

    Args:
        store: The store with the networks, which also takes the evaluations.
        trial_ids: The chosen trials.
        changes: Changes of their protocols.
        code: Digests of the code of this process.
        lanes: See `packing.packs`.
        recompute_other_code: Whether evaluations by other code are made again.

    Raises:
        ProtocolError: the protocol makes no sense for a trial.
        StoreError: the store cannot be read.
    """
    chosen = list(dict.fromkeys(trial_ids))
    seals = store.seals(chosen)
    rows = {row["trial_id"]: row for row in store.trials(chosen).to_pylist()}
    left_out: collections.Counter[str] = collections.Counter()
    trials: dict[str, TrialSpec] = {}
    for key in chosen:
        # Rows and seals are two looks at the store, and a commit or a deletion may have come between.
        reason = _without_network(seals[key]) if key in rows and key in seals else "is not committed"
        if reason is None:
            try:
                trials[key] = current_trial(rows[key])
            except LoadError as error:
                reason = str(error).replace(f"trial {key} ", "")
        if reason is not None:
            left_out[reason] += 1
    protocols = {key: protocol_id(changes.of(trial)) for key, trial in trials.items()}
    done: dict[str, Status] = {}
    other_code = []
    for evaluation in stored_evaluations(store, {key: seals[key].network for key in trials}):
        seal = evaluation.seal
        if protocols.get(seal.trial_id) != seal.protocol:
            continue
        if seal.fingerprint != code.fingerprint(trials[seal.trial_id]):
            other_code.append(seal.trial_id)
            if recompute_other_code:
                continue
        done[seal.trial_id] = "finished"
    planned = plan(trials.values(), lanes, done, frozenset({"finished"}))
    return EvaluationPlan(planned, tuple(other_code), left_out)


def _without_network(seal: TrialSeal) -> str | None:
    """Why a committed trial has no network; None if it has a network."""
    if seal.status == "failed":
        return "failed"
    return None if seal.network else "has no network: trained with resources.networks: false"


def with_protocol(trial: TrialSpec, protocol: Evaluation) -> TrialSpec:
    """The trial with another protocol of evaluation. Its id differs, so no other code may use it."""
    return trial.model_copy(update={"evaluation": protocol})
