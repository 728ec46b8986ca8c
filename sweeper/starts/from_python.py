"""A sweep that a Python program plans and trains: the functions `plan` and `train` of `sweeper`."""

import contextlib
import io
import json
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pandas as pd
from rich.console import Console

from sweeper.analysis.results import named_frame
from sweeper.interruption import SIGNALS, Interruption
from sweeper.space import search_space
from sweeper.space.sweep_spec import SweepSpec
from sweeper.starts import sweep
from sweeper.starts.in_process import run_packs
from sweeper.starts.on_cluster import StartError
from sweeper.starts.output import Output
from sweeper.starts.planned_sweep import PlannedSweep, StartOptions, planned_sweep
from sweeper.store.store import Status, Store
from sweeper.trial.fingerprint import OtherCodeError
from sweeper.trial.record import canonical
from sweeper.trial.trial_spec import TrialSpec


class SweepError(RuntimeError):
    """A sweep that cannot be run here; the message is a sentence for the user."""


@dataclass(frozen=True, repr=False)
class SweepPlan:
    """What a start of a sweep would do; printed, it is two lines for people.

    Attributes:
        summary: The two lines.
        trials: Every planned trial by its id. Of an Optuna search only the first settings are known.
        committed: The status of those that have a row in the store, by id.
        pending: Ids of those that a start would train.
    """

    summary: str
    trials: Mapping[str, TrialSpec]
    committed: Mapping[str, Status]
    pending: tuple[str, ...]

    def __repr__(self) -> str:
        return self.summary


def read_space(path: str | Path, overrides: Mapping[str, object]) -> SweepSpec:
    """The search space in a file; `sweeper.read_space` is this function."""
    # JSON is YAML.
    space = search_space.read(path, [f"{entry}={json.dumps(canonical(value))}" for entry, value in overrides.items()])
    search_space.check_panels(space)
    return space


def plan(space: str | Path | SweepSpec, results: str | Path) -> SweepPlan:
    """What a start would do; `sweeper.plan` is this function."""
    summary = io.StringIO()
    planned = _planned(space, results, _output(summary))
    summary.write(sweep.state(planned.settled, len(planned.pending)))
    return SweepPlan(summary.getvalue(), dict(planned.source.planned), planned.settled, tuple(planned.pending))


def train(
    space: str | Path | SweepSpec,
    results: str | Path,
    in_process: bool,
    address: str | None,
    concurrency: int | None,
    retry_failed: bool,
) -> pd.DataFrame:
    """Train what is missing; `sweeper.train` is this function."""
    planned = _planned(space, results, _output(), address, concurrency, retry_failed)
    if in_process and planned.spec.search.early_stopping is not None:
        raise SweepError("search.early_stopping compares trials that run at once: it needs Ray, not in_process")
    interruption = Interruption()
    try:
        if in_process:
            sweep.run(planned, interruption, run_packs)
        else:
            with _handlers_restored(), interruption.answered_by("raise"):
                sweep.run(planned, interruption)
    except (StartError, OtherCodeError) as error:
        raise SweepError(str(error)) from None
    if interruption.signum is not None:
        raise KeyboardInterrupt
    return named_frame(planned.store.trials(planned.source.planned).to_pandas())


def _output(file: TextIO | None = None) -> Output:
    """Plain lines, also in a notebook, where rich would make HTML of each, or take the page for a terminal."""
    terminal = None if sys.stdout.isatty() else False
    out, complaints = (
        Console(file=None if stderr else file, stderr=stderr, force_jupyter=False, force_terminal=terminal)
        for stderr in (False, True)
    )
    return Output(out, complaints)


def _planned(
    space: str | Path | SweepSpec,
    results: str | Path,
    output: Output,
    address: str | None = None,
    concurrency: int | None = None,
    retry_failed: bool = False,
) -> PlannedSweep:
    spec = space if isinstance(space, SweepSpec) else search_space.read(space)
    options = StartOptions(
        space=spec.path,
        results=str(results),
        address=address,
        dry_run=False,
        overrides=spec.overrides,
        retry_failed=retry_failed,
        recompute_other_code=False,
        concurrency=concurrency,
        # The command line of a notebook's kernel would say nothing.
        argv=("sweeper.train", str(spec.path)),
    )
    try:
        return planned_sweep(options, spec, Store.open(results), output)
    except OtherCodeError as error:
        raise SweepError(str(error)) from None


@contextlib.contextmanager
def _handlers_restored() -> Iterator[None]:
    """Give the caller its signal handlers back: a start on Ray answers signals while packs run."""
    if threading.current_thread() is not threading.main_thread():
        raise SweepError("Ray's workers are asked to leave by signals, which only the main thread of a program gets")
    handlers = {signum: signal.getsignal(signum) for signum in SIGNALS}
    wakeup = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(wakeup)
