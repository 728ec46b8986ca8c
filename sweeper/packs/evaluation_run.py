"""Evaluating the stored networks of a pack by another protocol, one trial after another.

An `EvaluationRun` has the interface of `pack_run.PackRun`, so that workers run evaluations like packs. Trials are
evaluated and committed one by one, and a run that starts again passes over the trials that the same code has committed.
So an evaluation needs no checkpoint.
"""

import dataclasses
import datetime
import time

import jax

from sweeper.events import PackProgressed
from sweeper.packs import process_memory
from sweeper.packs.evaluation_plan import ProtocolChanges, with_protocol
from sweeper.packs.network_weights import network_of
from sweeper.packs.plan import Work
from sweeper.store.evaluations import EvaluationResult, commit_evaluation, stored_evaluation
from sweeper.store.store import NoNetworkError, Status, Store
from sweeper.training import evaluation
from sweeper.trial.provenance import Provenance
from sweeper.trial.trial_spec import TrialSpec


@dataclasses.dataclass
class EvaluationRun:
    """Evaluates and commits the pending trials of a pack.

    Attributes:
        work: The pack, and its trials without an evaluation.
        changes: Changes of their protocols.
        store: The store with the networks, which also takes the evaluations.
        provenance: The origin, in the row of every evaluation.
        left: Ids of the trials not yet evaluated.
        rows: Status of every trial that this run has evaluated, by id.
        refused_checkpoint: Always None, because evaluations have no checkpoints.
    """

    work: Work
    changes: ProtocolChanges
    store: Store
    provenance: Provenance
    left: list[str]
    rows: dict[str, Status] = dataclasses.field(default_factory=dict)
    refused_checkpoint: None = None

    def advance(self) -> PackProgressed:
        """Evaluate and commit one trial. A trial that has lost its network is passed over."""
        if self.left:
            key = self.left.pop(0)
            trial = next(trial for trial, name in self._lanes() if name == key)
            if self._evaluated(key, trial):
                self.rows[key] = "finished"
        return self.progress()

    def progress(self) -> PackProgressed:
        """Progress of the run; an evaluated trial counts as its training steps."""
        steps, lanes = self.work.pack.trials[0].steps, len(self.work.pending)
        return PackProgressed(
            pack_id=self.work.pack.pack_id,
            phase="evaluating" if self.left else "done",
            step=steps * (lanes - len(self.left)) // max(1, lanes),
            steps=steps,
            lanes=lanes,
            rows=dict(self.rows),
            train_loss=float("nan"),
            steps_per_second=0.0,
        )

    def checkpoint(self) -> None:
        """Does nothing: every evaluated trial is committed."""

    def stop_early(self) -> None:
        """Does nothing: early stopping compares trainings, not evaluations."""

    def _lanes(self) -> list[tuple[TrialSpec, str]]:
        return list(zip(self.work.pack.trials, self.work.pack.trial_ids, strict=True))

    def _evaluated(self, key: str, trial: TrialSpec) -> bool:
        """Whether the trial has an evaluation now."""
        seal = self.store.seals([key]).get(key)
        if seal is None or seal.network is None:
            return False
        digest, protocol = seal.network, self.changes.of(trial)
        present = stored_evaluation(self.store, trial, protocol)
        fingerprint = self.provenance.fingerprint(trial)
        if present is not None and (present.network, present.fingerprint) == (digest, fingerprint):
            return True  # by an earlier worker, which died
        try:
            network = network_of(trial, self.store.weights(seal))
        except NoNetworkError:
            return False
        process_memory.forget_peak()
        begun, cpu_begun = time.monotonic(), time.process_time()
        metrics, _ = evaluation.evaluate(with_protocol(trial, protocol), network)
        result = EvaluationResult(
            trial=trial,
            protocol=protocol,
            network=digest,
            metrics=metrics,
            costs={
                "evaluation_seconds": time.monotonic() - begun,
                "cpu_seconds": time.process_time() - cpu_begun,
                "peak_memory_bytes": process_memory.peak_bytes(),
            },
            provenance=self.provenance,
            device=jax.devices()[0].device_kind,
            finished=datetime.datetime.now(datetime.UTC),
        )
        commit_evaluation(self.store, result)
        return True


def opened(work: Work, changes: ProtocolChanges, store: Store, provenance: Provenance) -> EvaluationRun:
    """The evaluation of a pack."""
    return EvaluationRun(work, changes, store, provenance, list(work.pending))
