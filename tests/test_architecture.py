"""The table of rooms in docs/architecture.md is that of the code."""

import re

from sweeper.trial.plugins import KINDS, ROOT


def test_the_architecture_has_a_line_for_every_room():
    section = (ROOT / "docs" / "architecture.md").read_text().partition("## Rooms\n")[2].partition("\n## ")[0]
    lines = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    named = [name for line in lines for name in re.findall(r"`(\w+)`", line)]
    folders = {path.parent.name for path in (ROOT / "sweeper").glob("*/__init__.py")}
    files = {path.stem for path in (ROOT / "sweeper").glob("*.py")} - {"__init__", "__main__", "command_line"}
    assert sorted(named) == sorted(folders | files | {f"{kind}s" for kind in KINDS})
