"""YAML text becomes a tree of nodes that remember where they were written.

Every later message about a value names its dotted path and its line, or the `--set` that wrote the value; merging and
overriding keep both. A mistake in the text itself ends the reading (`Refused`), because the text after the mistake
cannot be understood.

Invariants:
    - Text is read by the core schema of YAML 1.2 (`1e-3` is a number, `no` a string), duplicate keys are refused, and
      no object is ever built from a tag. Integers have 64 bits, as in the columns of a store.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from sweeper.space.problems import Problem, Refused, Where, shortened, shown
from sweeper.trial import plugins

RESERVED = ("choice", "uniform", "log_uniform", "int", "logspace", "formula")
"""Keys that open a hole wherever they stand in a trial; a mapping that has one is merged as a whole."""

OPENING = {"seed": (*RESERVED, "seeds")}
"""The keys that open a hole at a place of a trial where these are not `RESERVED` alone."""


Place = Callable[[int | None], Where]

# Nodes


class Alternatives:
    """A value that stands for its entries, as a choice does."""

    entries: "list[Node]"

    def with_entries(self, entries: "list[Node]") -> "Alternatives":
        """The same value with other entries."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Node:
    """A value of the document that remembers where it was written."""

    value: Any  # a scalar, a dictionary or list of nodes, a `Hole` or a `Formula`
    path: str  # dotted, from the top of the document
    where: Where  # line of its key, or the text of the `--set` that holds it

    def problem(self, message: str, *below: Any) -> Problem:
        """A mistake in this value, or in what it should hold below it, by keys of mappings and places in lists."""
        return Problem(path_of(below, self.path), message, self.where)

    def refusal(self, message: str) -> Refused:
        """A mistake in this value that ends the reading."""
        return Refused(self.problem(message))

    @property
    def children(self) -> list["Node"]:
        """The entries of a mapping, a list or a choice, in order; empty for any other value."""
        match self.value:
            case dict() as entries:
                return list(entries.values())
            case list() as items:
                return items
            case Alternatives() as kind:
                return kind.entries
            case _:
                return []

    def with_children(self, children: Iterable["Node"]) -> "Node":
        """The same mapping, list or choice with other entries; any other value as it is."""
        match self.value:
            case dict() as entries:
                return replace(self, value=dict(zip(entries, children, strict=True)))
            case list():
                return replace(self, value=list(children))
            case Alternatives() as kind:
                return replace(self, value=kind.with_entries(list(children)))
            case _:
                return self


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it."""
    yield node
    for child in node.children:
        yield from walk(child)


def plain(node: Node) -> Any:
    """The data of a tree without holes, without the nodes' places."""
    match node.value:
        case dict() as entries:
            return {key: plain(entry) for key, entry in entries.items()}
        case list() as items:
            return [plain(item) for item in items]
        case value:
            return value


def entry_at(node: Node, location: Iterable[Any]) -> Node | None:
    """The node at this place, by keys of mappings and places in lists; None if nothing is written there."""
    for part in location:
        match node.value:
            case dict() as entries if part in entries:
                node = entries[part]
            case list() as items if isinstance(part, int) and part < len(items):
                node = items[part]
            case _:
                return None
    return node


def descendant(node: Node, location: Iterable[Any]) -> Node:
    """The node at pydantic's location, whose parts that are no place in the document (tags of unions) are left out."""
    for part in location:
        # Pydantic writes every key as a text.
        keys = [key for key in node.value if str(key) == part] if isinstance(node.value, dict) else []
        node = entry_at(node, [part]) or entry_at(node, keys[:1] or [None]) or node
    return node


def signature(node: Node) -> Any:
    """Something hashable that is equal for equal values; 1 and 1.0 are, 1 and true are not."""
    match node.value:
        case dict() as entries:
            return frozenset((key, signature(entry)) for key, entry in entries.items())
        case list() as items:
            return tuple(map(signature, items))
        case value:
            return isinstance(value, bool), isinstance(value, str), value


def merged(base: Node, patch: Node) -> Node:
    """`patch` written over `base`: mappings entry by entry, everything else whole.

    A mapping with a reserved key is replaced whole. So is a record whose `name` the patch changes, because its other
    keys belong to another task or model. A record without a name has that of the default.
    """
    old, new = base.value, patch.value
    if not isinstance(old, dict) or not isinstance(new, dict) or any(kind in old or kind in new for kind in RESERVED):
        return patch
    name = plain(old["name"]) if "name" in old else DEFAULT_NAMES.get(base.path)
    if name is not None and "name" in new and name != plain(new["name"]):
        return patch
    entries = {key: merged(old[key], entry) if key in old else entry for key, entry in new.items()}
    return replace(base, value=old | entries)


DEFAULT_NAMES = {f"trial.{kind}": name for kind, name in plugins.DEFAULTS.items()}  # by the path of the record

# Text


class _Loader(yaml.SafeLoader):
    """Composes nodes by the core schema of YAML 1.2; nothing is constructed from them."""


_TAG = "tag:yaml.org,2002:"
_SCALARS = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?(\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN",
}
_Loader.yaml_implicit_resolvers = {}
for _name, _pattern in _SCALARS.items():
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(rf"(?:{_pattern})\Z"), None)


class _Dumper(yaml.SafeDumper):
    """Writes scalars so that `_Loader` reads the same: strings that look like numbers of YAML 1.2 are quoted."""


_Dumper.yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers


def text_of(root: Node) -> str:
    """The YAML text of a tree without holes; `document_tree` reads the same data from it."""
    return yaml.dump(plain(root), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def document_tree(text: str, path: str = "", place: Place = lambda line: line) -> Node:
    """The one YAML document in `text`, all aliases written out; refused if it is no YAML.

    `place` says where a line of the text is, or the text if the line is not known.
    """
    try:
        tree = _Loader(text).get_single_node()
        at = Node(None, path, place(1 if tree is None else _line(tree)))
        return at if tree is None else _filled(at, tree, place)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, what = mark and mark.line + 1, ", ".join(filter(None, (error.context, error.problem)))
    except yaml.reader.ReaderError as error:
        line, what = text[: error.position].count("\n") + 1, f"the character {chr(error.character)!a} {error.reason}"
    except (ValueError, OverflowError) as error:  # of a tag that does not fit, or of an escape that is no character
        line, what = None, str(error)
    except RecursionError:
        line, what = None, "values are nested too deep; does an alias hold itself?"
    raise Node(None, path, place(line)).refusal(f"not valid YAML: {what}")


def _line(tree: yaml.Node) -> int:
    return tree.start_mark.line + 1


def _filled(at: Node, tree: yaml.Node, place: Place) -> Node:
    """The node `at` a place, with the value of a node of PyYAML."""
    match tree:
        case yaml.MappingNode(tag="tag:yaml.org,2002:map"):
            entries: dict[Any, Node] = {}
            for key_tree, value in tree.value:
                key = _key(key_tree, Node(None, at.path, place(_line(key_tree))))
                node = Node(None, joined(at.path, key), place(_line(key_tree)))
                if key in entries:
                    raise node.refusal("the key appears twice")
                entries[key] = _filled(node, value, place)
            return replace(at, value=entries)
        case yaml.SequenceNode(tag="tag:yaml.org,2002:seq"):
            items = [(Node(None, f"{at.path}[{i}]", place(_line(item))), item) for i, item in enumerate(tree.value)]
            return replace(at, value=[_filled(*each, place) for each in items])
        case yaml.ScalarNode():
            return replace(at, value=_scalar(tree, at))
    raise at.refusal(f"the tag {tree.tag} is not supported")


def _key(tree: yaml.Node, mapping: Node) -> str | int | float:
    key = _scalar(tree, mapping) if isinstance(tree, yaml.ScalarNode) else [*tree.value]
    if isinstance(key, bool) or not isinstance(key, str | int | float):
        raise mapping.refusal(f"a key must be a word or a number, not {shown(key)}")
    return key


def _scalar(tree: yaml.ScalarNode, at: Node) -> Any:
    text = tree.value
    match tree.tag.removeprefix(_TAG):
        case "str":
            return text
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            number = int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
            if abs(number) >= 2**63:
                raise at.refusal(f"the integer {shortened(text)} is too large")
            return number
        case "float":
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    raise at.refusal(f"the tag {tree.tag} is not supported")


def joined(path: str, key: Any) -> str:
    """The path of an entry of the mapping at `path`."""
    text = key if isinstance(key, str) and re.fullmatch(r"[\w-]{1,80}", key) else shown(key)
    return f"{path}.{text}" if path else text


def path_of(location: Iterable[str | int], path: str = "") -> str:
    """The path of what lies below `path`, by keys of mappings and places in lists."""
    for part in location:
        path = f"{path}[{part}]" if isinstance(part, int) else joined(path, part)
    return path


_STEP = re.compile(r"([A-Za-z_][\w-]*)|\[([0-9]{1,6})\]")
_PATH = re.compile(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*|\[[0-9]{1,6}\])*")


def overridden(root: Node, override: str) -> Node:
    """The document with one `path=value` written into it; refused if the path leads nowhere or the value is no YAML."""
    path, equals, text = override.partition("=")
    steps = [key or int(index) for key, index in _STEP.findall(path)]
    if not equals or not _PATH.fullmatch(path):
        example = "expected path=value, such as trial.steps=100 or variants[0].model.width=32"
        raise Node(None, "", override).refusal(example)
    value = document_tree(text, path, lambda _: override)

    def written(node: Node, remaining: Sequence[str | int]) -> Node:
        if not remaining:
            return value
        step, rest = remaining[0], remaining[1:]
        match node.value, step:
            case dict() as entries, str():
                below = entries.get(step, Node({}, joined(node.path, step), override))
                return replace(node, value={**entries, step: written(below, rest)})
            case list() as items, int() if step < len(items):
                return replace(node, value=[*items[:step], written(items[step], rest), *items[step + 1 :]])
        raise replace(node, where=override).refusal(f"has no entry {path_of([step])}: it is {shown(node.value)}")

    return written(root, steps)
