"""Trials: identity, the split into leaves and structure, and round trips."""

import json
import math
import pickle
import string
from typing import Annotated, Any

import jax
import pytest
from pydantic import Field, ValidationError

from models import transformer
from objectives.q_norm import Objective
from sweeper.learned_algorithms import trial_spec
from sweeper.learned_algorithms.trial_spec import Baseline, TrialSpec
from sweeper.trial.record import Spec, Traced, Unwritten, canonical
from sweeper.trial.trial import trial_id, trial_of
from tasks import coloring
from tests.trials import coloring_trial

DOCUMENTS = [
    {"task": {"name": "coloring", "vertices": 6}, "model": {"name": "transformer", "mlp": True}, "steps": 7,
     "baseline": baseline, "objective": {"q": 10, "final_q": "inf", "m": 4}, "optimizer": {"eps": 1.1e-7}, "seed": 3}
    for baseline in Baseline
]  # fmt: skip
"""Trials as a search space would write them."""

documents = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document["baseline"])


def _trial(document: dict[str, Any]) -> TrialSpec:
    return TrialSpec.model_validate(document)


def _changed(trial: TrialSpec, path: str, value: Any) -> TrialSpec:
    document = trial.model_dump()
    *parents, last = path.split(".")
    record = document
    for parent in parents:
        record = record[parent]
    record[last] = value
    return _trial(document)


# Identity


def test_trial_id_has_a_golden_value():
    # Every stored result has this number as its name. A change of it orphans all stores: raise a VERSION on purpose or
    # repair the hash, but do not just paste the new value.
    stored = coloring_trial(model={"name": "transformer", "width": 4, "key_size": 4}, steps=250)
    assert trial_id(stored) == "80d7d837a0ca7147efac"


STRUCTURE = {
    "task.vertices": 6, "task.training_cycles": 3, "model.width": 5, "model.attention": "softmax", "model.mlp": True,
    "objective.m": 3, "optimizer.schedule": "linear", "steps": 301, "batch_size": 9, "evaluation.seeds": 11,
    "evaluation.votes": [4], "baseline": "AE_R", "precision": "tensorfloat32",
}  # fmt: skip
LEAVES = {
    "objective.q": 4.0, "optimizer.learning_rate": 2e-3, "optimizer.final_learning_rate": 2e-4,
    "optimizer.warmup_steps": 11, "optimizer.beta1": 0.5, "optimizer.beta2": 0.5, "optimizer.eps": 1e-3,
    "optimizer.weight_decay": 0.1, "optimizer.clip_norm": 2.0, "seed": 1,
}  # fmt: skip


@pytest.mark.parametrize(("path", "value"), STRUCTURE.items())
def test_structural_fields_are_part_of_the_identity_and_need_another_program(path, value):
    trial = coloring_trial()
    changed = _changed(trial, path, value)
    assert trial_id(changed) != trial_id(trial)
    assert jax.tree.structure(changed) != jax.tree.structure(trial)
    # Of its baseline a program knows whether seeds r are fresh, which they are in both.
    same = path == "baseline"
    assert (jax.tree.structure(changed.for_programs()) == jax.tree.structure(trial.for_programs())) == same


@pytest.mark.parametrize(("path", "value"), LEAVES.items())
def test_traced_fields_are_part_of_the_identity_and_need_no_other_program(path, value):
    trial = coloring_trial()
    changed = _changed(trial, path, value)
    assert trial_id(changed) != trial_id(trial)
    assert jax.tree.structure(changed) == jax.tree.structure(trial)
    assert hash(jax.tree.structure(changed)) == hash(jax.tree.structure(trial))
    assert jax.tree.leaves(changed) != jax.tree.leaves(trial)


def test_a_final_q_is_part_of_the_identity_where_it_differs_from_q():
    trial = coloring_trial()
    assert trial_id(_changed(trial, "objective.final_q", "inf")) != trial_id(trial)
    assert trial_id(_changed(trial, "objective.final_q", trial.objective.q)) == trial_id(trial)
    assert "final_q" not in canonical(trial)["objective"]
    assert jax.tree.structure(_changed(trial, "objective.final_q", "inf")) == jax.tree.structure(trial)


@pytest.mark.parametrize("part", ["task", "model", "numerics"])
def test_a_raised_version_is_another_identity(part, monkeypatch):
    trial = coloring_trial()
    before = trial_id(trial)
    if part == "numerics":
        monkeypatch.setattr("sweeper.trial.trial.NUMERICS_VERSION", 2)
    else:
        monkeypatch.setattr(type(getattr(trial, part)), "VERSION", 2)
    assert trial_id(trial) != before


@pytest.mark.parametrize(
    ("path", "spellings"),
    [("optimizer.weight_decay", (0, -0.0)), ("objective.q", (3, 3.0)), ("objective.q", ("inf", "infinity", math.inf))],
)
def test_spellings_of_one_value_are_one_identity(path, spellings):
    assert len({trial_id(_changed(coloring_trial(), path, value)) for value in spellings}) == 1


# Ignored values


@documents
def test_ignored_values_are_normalised(document):
    trial = _trial(document)
    expected = trial.baseline in ("AE_r0", "AE_R")
    assert (trial.objective.q, trial.objective.final_q) == ((1.0, 1.0) if expected else (10.0, math.inf))
    assert trial.single_seed == (trial.baseline in ("AE_r0", "Aq_r0"))
    assert trial.objective.m == (1 if trial.single_seed else 4)


def _without_voting(**evaluation: Any) -> TrialSpec:
    return coloring_trial(task={"name": "ski_rental"}, optimizer={"name": "pgpe"}, evaluation=evaluation)


def test_a_task_without_voting_ignores_votes_and_needs_no_seeds_for_them():
    plain, named, other = _without_voting(seeds=20), _without_voting(seeds=20, votes=[3]), _without_voting(seeds=21)
    assert plain == named
    assert len({trial_id(plain), trial_id(named), trial_id(other)}) == 2
    assert trial_of(canonical(plain)) == plain
    assert canonical(plain)["evaluation"] == {"seeds": 20, "votes": [5, 30]}  # as of older trials, whose ids stay
    with pytest.raises(ValidationError, match=r"evaluation\.votes: .*30"):
        coloring_trial(evaluation={"seeds": 20})


def test_all_seeds_are_enough_for_the_votes():
    recall = {"name": "recall", "seed_bits": 3}
    with pytest.raises(ValidationError, match=r"evaluation\.votes: .*30 .*8"):
        coloring_trial(task=recall, evaluation={"exhaustive": True})


# Records


@documents
def test_a_dump_json_a_pickle_and_a_tree_give_the_trial_and_its_identity_back(document):
    trial = _trial(document)
    leaves, structure = jax.tree.flatten(trial)
    identity, dumped = trial_id(trial), trial.model_dump()
    ways = (
        _trial(dumped), _trial(json.loads(json.dumps(canonical(trial), allow_nan=False))),
        pickle.loads(pickle.dumps(trial)), jax.tree.unflatten(structure, leaves),
    )  # fmt: skip
    for again in ways:
        assert again == trial
        assert trial_id(again) == identity
    assert ways[0].model_dump() == dumped
    assert len(identity) == 20
    assert set(identity) <= set(string.hexdigits.lower()), "a safe name of a file"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("optimizer.warmup_steps", 3 * 10**9),
        ("objective.q", 1e39),
        ("steps", 3 * 10**9),
    ],
)
def test_a_value_that_no_compiled_program_holds_is_refused(path, value):
    """In float32 the largest would be infinity; int32 ends at 2**31 - 1."""
    with pytest.raises(ValidationError) as caught:
        _changed(coloring_trial(), path, value)
    (mistake,) = caught.value.errors()
    assert mistake["loc"] == tuple(path.split("."))[-len(mistake["loc"]) :]
    assert mistake["input"] == value


def test_random_streams_differ_from_each_other_and_from_trial_to_trial():
    keys = []
    for seed in range(5):
        keys += coloring_trial(seed=seed).keys()
    assert len({tuple(jax.random.key_data(key).tolist()) for key in keys}) == 5 * len(trial_spec.TrialKeys._fields)


def test_random_streams_depend_on_the_seed_alone():
    one, other = coloring_trial(seed=3), coloring_trial(seed=3, steps=9, batch_size=3, baseline="AE_r0")
    assert all((a == b).all() for a, b in zip(one.keys(), other.keys(), strict=True))


# Fields that join a record later


class GrownTask(coloring.Task):
    chords: Annotated[int, Field(ge=0), Unwritten(at=0)] = 0


class GrownModel(transformer.Model):
    dropout: Annotated[Traced[float], Unwritten(at=0.0)] = 0.0
    norms: Annotated[tuple[str, ...], Unwritten(at=())] = ()


class GrownObjective(Objective):
    floor: Annotated[Traced[float | None], Unwritten(at=None)] = None


def _grown(trial: TrialSpec, **values: Any) -> TrialSpec:
    """The trial with records that have more fields; `values` are theirs."""

    def record(cls: type[Spec], name: str) -> Spec:
        return cls.model_validate(vars(getattr(trial, name)) | values.get(name, {}))

    parts = {"task": record(GrownTask, "task"), "model": record(GrownModel, "model")}
    return TrialSpec.model_validate(vars(trial) | parts | {"objective": record(GrownObjective, "objective")})


@documents
def test_fields_that_join_task_model_and_objective_change_no_id(document):
    trial = _trial(document)
    grown = _grown(trial)
    assert isinstance(grown.objective, GrownObjective) == trial.baseline.uses_objective
    assert canonical(grown) == canonical(trial)
    assert trial_id(grown) == trial_id(trial)


@pytest.mark.parametrize(
    "values",
    [{"task": {"chords": 1}}, {"model": {"dropout": 0.5}}, {"model": {"norms": ("a",)}}, {"objective": {"floor": 0.0}}],
)
@pytest.mark.parametrize("baseline", Baseline)
def test_their_other_values_are_part_of_the_identity(values, baseline):
    trial = coloring_trial(baseline=baseline)
    ignored = "objective" in values and not trial.baseline.uses_objective
    assert (trial_id(_grown(trial, **values)) == trial_id(trial)) == ignored


def test_a_default_that_does_not_mean_as_before_is_refused():
    with pytest.raises(TypeError, match=r"Misleading\.chords .*0.*3"):

        class Misleading(coloring.Task):
            chords: Annotated[int, Unwritten(at=0)] = 3
