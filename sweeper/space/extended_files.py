"""The text of a search space as a tree, joined with the files that it extends.

A space that begins with `extends: other.yaml` is the document of the other file with its own entries written over it,
by the rules of variants. The text that a store keeps of such a space has the entries of all files, so that the record
of a sweep needs no further file.
"""

from dataclasses import replace
from pathlib import Path

from sweeper.messages import did_you_mean, nearest_name
from sweeper.space.problems import Elsewhere, Problem, Refused, shown
from sweeper.space.yaml_tree import Node, document_tree, merged, text_of


def document(path: Path) -> tuple[Node, str]:
    """The document in a file, joined with the files that it extends: its tree without `extends`, and its text.

    Nodes of other files have an `Elsewhere` as their place. Paths under `extends` are relative to the file's folder. A
    file that cannot be read, or is no YAML, is refused.
    """
    text = _file_text(path)
    root = document_tree(text)
    joined = _joined(root, (path,))
    return (root, text) if joined is root else (joined, text_of(joined))


def _joined(root: Node, files: tuple[Path, ...]) -> Node:
    """The document with the entries of all files that it extends, directly or through another file.

    `files` led here by `extends`, the last of them holds `root`; a repeated file is a circle.
    """
    if not isinstance(root.value, dict) or "extends" not in root.value:
        return root
    named = root.value["extends"]

    if not isinstance(named.value, str):
        raise named.refusal(f"expected the path of a search space, got {shown(named.value)}")
    other = files[-1].parent / named.value
    try:
        base = document_tree(_file_text(other), place=lambda line: line and Elsewhere(str(other), line))
    except Refused as error:
        raise named.refusal(error.problem.line(str(other))) from None
    if other.resolve() in [file.resolve() for file in files]:
        raise named.refusal(f"{shown(named.value)} extends this space in its turn")
    if not isinstance(base.value, dict):
        raise named.refusal(f"{shown(named.value)} is no search space")
    base = _joined(base, (*files, other))
    # The name of a sweep is its own: two sweeps of one name would be one.
    return merged(_without(base, "name"), _without(root, "extends"))


def _without(node: Node, key: str) -> Node:
    return replace(node, value={other: entry for other, entry in node.value.items() if other != key})


def _file_text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise Refused(Problem("", f"there is no such file{did_you_mean(_nearest_space(path))}")) from None
    except (OSError, ValueError) as error:  # which is no UTF-8
        raise Refused(Problem("", f"cannot be read: {error}")) from None


def _nearest_space(path: Path) -> str | None:
    """The file whose name is most like that of a missing space, in the same folder or among the spaces shipped."""
    folders = (Path("search_spaces"), path.parent)
    spaces = {other.stem: str(other) for folder in folders for other in folder.glob("*.y*ml")}
    return spaces.get(nearest_name(path.stem, spaces) or "")
