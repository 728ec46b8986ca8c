"""Names of the files of a store, below the folders `trials`, `curves`, `outcomes` and `networks`.

task=<t>/baseline=<b>/<trial_id>.parquet             a trial's own file
task=<t>/baseline=<b>/compacted-<digest>.parquet     the rows or curves of many trials
task=<t>/baseline=<b>/<trial_id>.safetensors         the weights of a trial's network
task=<t>/baseline=<b>/<trial_id>-<protocol>.parquet  an evaluation of the network, below `evaluations`

`file_path` derives the names of a trial's other files from the name of its row.
"""

import re

from sweeper.store.schema import FileKind

IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
TRIAL_ID = r"[0-9a-f]{20}"
COMPACTED = r"compacted-[0-9a-f]{20}"

_NAME = re.compile(rf"task={IDENTIFIER}/baseline={IDENTIFIER}/(?:{TRIAL_ID}|{COMPACTED})\.parquet")


_EVALUATION = re.compile(rf"task={IDENTIFIER}/baseline={IDENTIFIER}/{TRIAL_ID}-{TRIAL_ID}\.parquet")


def file_name(task: str, baseline: str, title: str) -> str:
    """The name of a file whose title is a trial's id, with a protocol or without, or `compacted-` and twenty digits."""
    return f"task={task}/baseline={baseline}/{title}.parquet"


def is_file_name(name: str) -> bool:
    """Whether a store has files of this name."""
    return _NAME.fullmatch(name) is not None


def is_evaluation_name(name: str) -> bool:
    """Whether a store has files of this name below `evaluations`."""
    return _EVALUATION.fullmatch(name) is not None


def file_path(kind: FileKind, name: str) -> str:
    """The file of a kind, relative to the root, that belongs to the row of this name below `trials`."""
    return f"{kind}/{name.removesuffix('.parquet') + '.safetensors' if kind == 'networks' else name}"


def is_compacted(name: str) -> bool:
    """Whether a file of this name belongs to many trials."""
    return title(name).startswith("compacted-")


def title(name: str) -> str:
    """The last part of a name without its ending: the id of the trial, for a trial's own file."""
    return name.rpartition("/")[2].removesuffix(".parquet")
