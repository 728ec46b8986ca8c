"""One pack from its start or checkpoint to the commit of every trial in it.

This is where numerics meet the store, and it runs in any process: Ray is one way to call it. A `PackRun` moves in
small strides, each ending in a state that can be checkpointed: some steps of training for all lanes, or the evaluation
and commit of one. Lanes are committed one by one; the state after the last step is checkpointed first, so that a death
between two commits repeats no training.

A checkpoint goes on with the lanes it was made of, even when some of their trials are committed already; without one,
only the pending trials run. (One that is sound but does not fit the network has no state to offer, only its lanes.)
Either way it has the name of the pack as planned, where every later start finds it.
"""

import contextlib
import dataclasses
import datetime
import functools
import re
import resource
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
import pyarrow as pa

from sweeper.packs import checkpoint
from sweeper.packs.packing import Pack, lane, stack
from sweeper.store.store import Store, TrialResult
from sweeper.training import compilation, evaluation, evolution, gradient
from sweeper.training.evolution import Evaluator
from sweeper.trial.provenance import Provenance
from sweeper.trial.trial_spec import PGPE

CURVE_POINTS = 200
"""A stored curve has at most so many points; each is the mean of as many intervals as that takes."""


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a pack is."""

    pack_id: str
    phase: Literal["training", "evaluating", "done"]
    step: int
    steps: int
    lanes: int
    committed: int
    failed: int
    train_loss: float
    """Mean over the sound lanes at the last point of the curve; NaN before the first."""
    steps_per_second: float
    """Trial-steps: steps of all lanes together."""


class PackRun:
    """Trains, evaluates and commits the pending trials of a pack.

    Args:
        pack: The pack as planned.
        pending: Ids of its trials that are not committed yet.
        store: Where results and checkpoints go.
        provenance: What every row says of its origin.
        checkpoint_seconds: Longest training time that a death may cost.
        outcomes: Whether the outcome of every input is stored too.
        evaluator: Who evaluates the populations of evolution.
    """

    def __init__(
        self,
        pack: Pack,
        pending: Collection[str],
        store: Store,
        provenance: Provenance,
        checkpoint_seconds: float,
        outcomes: bool,
        evaluator: Evaluator = evolution.in_process,
    ):
        _forget_peak_memory()
        saved = checkpoint.load(store, pack.pack_id)
        if saved is not None and not set(pending) <= set(saved.trial_ids) <= set(pack.trial_ids):
            saved = None
        self._pack_id = pack.pack_id
        self.pack = pack = pack.part(pending if saved is None else saved.trial_ids)
        self._pending = [index for index, name in enumerate(pack.trial_ids) if name in pending]
        self._store = store
        self._provenance = provenance
        self._checkpoint_seconds = checkpoint_seconds
        self._outcomes = outcomes
        self._steps = pack.trials[0].steps
        self._stacked = stack(pack.trials)
        self._started = datetime.datetime.now(datetime.UTC)
        self._committed = self._failed = 0
        self._curves: list[list[list[float]]] = []  # point, curve, lane
        self._strides: list[list[list[float]]] = []  # the same, of the strides since the last point
        self._seconds = {"train_seconds": 0.0, "compile_seconds": 0.0, "cpu_seconds": 0.0}
        self._stopped = False

        if isinstance(pack.trials[0].optimizer, PGPE):
            self._trainer, self._stride = evolution, functools.partial(evolution.stride, evaluate=evaluator)
        else:
            self._trainer, self._stride = gradient, gradient.stride
        self._interval = self._trainer.curve_interval(pack.trials[0])
        self._step = 0
        compiled = compilation.seconds()
        self._state: Any = self._trainer.start(self._stacked)
        self._seconds["compile_seconds"] += compilation.seconds() - compiled
        restored = None if saved is None else saved.state(like=self._state)
        if saved is not None and restored is not None:
            self._state, notes = restored, saved.notes
            self._step, self._seconds = notes["step"], notes["seconds"]
            self._curves, self._strides = notes["curves"], notes["strides"]
        self._checkpointed_at = time.monotonic()
        self._checkpointed_step = self._step

    def progress(self) -> Progress:
        """Where the run stands now."""
        last = np.asarray(self._curves[-1][0]) if self._curves else np.array([np.nan])
        finite = last[np.isfinite(last)]
        training_now = self._step < self._steps and not self._stopped
        seconds = self._seconds["train_seconds"]
        return Progress(
            pack_id=self._pack_id,
            phase="training" if training_now else "evaluating" if self._pending else "done",
            step=self._step,
            steps=self._steps,
            lanes=len(self.pack.trials),
            committed=self._committed,
            failed=self._failed,
            train_loss=float(finite.mean()) if finite.size else float("nan"),
            steps_per_second=self._step * len(self.pack.trials) / seconds if seconds else 0.0,
        )

    def advance(self) -> Progress:
        """One stride: some steps of training, or the evaluation and commit of one trial."""
        if self.progress().phase == "training":
            self._train()
        elif self._pending:
            self._finish(self._pending[0], "stopped" if self._stopped else "finished")
            self._pending.pop(0)
        if not self._pending:
            checkpoint.remove(self._store, self._pack_id)
        return self.progress()

    def checkpoint(self) -> None:
        """Save the state, so that the next run of this pack goes on from here."""
        if self._checkpointed_step != self._step:
            notes = {"curves": self._curves, "strides": self._strides, "seconds": self._seconds, "step": self._step}
            checkpoint.save(self._store, self._pack_id, self.pack.trial_ids, self._state, notes)
            self._checkpointed_step = self._step
        self._checkpointed_at = time.monotonic()

    def stop_early(self) -> None:
        """Evaluate and commit what has been trained so far, with the status "stopped"."""
        self._stopped = self._step < self._steps
        while self._pending:
            self.advance()

    def fail(self, kind: str, message: str) -> None:
        """Commit a failed row for every pending trial."""
        for index in self._pending:
            self._commit_failure(index, kind, message, self._step)
        self._pending = []
        checkpoint.remove(self._store, self._pack_id)

    def _train(self) -> None:
        begun, cpu_begun, compiled_before = time.monotonic(), time.process_time(), compilation.seconds()
        length = min(self._trainer.STRIDE, self._steps - self._step)
        self._state, curve = self._stride(self._stacked, self._state, length)
        self._strides.append([np.asarray(values).tolist() for values in curve])  # waits for the stride
        self._step += length
        if self._step % self._interval == 0 or self._step == self._steps:
            self._curves.append(np.mean(self._strides, axis=0).tolist())
            self._strides = []
        compiled = compilation.seconds() - compiled_before
        self._seconds["compile_seconds"] += compiled
        self._seconds["train_seconds"] += time.monotonic() - begun - compiled
        self._seconds["cpu_seconds"] += time.process_time() - cpu_begun
        if np.all(np.asarray(self._state.failure) > 0):
            self._step = self._steps  # nothing is left to train
        if self._step == self._steps or time.monotonic() - self._checkpointed_at >= self._checkpoint_seconds:
            self.checkpoint()

    def _finish(self, index: int, status: Literal["finished", "stopped"]) -> None:
        failure = int(np.asarray(self._state.failure)[index])
        if failure:
            step = int(np.asarray(self._state.step)[index])
            self._commit_failure(
                index, gradient.FAILURES[failure], f"{gradient.FAILURES[failure]} at step {step}", step
            )
            return
        begun, cpu_begun = time.monotonic(), time.process_time()
        trial = self.pack.trials[index]
        metrics, columns = evaluation.evaluate(trial, lane(self._state.model, index))
        curves = self._lane_curves(index)
        metrics["train_loss"] = [value for _, name, value in curves if name == "train_loss"][-1]
        table = {"input": np.arange(len(columns["success"]), dtype=np.int32)} | columns
        seconds = {"evaluation_seconds": time.monotonic() - begun}
        self._commit(
            index, status, metrics, curves, pa.table(table) if self._outcomes else None, None, self._step, seconds,
            time.process_time() - cpu_begun,
        )  # fmt: skip
        self._committed += 1

    def _commit_failure(self, index: int, kind: str, message: str, step: int) -> None:
        error = {"kind": kind, "message": message, "step": step}
        self._commit(index, "failed", {}, self._lane_curves(index), None, error, step, {}, 0.0)
        self._failed += 1

    def _commit(
        self,
        index: int,
        status: Literal["finished", "failed", "stopped"],
        metrics: dict[str, float],
        curves: list[tuple[int, str, float]],
        outcomes: pa.Table | None,
        error: dict[str, Any] | None,
        steps_done: int,
        seconds: dict[str, float],
        cpu_seconds: float,
    ) -> None:
        lanes = len(self.pack.trials)
        shared = {name: value / lanes for name, value in self._seconds.items()}
        timings = shared | {"steps_done": float(steps_done), "peak_memory_bytes": float(_peak_memory_bytes())} | seconds
        timings["cpu_seconds"] += cpu_seconds
        timings["wall_seconds"] = sum(
            timings.get(f"{part}_seconds", 0.0) for part in ("compile", "train", "evaluation")
        )
        timings["steps_per_second"] = steps_done / shared["train_seconds"] if shared["train_seconds"] else 0.0
        self._store.commit(
            TrialResult(
                trial=self.pack.trials[index],
                status=status,
                metrics=metrics,
                curves=curves,
                outcomes=outcomes,
                timings=timings,
                error=error,
                provenance=self._provenance,
                pack_id=self._pack_id,
                lanes=lanes,
                device=jax.devices()[0].device_kind,
                started=self._started,
                finished=datetime.datetime.now(datetime.UTC),
            )
        )

    def _lane_curves(self, index: int) -> list[tuple[int, str, float]]:
        """Step, name and value of a lane's curve points; a point stands at the end of the steps it averages."""
        curves = self._curves + ([np.mean(self._strides, axis=0).tolist()] if self._strides else [])
        width = -(-len(curves) // CURVE_POINTS) or 1
        points = []
        for start in range(0, len(curves), width):
            some = curves[start : start + width]
            step = min((start + len(some)) * self._interval, self._step)
            for position, name in enumerate(self._trainer.Curve._fields):
                points.append((step, name, float(np.mean([point[position][index] for point in some]))))
        return points


def run_pack(
    pack: Pack, store: Store, provenance: Provenance, checkpoint_seconds: float = 60.0, outcomes: bool = True
) -> Progress:
    """Run a whole pack in this process and commit every trial of it."""
    run = PackRun(pack, pack.trial_ids, store, provenance, checkpoint_seconds, outcomes)
    while (progress := run.advance()).phase != "done":
        pass
    return progress


def _forget_peak_memory() -> None:
    """Measure the peak of the memory in use from here on, where the system can: Linux does so for a 5 written here."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_memory_bytes() -> int:
    """Most memory in use: of the accelerator so far, or of this process since `_forget_peak_memory`."""
    statistics = jax.devices()[0].memory_stats()
    if statistics is not None:
        return statistics["peak_bytes_in_use"]
    with contextlib.suppress(OSError):
        if found := re.search(r"^VmHWM:\s*(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE):
            return int(found[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
