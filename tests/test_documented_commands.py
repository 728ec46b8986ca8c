"""The commands of the documents, page after page in one folder: each ends well, and says what the page shows.

Other tests run the commands of README, docs/adding-*.md and docs/trackers.md, the snippets of Python, and parts of
search spaces and SQL (`test_documented_snippets.py`). docs/cluster.md needs a cluster, and docs/gridworld.md hours.
"""

import re
import shlex

import pytest
from typer.testing import CliRunner

import sweeper
from sweeper.__main__ import app
from sweeper.space import search_space
from sweeper.store.store import Store
from sweeper.sweeps.sweep_plan import unchecked_plan
from tests import guides
from tests.filled_stores import swept
from tests.results import failure, outcomes, result

PAGES = ("store", "networks", "report", "life-cycle")
"""In this order: the last deletes the sweep that the others ask about."""

NOT_HERE = (" --watch", " evaluate ", " run search_spaces/")
"""One has no end; README's test evaluates networks, and trains."""

DRAWN = "trial: {}\npanels: [{kind: curve, name: a, x: q, metric: success, split: baseline}]\n"

COMMAND = re.compile(r"^    python -m (sweeper.*(?:\n {20,}.*)*)", re.MULTILINE)


def commands(page: str) -> list[list[str]]:
    """The words of each command of a document, from the name of the command on."""
    found = COMMAND.findall((guides.DOCS / f"{page}.md").read_text())
    words = [shlex.split(each, comments=True) for each in found if not any(word in each for word in NOT_HERE)]
    return [[*first.split(".")[1:], *rest] for first, *rest in words]


@pytest.fixture
def trial(project) -> str:
    """The beginning of the id of a trial of the sweep `coloring`, in a folder with a store."""
    settings = [
        {"baseline": baseline, "objective": {"q": q, "m": 10}, "seed": seed}
        for baseline, q, seed in [("AE_R", 1, 0), ("Aq_R", 3, 0), ("Aq_R", 3, 1), ("Aq_R", 10, 0), ("Aq_R", 10, 1)]
    ]
    made = [
        result(setting, outcomes=outcomes(), metrics={"success": success, "success_worst5": success / 2})
        for setting, success in zip(settings, (0.8, 0.4, 0.6, 0.7, 0.9), strict=True)
    ]
    store = Store.open("results")
    first, *_ = swept(store, *made, failure({"seed": 7}), name="coloring", text=DRAWN)
    swept(store, *(result(setting | {"steps": 600}) for setting in settings), name="another")
    return first[:6]


@pytest.mark.long  # draws, and writes a page
def test_the_commands_of_the_documents_run_in_their_order(trial, project):
    said = {}
    for page in PAGES:
        for words in commands(page):
            typed = [trial if word == "3f2a" else word for word in words]
            done = CliRunner().invoke(app, typed)
            assert done.exit_code == 0, f"{page}: {typed}\n{done.output}"
            said[" ".join(words)] = done.output
    assert len(said) > 15
    for name in ("network.safetensors", "page.html"):
        assert (project / name).stat().st_size > 100
    assert {each.name for each in Store.existing("results").sweeps()} == {"another"}, "the life cycle ends so"
    assert len(sweeper.sql("select * from all_trials")) == 5
    assert sweeper.sql("select success from trials", "published")["success"].max() == 0.9


@pytest.mark.slow
def test_the_example_of_the_language_plans_what_its_page_shows(project):
    page = guides.DOCS / "search-space.md"
    (project / "example.yaml").write_text(guides.blocks("yaml", page)[0])
    ((command, (*shown, rest)),) = guides.commands(guides.blocks("console", page)[0])
    assert (command, rest) == ("python -m sweeper.run search_spaces/example.yaml --dry-run", "  …")
    assert str(unchecked_plan(search_space.read("example.yaml"), "results")).splitlines() == shown
