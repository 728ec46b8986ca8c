"""What the documents point to is there."""

import re
import subprocess

import pytest

from sweeper.trial.plugins import ROOT

DOCUMENTS = (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")
FOLDERS = "sweeper|tasks|models|objectives|search_spaces|tests|benchmarks|chaos|docs|clusters"
FILE = re.compile(rf"`((?:{FOLDERS})/[\w./-]*)`")

COMMIT = re.compile(r"\b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{7}\b")

MADE_BY_THE_READER = {"tasks/doors.py", "search_spaces/doors.yaml"}
"""Files of the example in docs/adding-a-task.md and docs/how-do-i.md."""


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


def test_commits_that_measurements_name_are_in_the_history():
    """Or in the list of those that were joined, in docs/performance.md."""
    history = subprocess.run(["git", "rev-list", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    if history.returncode != 0 or _is_shallow():
        pytest.skip("no history here")
    known = {commit[:7] for commit in history.stdout.split()}
    (joined,) = re.findall(r"^.* commits .* were joined:", (ROOT / "docs/performance.md").read_text(), re.M | re.S)
    known |= set(COMMIT.findall(joined.rpartition("\n\n")[2]))
    spaces = ROOT.glob("search_spaces/*.yaml")
    named = {path.name: set(COMMIT.findall(path.read_text())) - known for path in (*DOCUMENTS, *spaces)}
    assert not {name: commits for name, commits in named.items() if commits}


def _is_shallow() -> bool:
    command = ["git", "rev-parse", "--is-shallow-repository"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip() == "true"
