"""Random search: settings that are drawn independently of each other."""

import random
from collections.abc import Iterator, Sequence
from typing import Literal

from sweeper.space import holes
from sweeper.space.search import Search, open_holes
from sweeper.space.yaml_tree import Node


class RandomSearch(Search):
    """Draws `trials` settings, each from its own index and the search seed.

    Every hole of a setting has a random stream of its own. So its draws depend on no other hole, and a search with more
    trials begins with the settings of the shorter search.
    """

    DRAWS = True

    method: Literal["random"]

    def settings(self, variants: Sequence[Node]) -> Iterator[Node]:
        open_to_draw = open_holes(variants)
        for index in range(self.trials or 0):
            streams = {path: random.Random(f"{self.seed}/{index}/{path}") for path in open_to_draw}
            setting = {path: holes.drawn(hole, streams[path].random()) for path, hole in open_to_draw.items()}
            yield from holes.grid(holes.filled(variants[setting.get("variants", 0)], setting))
