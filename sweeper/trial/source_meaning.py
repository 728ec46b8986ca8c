"""What a Python file says: a digest that comments, docstrings and formatting do not change, and what it names."""

import ast
import contextlib
import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple


class Meaning(NamedTuple):
    """What a file says."""

    digest: str  # twenty hexadecimal digits, which are others in another minor version of Python
    imports: tuple[str, ...]  # modules that the file may import, of which some are names inside modules
    texts: tuple[str, ...]  # its texts that may be the name or the path of a file, or a suffix


@functools.cache  # a process captures its code several times, and hardly a file differs in between
def meaning(data: bytes, package: tuple[str, ...]) -> Meaning:
    """What a Python file with these bytes says, which is in packages of these names."""
    # Python will say what is wrong with a file when it is loaded.
    with contextlib.suppress(SyntaxError, ValueError):
        tree = ast.parse(data)
        for node in ast.walk(tree):
            if isinstance(body := getattr(node, "body", None), list):  # that of a lambda is none
                node.body = [statement for statement in body if not _is_text(statement)]  # type: ignore[attr-defined]
        nodes = list(ast.walk(tree))
        imports = [name for node in nodes for name in _imported(node, package)]
        texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        files = sorted(text for text in texts if "\n" not in text and PurePosixPath("any" + text).suffix)
        return Meaning(digest(ast.dump(tree).encode(errors="surrogatepass")), tuple(imports), tuple(files))
    return Meaning(digest(data), (), ())


def _imported(node: ast.AST, package: tuple[str, ...]) -> Iterator[str]:
    """Names of modules that a statement may import, of which some are names inside modules."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package[: len(package) - node.level + 1] if node.level else ()
        base = ".".join([*above, *([node.module] if node.module else [])])
        yield from (base if alias.name == "*" else f"{base}.{alias.name}" for alias in node.names)


def _is_text(node: ast.AST) -> bool:
    """Whether a statement is a mere text: a docstring of a module, class or function, or of the name before it."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def digest(data: bytes) -> str:
    """Twenty hexadecimal digits that stand for some bytes."""
    return hashlib.sha256(data).hexdigest()[:20]


def digest_of_file(path: Path) -> str:
    """As `digest`, of a file that may be larger than the memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:20]
