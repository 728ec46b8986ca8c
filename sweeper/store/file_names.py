"""Names of the files of trials, evaluations and sweeps, relative to the root of a store.

trials/task=<t>/baseline=<b>/<trial_id>.parquet                  a trial
evaluations/task=<t>/baseline=<b>/<trial_id>-<protocol>.parquet  an evaluation of its network
sweeps/<name>.json                                               a sweep
"""

import re

IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
TRIAL_ID = r"[0-9a-f]{20}"

_PLACE = rf"task=({IDENTIFIER})/baseline=({IDENTIFIER})"
_TRIAL = re.compile(rf"trials/{_PLACE}/({TRIAL_ID})\.parquet")
_EVALUATION = re.compile(rf"evaluations/{_PLACE}/({TRIAL_ID})-{TRIAL_ID}\.parquet")

SWEEP_FILE = re.compile(r"sweeps/([A-Za-z0-9_][\w.-]*)\.json", re.ASCII)


def sweep_file(name: str) -> str:
    return f"sweeps/{name}.json"


def trial_file_name(task: str, baseline: str, trial_id: str) -> str:
    return f"trials/task={task}/baseline={baseline}/{trial_id}.parquet"


def evaluation_file_name(task: str, baseline: str, trial_id: str, protocol: str) -> str:
    """The file of an evaluation; `protocol` is the id of the protocol."""
    return f"evaluations/task={task}/baseline={baseline}/{trial_id}-{protocol}.parquet"


def named_trial(name: str) -> tuple[str, str, str] | None:
    """Task, baseline and id of the trial whose file has this name; None for any other name."""
    return (match[1], match[2], match[3]) if (match := _TRIAL.fullmatch(name)) else None


def evaluated_trial(name: str) -> str | None:
    """The trial whose evaluation has this name; None for any other name."""
    return match[3] if (match := _EVALUATION.fullmatch(name)) else None
