"""What a Python file says: a digest that comments, docstrings and formatting do not change, and what it names."""

import ast
import contextlib
import functools
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Meaning(NamedTuple):
    """What a file says."""

    digest: str  # twenty hexadecimal digits
    imports: tuple[str, ...]  # modules that the file may import, of which some are names inside modules
    words: tuple[str, ...]  # the words in its texts, in which it may name files, folders and modules


def words(text: str | bytes) -> list[str]:
    """Letters, digits, underscores and hyphens that stand together."""
    return re.findall(r"[\w-]+", text if isinstance(text, str) else text.decode(errors="replace"))


@functools.cache  # a process captures its code several times, and hardly a file differs in between
def meaning(data: bytes, package: tuple[str, ...]) -> Meaning:
    """What a Python file with these bytes says, which is in packages of these names."""
    # Python will say what is wrong with a file when it is loaded.
    with contextlib.suppress(SyntaxError, ValueError):
        tree = ast.parse(data)
        named: list[_Named] = []
        said = digest(json.dumps(_plain(tree, named)).encode())
        imports = [name for node in named if isinstance(node, ast.stmt) for name in _imported(node, package)]
        texts = {word for text in named if not isinstance(text, ast.stmt) for word in words(text)}
        return Meaning(said, tuple(dict.fromkeys(imports)), tuple(sorted(texts)))
    return Meaning(digest(data), (), ())


def _imported(node: ast.Import | ast.ImportFrom, package: tuple[str, ...]) -> Iterator[str]:
    """Names of modules that a statement may import, of which some are names inside modules."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    else:
        above = package[: len(package) - node.level + 1] if node.level else ()
        base = ".".join([*above, *([node.module] if node.module else [])])
        yield from (base if alias.name == "*" else f"{base}.{alias.name}" for alias in node.names)


_Named = ast.Import | ast.ImportFrom | str | bytes
"""What may name files and modules: import statements, and texts."""


def _plain(value: Any, named: list[_Named]) -> Any:
    """A syntax tree as plain data, which is the same in every version of Python that has its syntax.

    `named` gets the import statements and the texts in it: a second walk would take as long as this walk.
    """
    # Most values are nodes. To ask of a node whether it is a list is slow, so that question comes later.
    if isinstance(value, ast.Constant):
        if isinstance(value.value, (str, bytes)):
            named.append(value.value)
        return ["Constant", type(value.value).__name__, repr(value.value)]
    if isinstance(value, ast.AST):
        if isinstance(value, (ast.Import, ast.ImportFrom)):
            named.append(value)
        elif isinstance(value, ast.Call) and (module := _imported_by_call(value)):
            inner = module.lstrip(".")
            named.append(ast.ImportFrom(inner or None, [ast.alias("*")], len(module) - len(inner)))
        # Later versions of Python have further fields, which are empty in older programs.
        fields = {}
        for name in value._fields:
            field = _plain(getattr(value, name, None), named)
            if field not in (None, []):
                fields[name] = field
        return [type(value).__name__, fields]
    if isinstance(value, list):
        return [_plain(item, named) for item in value if not _is_text(item)]
    return value if value is None or isinstance(value, (str, bool)) else repr(value)


def _imported_by_call(node: ast.Call) -> str | None:
    """The module that `import_module("helper")`, `import_module(".helper", …)` or `__import__("helper")` imports."""
    called = getattr(node.func, "attr", getattr(node.func, "id", None))
    names = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "name")]
    if called in ("import_module", "__import__") and names and isinstance(names[0], ast.Constant):
        return names[0].value if isinstance(names[0].value, str) else None
    return None


def _is_text(node: Any) -> bool:
    """Whether a statement is a mere text: a docstring of a module, class or function, or of the name before it."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def digest(data: bytes) -> str:
    """Twenty hexadecimal digits that stand for some bytes."""
    return hashlib.sha256(data).hexdigest()[:20]


def digest_of_file(path: Path) -> str:
    """As `digest`, of a file that may be larger than the memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:20]
