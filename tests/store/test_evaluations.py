"""Evaluations in a store: what an earlier program has written, and which of two counts."""

import dataclasses
import shutil
from pathlib import Path

from sweeper.analysis.results import evaluations_of
from sweeper.store.schema import named_trial
from sweeper.trial.plugins import ROOT
from tests.filled_stores import evaluate
from tests.results import PROVENANCE, result


def test_an_evaluation_of_an_earlier_program_is_read(local):
    """Its seal has neither a status nor steps, which those of trials have."""
    files = [
        file for file in (ROOT / "published/evaluations").rglob("*.parquet") if b'"status"' not in file.read_bytes()
    ]
    file = min(files)
    assert b'"kind":"evaluation"' in file.read_bytes()
    trial_id = named_trial(file.relative_to(ROOT / "published").as_posix())
    trial = Path("trials", *file.parts[-3:-1], f"{trial_id}.parquet")
    for relative in (trial, Path("evaluations", *file.parts[-3:])):
        Path(local.root, relative).parent.mkdir(parents=True)
        shutil.copy(ROOT / "published" / relative, Path(local.root, relative))
    ((seal, evaluation),) = local.evaluations(local.seals())
    assert (seal.trial_id, seal.fingerprint) == (trial_id, evaluation["fingerprint"][0].as_py())
    (row,) = evaluations_of(local, local.trials()).to_pylist()
    (before,) = local.trials().to_pylist()
    assert row["success"] is not None
    assert (row["train_seconds"], row["seed"]) == (before["train_seconds"], before["seed"])
    assert row["spec"] != before["spec"]


def test_the_later_of_two_evaluations_counts_and_the_trial_stays(local):
    local.commit(result({"seed": 0}))
    (before,) = local.trials().to_pylist()
    mended = PROVENANCE.model_copy(update={"command": "later"})
    for provenance in (PROVENANCE, mended):
        evaluate(local, provenance=provenance)
    ((seal, evaluation),) = local.evaluations(local.seals())
    assert evaluation["command"].to_pylist() == ["later"]
    assert local.has(seal)
    assert not local.has(dataclasses.replace(seal, fingerprint="of other code"))
    assert local.trials().to_pylist() == [before]
