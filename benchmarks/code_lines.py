"""`python -m benchmarks.code_lines`: how large each room of `sweeper/` is, for `make check`.

Lines of code are lines with a token of Python: no blank lines, comments or docstrings.
"""

import ast
import collections
import io
import tokenize
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "sweeper"
LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(text: str) -> int:
    """Number of lines of code of a module."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def main() -> None:
    rooms: dict[str, list[int]] = collections.defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        folder = file.parent.relative_to(PACKAGE).as_posix()
        rooms["sweeper" if folder == "." else folder].append(code_lines(file.read_text(encoding="utf-8")))
    for room, modules in sorted(rooms.items()):
        print(f"{room:<26} {len(modules):>4} modules {sum(modules):>7,} lines of code")
    print(f"{'all':<26} {sum(map(len, rooms.values())):>4} modules {sum(map(sum, rooms.values())):>7,} lines of code")


if __name__ == "__main__":
    main()
