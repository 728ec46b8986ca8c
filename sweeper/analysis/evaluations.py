"""Evaluations of stored networks as rows like those of trials.

The row of an evaluation has the columns of the trial's row: `seeds` and `votes` of its specification are those of the
other protocol, and its metrics, costs and origin are those of the evaluation. So panels and tables read evaluations
and trials by the same rules.
"""

import json
from collections.abc import Mapping

import pyarrow as pa

from sweeper.store.evaluations import IN_FILE, evaluations_table, stored_evaluations
from sweeper.store.store import TRIALS, Store
from sweeper.trial.columns import METRICS

OF_TRAINING = ("train_loss",)
"""Metrics of a row that no evaluation changes."""

OF_EVALUATION = [name for name in IN_FILE.names if name in TRIALS.names and name != "schema_version"]
"""Columns that an evaluation has under the name that they have in a row of a trial."""


def evaluation_rows(store: Store, rows: pa.Table, protocols: Mapping[str, str] | None = None) -> pa.Table:
    """The evaluations of trials, with the columns of `TRIALS`.

    Args:
        store: The store.
        rows: The rows of the trials.
        protocols: Id of the protocol wanted for each trial; by default evaluations by all protocols are read.
    """
    trials = {row["trial_id"]: row for row in rows.to_pylist()}
    stored = stored_evaluations(store, {key: seal.network for key, seal in store.seals(trials).items()})
    if protocols is not None:
        stored = [
            evaluation for evaluation in stored if protocols[evaluation.seal.trial_id] == evaluation.seal.protocol
        ]
    evaluated = evaluations_table(stored).to_pylist()
    answer = []
    for evaluation in evaluated:
        row, metrics = trials[evaluation["trial_id"]], json.loads(evaluation["metrics"])
        spec = json.loads(row["spec"]) | {"evaluation": json.loads(evaluation["protocol"])}
        further = {name: value for name, value in metrics.items() if name not in METRICS}
        answer.append(
            row
            | {name: _number(metrics.get(name)) for name in METRICS if name not in OF_TRAINING}
            | {name: evaluation[name] for name in OF_EVALUATION}
            | {"spec": json.dumps(spec, sort_keys=True, separators=(",", ":")), "extra_metrics": json.dumps(further)}
        )
    return pa.Table.from_pylist(answer, schema=TRIALS)


def _number(value: float | str | None) -> float | None:
    """A metric as a number; JSON spells out infinities and NaN as words."""
    return None if value is None else float(value)
