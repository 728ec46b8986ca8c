"""The entries of a trial that a space varies, and their values: what an analysis of its settings needs of the space.

An entry is varied if a hole stands in its place, or an entry of a choice, or of a variant, that holds it. One that a
formula computes repeats what others say, and is none.
"""

from collections.abc import Iterator, Mapping

from sweeper.space.formulas import Formula
from sweeper.space.holes import Choice, Hole, holes_in
from sweeper.space.scales import Scale, Varied
from sweeper.space.yaml_tree import Node, plain
from sweeper.trial.entry_names import decoded, is_number


def varied_entries(tree: Node) -> Mapping[str, Varied]:
    """Every varied entry of a space's tree by its path, such as `experiment.width` or `variables.x`.

    Entries that only some settings have are among them, and those in which two variants happen to be equal.
    """
    places: dict[str, list[Node]] = {}
    for path, node in _open(tree, (), chosen=False):
        places.setdefault(".".join(path[path[:1] == ("trial",) :]), []).append(node)
    return {path: _varied(nodes) for path, nodes in places.items()}


def _open(node: Node, path: tuple[str, ...], chosen: bool) -> Iterator[tuple[tuple[str, ...], Node]]:
    match node.value:
        case Choice() as choice:
            for entry in choice.entries:
                yield from _open(entry, path, True)
        case dict() as entries:
            for key, entry in entries.items():
                yield from _open(entry, (*path, str(key)), chosen)
        case Hole() as hole:
            if hole.DRAWN:
                yield path, node
        case Formula():
            pass
        case _:
            if chosen or any(holes_in(node)):
                yield path, node


def _varied(nodes: list[Node]) -> Varied:
    scales = [scale for node in nodes if isinstance(node.value, Hole) and (scale := node.value.scale) is not None]
    listed = [decoded(plain(node)) for node in nodes if not isinstance(node.value, Hole) and not any(holes_in(node))]
    values = tuple(dict.fromkeys(listed))
    if not scales or not all(map(is_number, values)):
        return Varied(None, values)
    ends = [*values, *(end for scale in scales for end in (scale.low, scale.high))]
    alike = len({*scales}) == 1 and not values
    whole = all(scale.whole for scale in scales) and all(isinstance(value, int) for value in values)
    log = all(scale.log for scale in scales) and min(ends) > 0
    return Varied(Scale(min(ends), max(ends), log, scales[0].step if alike else None, whole), values)
