"""Sizes that no machine has are refused while the space is read, where they are written; nothing is allocated."""

import pytest

from sweeper.packs.plan import done_statuses
from sweeper.packs.work_sources import work_source
from sweeper.space.problems import SearchSpaceError
from sweeper.space.search_space import of_text
from sweeper.store.store import Store
from tests.tiny_sweeps import SPACE

ABSURD = {
    "m": ("objective: {q: 3, m: 2}", "objective: {q: 3, m: 999999999}", "trial.objective.m", 6),
    "a width": ("width: 4", "width: 1000000000000", "trial.model.width", 4),
    "one of two widths": ("width: 4", "width: {choice: [4, 1000000000000]}", "trial.model.width", 4),
    "seeds": ("seeds: 1}", "seeds: 1000000}", "trial.seed.seeds", 11),
    "lanes": ("\ntrial:", "\nresources: {lanes: 99999999999}\ntrial:", "resources.lanes", 2),
    "a rung": (
        "\ntrial:",
        "\nsearch: {method: halving, starts: 2, rungs: [{steps: 10000000000, keep: 1}]}\ntrial:",
        "search.rungs[0].steps",
        2,
    ),
}


def planned(text, store):
    return work_source(of_text("space.yaml", text), store, {}, done_statuses(False, False), lambda *_: None, str)


@pytest.mark.parametrize(("old", "new", "path", "line"), ABSURD.values(), ids=ABSURD)
def test_an_absurd_size_is_refused_with_its_line(tmp_path, old, new, path, line):
    assert old in SPACE
    with pytest.raises(SearchSpaceError) as refused:
        planned(SPACE.replace(old, new, 1), Store.open(tmp_path))
    (problem,) = refused.value.problems
    assert (problem.path, problem.where) == (path, line)


def test_a_number_that_is_large_and_fits_is_taken():
    of_text("space.yaml", SPACE.replace("batch_size: 8", "batch_size: 60000"))
