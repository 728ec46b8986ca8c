"""What the documents point to is there, and the table of rooms in docs/architecture.md is that of the code."""

import re

import pytest

from sweeper.trial.plugins import KINDS, ROOT

DOCUMENTS = (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")
FOLDERS = "sweeper|tasks|models|objectives|optimizers|experiments|search_spaces|tests|benchmarks|chaos|docs|clusters"
FILE = re.compile(rf"`((?:{FOLDERS})/[\w./-]*)`")

MADE_BY_THE_READER = {
    "tasks/doors.py", "search_spaces/doors.yaml", "experiments/sine.py", "search_spaces/sine.yaml", "models/gru.py",
    "search_spaces/gru.yaml", "experiments/stripes.py", "experiments/student.py", "search_spaces/stripes.yaml",
    "search_spaces/student.yaml",
}  # fmt: skip
"""Files of the examples in docs/adding-*.md."""


def _anchors(text: str) -> set[str]:
    """The anchors that a renderer of Markdown makes of headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files_and_headings_and_named_files_exist(document):
    text = document.read_text()
    for target in LINK.findall(text):
        if target.startswith(("https://", "http://")):
            continue
        name, _, anchor = target.partition("#")
        path = document.parent / name if name else document
        assert path.exists(), target
        assert not anchor or anchor in _anchors(path.read_text()), target
    assert not [name for name in set(FILE.findall(text)) - MADE_BY_THE_READER if not (ROOT / name).exists()]


def test_the_tests_that_tables_of_reliability_name_are_there():
    text = (ROOT / "docs" / "reliability.md").read_text()
    named = set(re.findall(r"`(\w+/test_\w+\.py)`", text))
    assert len(named) > 12
    assert not [name for name in named if not (ROOT / "tests" / name).is_file()]


def test_the_architecture_has_a_line_for_every_room():
    section = (ROOT / "docs" / "architecture.md").read_text().partition("## Rooms\n")[2].partition("\n## ")[0]
    lines = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    named = [name for line in lines for name in re.findall(r"`(\w+)`", line)]
    folders = {path.parent.name for path in (ROOT / "sweeper").glob("*/__init__.py")}
    files = {path.stem for path in (ROOT / "sweeper").glob("*.py")} - {"__init__", "__main__", "command_line"}
    assert sorted(named) == sorted(folders | files | {f"{kind}s" for kind in KINDS})
