"""Grid search: every setting of the space."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Literal

from sweeper.space import holes
from sweeper.space.search import Search
from sweeper.space.yaml_tree import Node


class GridSearch(Search):
    """Takes the product of all choices, variant by variant, the last axis of the document fastest."""

    DRAWS = False

    method: Literal["grid"] = "grid"

    def settings(self, variants: Sequence[Node]) -> Iterator[Node]:
        return itertools.chain.from_iterable(map(holes.grid, variants))
