"""Evaluations in a store: which of two counts."""

import dataclasses

from tests.filled_stores import evaluate
from tests.results import PROVENANCE, result


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
