"""A few of many values."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from sweeper.analysis.thinning import spread_out


@given(st.integers(0, 500), st.integers(2, 120))
def test_values_are_spread_evenly_between_the_ends(count, most):
    chosen = spread_out(range(count), most)
    assert len(chosen) == min(count, most)
    if chosen:
        assert (chosen[0], chosen[-1]) == (0, count - 1)
    gaps = [after - before for before, after in itertools.pairwise(chosen)]
    assert all(gap >= 1 for gap in gaps)
    assert not gaps or max(gaps) - min(gaps) <= 1
