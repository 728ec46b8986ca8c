"""Sweeps of small JAX trainings: one YAML, one command, one open results store.

From Python (docs/notebook.ipynb shows all of it):

    space = sweeper.read_space("space.yaml")     a search space
    plan = sweeper.plan(space)                   what is done, what would run
    result = sweeper.train(plan)                 train what is missing
    sweeper.evaluate(space, episodes=1000)       evaluate stored networks by another protocol
    sweeper.results("quickstart")                the trials of a sweep as a frame
    sweeper.sql("select * from trials")          ask the store
    sweeper.plot("width", "loss")                draw any two columns
    sweeper.curves("80d7d837a0ca")               the training curves of a trial
    sweeper.study("quickstart")                  a sweep as a study of Optuna
    sweeper.load("80d7d837a0ca7147efac")         a trained network

The commands are these functions with a printer. Public and stable are what stands in `__all__`, the events of
`sweeper.events`, and for plug-ins `experiment_contract` and `optimizer_contract` of `sweeper.trial`, and `contracts`,
`objective_contract` and `strategy_contract` of `sweeper.learned_algorithms`; all else may change without notice.
`import sweeper` is quick: each function imports what it needs when it is first called. Every error that a user can mend
is a `UserError`, whose message is one clear text.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import optuna
    import pandas as pd
    from matplotlib.figure import Figure

    from sweeper.analysis.sql import QueryError
    from sweeper.events import Event
    from sweeper.messages import UserError
    from sweeper.packs.network_evaluation import ProtocolError
    from sweeper.packs.trained_trial import LoadError, TrainedTrial
    from sweeper.space.problems import SearchSpaceError
    from sweeper.space.sweep_spec import SweepSpec
    from sweeper.store.files import StoreError
    from sweeper.sweeps.evaluation import EvaluationResult
    from sweeper.sweeps.on_cluster import SweepError
    from sweeper.sweeps.sweep_plan import SweepPlan
    from sweeper.sweeps.sweep_result import SweepResult
    from sweeper.trial.fingerprint import OtherCodeError
    from sweeper.trial.jax_settings import SettingsError
    from sweeper.trial.plugins import PluginError

__all__ = [
    "EvaluationResult", "LoadError", "OtherCodeError", "PluginError", "ProtocolError", "QueryError", "SearchSpaceError",
    "SettingsError", "StoreError", "SweepError", "SweepPlan", "SweepResult", "SweepSpec", "TrainedTrial", "UserError",
    "curves", "evaluate", "load", "plan", "plot", "read_space", "results", "sql", "study", "train",
]  # fmt: skip

__version__ = "0.1.0"

_MODULES = {
    "EvaluationResult": "sweeps.evaluation",
    "LoadError": "packs.trained_trial",
    "OtherCodeError": "trial.fingerprint",
    "PluginError": "trial.plugins",
    "ProtocolError": "packs.network_evaluation",
    "QueryError": "analysis.sql",
    "SearchSpaceError": "space.problems",
    "SettingsError": "trial.jax_settings",
    "StoreError": "store.files",
    "SweepError": "sweeps.on_cluster",
    "SweepPlan": "sweeps.sweep_plan",
    "SweepResult": "sweeps.sweep_result",
    "SweepSpec": "space.sweep_spec",
    "TrainedTrial": "packs.trained_trial",
    "UserError": "messages",
}


def __getattr__(name: str) -> Any:
    """The public classes, imported when they are first asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module 'sweeper' has no attribute {name!r}")
    return getattr(importlib.import_module(f"sweeper.{_MODULES[name]}"), name)


def read_space(path: "str | Path", overrides: Mapping[str, object] | None = None) -> "SweepSpec":
    """A search space from a YAML file, with every value checked (docs/search-space.md).

    Args:
        path: The file.
        overrides: Values that replace entries of the file, by dotted path, as `--set` does:
            `{"trial.steps": 100, "trial.model.width": {"choice": [16, 32]}}`. They are plain data.

    Raises:
        SearchSpaceError: the space cannot be run; one line for every mistake.
    """
    from sweeper.space import search_space

    return search_space.read(path, search_space.written(overrides or {}))


def plan(
    space: "str | Path | SweepSpec",
    results: "str | Path" = "results",
    *,
    retry_failed: bool = False,
    recompute_other_code: bool = False,
) -> "SweepPlan":
    """What `train` would do: the trials of a space, those with a row in the store, and those to run.

    Nothing is trained or written. Printed, a plan is a few lines such as `--dry-run` prints; `plan.cost()` estimates.

    Args:
        space: A search space, or its file.
        results: Folder or URL of the store, which need not exist.
        retry_failed: Run failed trials again.
        recompute_other_code: Compute rows again that are of other code.

    Raises:
        OtherCodeError: code was edited after this process had loaded it.
        SearchSpaceError: the space cannot be run.
        SettingsError: a setting of JAX that decides numbers was changed.
        PluginError: a plug-in cannot be loaded.
        StoreError: the store cannot be read.
    """
    from sweeper.sweeps.sweep_plan import plan_sweep

    return plan_sweep(space, results, retry_failed=retry_failed, recompute_other_code=recompute_other_code)


def train(
    plan: "SweepPlan",
    *,
    in_process: bool = False,
    address: str | None = None,
    concurrency: int | None = None,
    on_event: "Callable[[Event], None] | None" = None,
) -> "SweepResult":
    """Train, evaluate and commit the trials of a plan that the store lacks.

    What is committed is not run again, and what was interrupted goes on from its checkpoint. Ctrl-C leaves checkpoints.
    Printed, the result is the table at the end of `python -m sweeper.run`; `result.trials` has a row for every trial of
    the plan, with the columns of the view `trials` (docs/store.md), and `result.unfinished` the reasons of the others.
    What a plug-in raises is a failed row, and the other packs go on.

    Args:
        plan: What to train.
        in_process: Train pack after pack in this process, without Ray, which starts at once. A single pack that needs
            one core and no GPU does so by itself, if no address is given, here or as `RAY_ADDRESS`.
        address: Ray cluster (`host:port`, `auto`, `local`); by default the running cluster, else a local one.
        concurrency: At most so many packs at once on Ray; by default as many as fit.
        on_event: Hears every event of the training (`sweeper.events`); without it progress is printed.

    Raises:
        OtherCodeError: code was edited after this process had loaded it.
        StoreError: the store cannot be read or written.
        SweepError: there is no cluster that can run the sweep.
        KeyboardInterrupt: Ctrl-C came, or a request to stop (`sweeper stop`).
    """
    from sweeper.sweeps.training import train_plan

    return train_plan(plan, in_process=in_process, address=address, concurrency=concurrency, on_event=on_event)


def evaluate(
    trials: "str | Path | SweepSpec | Sequence[str]",
    results: "str | Path" = "results",
    *,
    address: str | None = None,
    concurrency: int | None = None,
    recompute_other_code: bool = False,
    **changes: Any,
) -> "EvaluationResult":
    """Evaluate stored networks on a Ray cluster by another protocol, without training.

    `result.evaluations` has one row an evaluation.

    Args:
        trials: A search space or its file, whose trials are evaluated; or ids of trials.
        results: Folder or URL of the store.
        address: As for `train`.
        concurrency: As for `train`.
        recompute_other_code: Make evaluations again that are of other code.
        changes: Changed entries of the protocols, such as `episodes=1000` (docs/networks.md); all others, and None, are
            those of each trial.

    Raises:
        ProtocolError: the protocol makes no sense.
        SearchSpaceError: the space cannot be read.
        StoreError: the store cannot be read or written.
        SweepError: there is no cluster that can evaluate.
        KeyboardInterrupt: Ctrl-C came, or a request to stop.
    """
    from sweeper.sweeps import evaluation

    changes = {name: value for name, value in changes.items() if value is not None}
    planned = evaluation.plan_evaluation(trials, changes, results, recompute_other_code=recompute_other_code)
    return evaluation.evaluate(planned, address=address, concurrency=concurrency)


def results(sweep: str, results: "str | Path" = "results") -> "pd.DataFrame":
    """The trials of a sweep that are committed, of any status: a narrow frame with one row a trial.

    It has the columns of the view `trials` in which any trial has a value, but not `spec` and `extra_metrics`, which
    other columns repeat, and the variables of the space. First come what varies, seed and metrics. Lists are tuples.

    Args:
        sweep: The name of a sweep of the store.
        results: Folder or URL of the store.

    Raises:
        QueryError: no trial of the sweep is committed, or none of the current versions.
        StoreError: there is no store or no such sweep, or it cannot be read.
    """
    from sweeper.analysis.ready_questions import results_of
    from sweeper.store.store import Store

    return results_of(Store.existing(results), sweep)


def sql(question: str, results: "str | Path" = "results") -> "pd.DataFrame":
    """The answer of a store to a query over its views (docs/store.md names them and their columns).

    Args:
        question: SQL, such as `select seed, avg(loss) from trials where status = 'finished' group by seed`.
        results: Folder or URL of the store.

    Raises:
        QueryError: DuckDB does not take the question.
        StoreError: there is no store, or it cannot be read.
    """
    from sweeper.analysis.sql import frame

    return frame(question, results)


def plot(
    x: str,
    y: str,
    results: "str | Path" = "results",
    *,
    split: str | None = None,
    where: str | None = None,
    rows: Literal["trials", "evaluations"] = "trials",
    logx: bool = False,
    logy: bool = False,
    points: bool = False,
) -> "Figure":
    """Any two columns of a store against each other, drawn as the panels of a space are.

    Against an entry of the specification a line shows means over training seeds and their range, and where nearly
    every place on the axis has a setting of its own a trial is a point; against `step` it is a training curve; against
    any other column a trial is a point. Each sweep has a series of its own.

    Args:
        x: A column of the view `trials`, or `step`.
        y: Another column, or the name of a training curve.
        results: Folder or URL of the store.
        split: The column that has a value for each series.
        where: A condition of SQL on the view `trials`.
        rows: Whether trials are drawn, or evaluations of their networks.
        logx: Whether the axis of `x` is logarithmic, as it is by itself where a space searches `x` on such a scale.
        logy: The same of `y`.
        points: Whether a trial is a point in any case.

    Raises:
        UserError: a column or a finished trial is not there.
        QueryError: the condition cannot be read.
        StoreError: there is no store, or it cannot be read.
    """
    from sweeper.analysis.plotting import plotted
    from sweeper.store.store import Store

    return plotted(Store.existing(results), x, y, split, where, rows, logx=logx, logy=logy, points=points)[0]


def curves(trial_id: str, results: "str | Path" = "results") -> "pd.DataFrame":
    """The training curves of a trial: one row a step, one column a curve.

    Args:
        trial_id: The trial, or the beginning of its id.
        results: Folder or URL of the store.

    Raises:
        QueryError: no trial, or several, have such an id.
        StoreError: there is no store, or it cannot be read.
    """
    from sweeper.analysis.ready_questions import trial_with_prefix
    from sweeper.store.store import Store

    store = Store.existing(results)
    points = store.curves([trial_with_prefix(store, trial_id)]).to_pandas()
    return points.pivot(index="step", columns="metric", values="value")


def study(
    sweep: str, results: "str | Path" = "results", storage: "str | optuna.storages.BaseStorage | None" = None
) -> "optuna.Study":
    """A sweep as a study of Optuna, for its importances, plots and dashboard (docs/trackers.md).

    A setting is one trial: its parameters are the entries that the space varies, and its value is the mean over
    training seeds of what the settings are ranked by. Nothing that is done with the study reaches the store.

    Args:
        sweep: The name of a sweep of the store.
        results: The store, a folder or a URL.
        storage: Where Optuna keeps the study, such as "sqlite:///studies.db"; an earlier study of the sweep there is
            replaced. By default the study is in memory.

    Raises:
        UserError: If the store cannot be read, or has no committed trial of such a sweep.
    """
    from sweeper.store.store import Store
    from sweeper.trackers import optuna_study

    return optuna_study.study(Store.existing(results), sweep, storage)


def load(trial_id: str, results: "str | Path" = "results") -> "TrainedTrial":
    """A trained trial from a store, with a network that can be called (docs/networks.md).

    Args:
        trial_id: The trial.
        results: Folder or URL of the store.

    Raises:
        LoadError: the trial has no row or no network, or is of other code than this checkout.
        StoreError: there is no store, or it cannot be read.
    """
    from sweeper.packs import trained_trial  # takes a second to import

    return trained_trial.load(trial_id, results)
