"""Parts of search spaces and queries that the documents show: each can be typed as it stands.

Parts of a space are written over a small space, which is read with its panels. Whole pages of commands and the snippets
of Python have tests of their own (`test_documented_commands.py`, `test_notebook.py`, `test_adding_*.py`).
"""

import re
import shutil
from typing import Any

import pytest
import yaml

import sweeper
from sweeper.space import search_space
from sweeper.trial.plugins import ROOT
from tests import guides

PAGES = ("README.md", "docs/search-space.md", "docs/panels.md", "docs/objectives.md")
QUERIES = ("docs/columns.md", "docs/networks.md")

FENCED, INDENTED = re.compile(r"^```yaml\n(.*?)^```", re.S | re.M), re.compile(r"(?:^    +\S.*\n)+", re.M)

TRIAL = {
    "task": {"name": "coloring"}, "model": {"name": "transformer"}, "baseline": {"choice": ["AE_R", "Aq_R"]},
    "objective": {"q": {"choice": [1, 10]}, "m": 10}, "steps": 20000, "seed": {"seeds": 2},
}  # fmt: skip
PARTS = {"trial", "variants", "search", "exclude", "variables", "limits", "resources", "panels", "extends", "objective"}


def parts(page: str) -> list[dict[str, Any]]:
    """The snippets of a page that are parts of a space, as mappings at its top."""
    text = (ROOT / page).read_text()
    found = FENCED.findall(text)
    for block in INDENTED.findall(re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)):
        # Lines that begin with the same key are alternatives.
        lines = block.splitlines()
        found += lines if len({line.split(":")[0] for line in lines}) < len(lines) and page in ALTERNATIVES else [block]
    return [part for text in found if (part := _part(text))]


ALTERNATIVES = {"docs/objectives.md"}


def _part(text: str) -> dict[str, Any] | None:
    try:
        read = yaml.safe_load(re.sub(r"\b(\d+)e(-?\d+)\b", r"\1.0e\2", text))
    except yaml.YAMLError:
        return None  # other text that is indented
    if isinstance(read, list) and all(isinstance(each, dict) and "kind" in each for each in read):
        return {"panels": read}
    if not isinstance(read, dict) or not PARTS & read.keys():
        return None
    return {"trial": read} if "objective" in read else read


@pytest.fixture
def spaces(project):
    """A folder with the shipped spaces, and the experiment of the guide."""
    shutil.copytree(ROOT / "search_spaces", project / "search_spaces")
    guides.run("sweeper new experiment sine")
    return project / "search_spaces"


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_parts_of_spaces_can_be_read(page, spaces):
    shown = parts(page)
    assert shown
    for part in shown:
        trial = part.get("trial", {})
        space = part | {"trial": trial if "experiment" in trial else TRIAL | trial}
        if "uniform" in str(part):
            space.setdefault("search", {"method": "random", "trials": 20})
        file = spaces / "part.yaml"
        file.write_text(yaml.safe_dump(space))
        search_space.read(file)


@pytest.mark.long  # reads the outcomes of all trials
@pytest.mark.parametrize("page", QUERIES)
def test_queries_have_answers_in_the_published_store(page):
    queries = guides.blocks("sql", ROOT / page)
    assert queries
    for query in queries:
        assert len(sweeper.sql(query, ROOT / "published"))
