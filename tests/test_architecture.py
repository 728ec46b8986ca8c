"""The list of modules in docs/architecture.md is that of the code.

`python -m tests.test_architecture` writes the list anew.
"""

import ast

from sweeper.trial import plugins

ROOT = plugins.ROOT
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "```text\nsweeper/\n", "```\n"


def module_list() -> str:
    """Every module below `sweeper/` with the first sentence of its docstring, room by room.

    An `__init__.py` that holds no more than its docstring is left out.
    """
    lines = []
    modules = (ROOT / "sweeper").rglob("*.py")
    for path in sorted(modules, key=lambda path: (path.parent.parts, path.name)):
        tree = ast.parse(path.read_text())
        docstring = ast.get_docstring(tree)
        name = str(path.relative_to(ROOT / "sweeper"))
        if path.name != "__init__.py" or len(tree.body) > 1:
            assert docstring, f"{name} has no docstring"
            lines.append(f"  {name:38} {docstring.splitlines()[0]}\n")
    return BEGIN + "".join(lines) + END


def test_the_architecture_names_every_module_and_what_it_says_of_itself():
    assert module_list() in PAGE.read_text()


if __name__ == "__main__":
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(before + module_list() + rest.partition(END)[2])
