"""Cells and packs: what may share a program, and that packing loses nothing."""

import itertools

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.packs.packing import Pack, cells, lane, packs, stack, structure
from tests.trials import coloring_trial

settings = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 4),
        "objective": st.fixed_dictionaries({"q": st.sampled_from([1.0, 3.0]), "m": st.sampled_from([1, 2])}),
        "baseline": st.sampled_from(["AE_R", "Aq_R", "Aq_r0"]),
    }
)


def _distinct(changes):
    return list(dict.fromkeys(coloring_trial(**change) for change in changes))


@pytest.mark.slow
@given(st.lists(settings, max_size=8), st.one_of(st.none(), st.integers(1, 4)))
def test_every_trial_is_in_exactly_one_pack_of_its_own_structure(changes, lanes):
    trials = _distinct(changes)
    made = packs(trials, lanes)
    assert sorted(map(repr, trials)) == sorted(map(repr, itertools.chain(*(pack.trials for pack in made))))
    assert all(len(set(map(structure, pack.trials))) == 1 for pack in made)
    if lanes is None:
        assert all(len({repr(trial.model_copy(update={"seed": 0})) for trial in pack.trials}) == 1 for pack in made)
    else:
        assert all(len(pack.trials) <= lanes for pack in made)


def test_traced_values_share_a_cell_and_structural_ones_do_not():
    trials = [
        coloring_trial(), coloring_trial(seed=1), coloring_trial(objective={"q": 7.0, "m": 2}),
        coloring_trial(optimizer={"learning_rate": 0.5}), coloring_trial(objective={"q": 3.0, "m": 4}),
        coloring_trial(steps=400), coloring_trial(baseline="AE_R"),
        coloring_trial(baseline="Aq_r0", objective={"q": 3.0, "m": 2}),
    ]  # fmt: skip
    assert [len(cell) for cell in cells(trials)] == [5, 1, 1, 1]


def test_trials_of_two_structures_are_no_pack():
    with pytest.raises(ValueError, match="one structure"):
        Pack((coloring_trial(), coloring_trial(steps=3)))


def test_a_lane_of_a_stack_is_the_trial():
    trials = [coloring_trial(seed=seed) for seed in (3, 9)]
    stacked = stack(trials)
    assert jax.tree.structure(stacked) == structure(trials[0])
    for index, trial in enumerate(trials):
        for leaf, expected in zip(jax.tree.leaves(lane(stacked, index)), jax.tree.leaves(trial), strict=True):
            np.testing.assert_allclose(leaf, expected, rtol=1e-7)
