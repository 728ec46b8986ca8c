"""The text of a search space as a tree, joined with the files that it extends.

A space that begins with `extends: other.yaml` is the document of the other file with its own entries written over it,
by the rules of variants. The text that a store keeps of such a space has the entries of all files, so that the record
of a sweep needs no further file.
"""

import contextlib
import os
import re
import stat
from dataclasses import replace
from pathlib import Path

from sweeper.messages import did_you_mean, nearest_name
from sweeper.space.problems import Elsewhere, Problem, Refused, shown
from sweeper.space.yaml_tree import Node, document_tree, merged, text_of

MAX_BYTES = 2**20
MAX_BASES = 8


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
    if len(files) > MAX_BASES or os.path.realpath(other) in {os.path.realpath(file) for file in files}:
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
        content = _content(path)
    except FileNotFoundError:
        raise Refused(Problem("", f"there is no such file{did_you_mean(_nearest_space(path))}")) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise Refused(Problem("", f"cannot be read: {reason}")) from None
    if len(content) > MAX_BYTES:
        raise Refused(Problem("", f"larger than {MAX_BYTES:,} bytes; no search space needs that"))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        message = f"not UTF-8: the byte {content[error.start]:#04x} cannot stand here"
        raise Refused(Problem("", message, line)) from None


def _content(path: Path) -> bytes:
    """What a regular file holds, one byte more than is allowed at most; a pipe or a device might never end."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is no regular file")
        return file.read(MAX_BYTES + 1)


def _nearest_space(path: Path) -> str | None:
    """The search space whose name is most like that of a missing file, in the same folder or among those shipped."""
    spaces: dict[str, Path] = {}
    for folder in (path.parent, Path("search_spaces")):
        for other in sorted(folder.glob("*.y*ml")):
            with contextlib.suppress(OSError, ValueError):
                if re.search(rb"^(trial|extends) *:", _content(other), re.MULTILINE):
                    spaces.setdefault(other.stem, other)
    nearest = nearest_name(path.stem, spaces)
    return str(spaces[nearest]) if nearest else None
