"""Sweeps of small JAX trainings: one YAML, one command, one open results store.

From Python (docs/notebook.ipynb shows all of it):

    space = sweeper.read_space("space.yaml")     a search space
    sweeper.plan(space)                          what is done, what would run
    sweeper.train(space)                         train what is missing
    sweeper.sql("select * from trials")          ask the store
    sweeper.load("80d7d837a0ca7147efac")         a trained network

`import sweeper` itself imports nothing else; each function imports what it needs when it is first called.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from sweeper.packs.trained_trial import TrainedTrial
    from sweeper.space.sweep_spec import SweepSpec
    from sweeper.starts.from_python import SweepPlan

__all__ = ["load", "plan", "read_space", "sql", "train"]

__version__ = "0.1.0"


def read_space(path: "str | Path", overrides: Mapping[str, object] | None = None) -> "SweepSpec":
    """A search space from a YAML file, with every value checked (docs/search-space.md).

    Args:
        path: The file.
        overrides: Values that replace entries of the file, by dotted path, as `--set` does:
            `{"trial.steps": 100, "trial.objective.q": {"choice": [1, 10]}}`.

    Raises:
        sweeper.space.problems.SearchSpaceError: the space cannot be run; one line for every mistake.
    """
    from sweeper.starts import from_python

    return from_python.read_space(path, overrides or {})


def plan(space: "str | Path | SweepSpec", results: "str | Path" = "results") -> "SweepPlan":
    """What `train` would do: the trials of a space, those with a row in the store, and those to run.

    Nothing is trained or written. Printed, a plan is two lines such as `--dry-run` prints.

    Args:
        space: A search space, or its file.
        results: Folder or URL of the store, which need not exist.

    Raises:
        sweeper.space.problems.SearchSpaceError: the space cannot be run.
        sweeper.store.files.StoreError: the store cannot be read.
    """
    from sweeper.starts import from_python

    return from_python.plan(space, results)


def train(
    space: "str | Path | SweepSpec",
    results: "str | Path" = "results",
    *,
    in_process: bool = False,
    address: str | None = None,
    concurrency: int | None = None,
    retry_failed: bool = False,
) -> "pd.DataFrame":
    """Train, evaluate and commit the trials of a space that the store lacks, and print what came out.

    This is `python -m sweeper.run`: what is committed is not run again, and what was interrupted goes on from its
    checkpoint. Ctrl-C leaves checkpoints.

    Args:
        space: A search space, or its file.
        results: Folder or URL of the store.
        in_process: Train pack after pack in this process, without Ray. It starts at once, and an exception of a task or
            model comes with its traceback; on Ray that would be a failed row.
        address: Ray cluster (`host:port`, `auto`, `local`); by default the running cluster, else a local one.
        concurrency: At most so many packs at once on Ray; by default as many as fit.
        retry_failed: Run failed trials again.

    Returns:
        One row for every trial of the space that has a row in the store, with the columns of the view `trials`
        (docs/store.md): seconds for times, bytes for memory. A trial that failed says why in `error_message`.

    Raises:
        sweeper.space.problems.SearchSpaceError: the space cannot be run.
        sweeper.store.files.StoreError: the store cannot be read or written.
        sweeper.starts.from_python.SweepError: there is no cluster that can run the sweep.
        sweeper.trial.jax_settings.SettingsError: a setting of JAX that decides numbers was changed.
        KeyboardInterrupt: Ctrl-C came, or a request to stop (`sweeper stop`).
    """
    from sweeper.starts import from_python

    return from_python.train(space, results, in_process, address, concurrency, retry_failed)


def sql(question: str, results: "str | Path" = "results") -> "pd.DataFrame":
    """The answer of a store to one SELECT over its views (docs/store.md names them and their columns).

    Args:
        question: SQL, such as `select q, avg(success) from trials where status = 'finished' group by q`.
        results: Folder or URL of the store.

    Raises:
        sweeper.analysis.sql.QueryError: the question is not one SELECT, or asks for what is not there.
        sweeper.store.files.StoreError: there is no store, or it cannot be read.
    """
    from sweeper.analysis.sql import frame

    return frame(question, results)


def load(trial_id: str, results: "str | Path" = "results") -> "TrainedTrial":
    """A trained trial from a store, with a network that can be called (docs/networks.md).

    Args:
        trial_id: The trial.
        results: Folder or URL of the store.

    Raises:
        sweeper.packs.trained_trial.LoadError: the trial has no row or no network, or is of other code than this
            checkout.
        sweeper.store.files.StoreError: there is no store, or it cannot be read.
    """
    from sweeper.packs import trained_trial  # takes a second to import

    return trained_trial.load(trial_id, results)
