"""What the documents point to is there."""

import re

import pytest

from sweeper.trial.plugins import ROOT

DOCUMENTS = (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")
FOLDERS = "sweeper|tasks|models|objectives|search_spaces|tests|benchmarks|chaos|docs|clusters"
FILE = re.compile(rf"`((?:{FOLDERS})/[\w./-]*)`")

MADE_BY_THE_READER = {"tasks/doors.py", "search_spaces/doors.yaml"}
"""Files of the example in docs/adding-a-task.md."""


def _anchors(text: str) -> set[str]:
    """The anchors that a renderer of Markdown makes of headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files_and_headings(document):
    for target in LINK.findall(document.read_text()):
        if target.startswith(("https://", "http://")):
            continue
        name, _, anchor = target.partition("#")
        path = document.parent / name if name else document
        assert path.exists(), f"{document.name}: {target}"
        assert not anchor or anchor in _anchors(path.read_text()), f"{document.name}: {target}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_files_exist(document):
    named = set(FILE.findall(document.read_text())) - MADE_BY_THE_READER
    assert not [name for name in named if not (ROOT / name).exists()]
