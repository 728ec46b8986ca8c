"""The shipped store of finished runs: sound, small and complete, and the document's tables are those of the store."""

import re
from pathlib import Path

import pyarrow.compute as pc
import pytest

from docs.fill import filled
from sweeper.analysis.recorded_spaces import recorded_space
from sweeper.store.store import Store
from sweeper.trial.plugins import ROOT
from tests import shipped
from tests.tiny_sweeps import start

PUBLISHED = ROOT / "published"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store():
    return Store.existing(PUBLISHED)


@pytest.mark.long
@pytest.mark.parametrize("name", ["docs/reproduction.md", "docs/beyond-the-paper.md"])
def test_the_tables_of_the_documents_are_those_of_the_store(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert name in Path("Makefile").read_text(), "`make publish` fills it"
    _, tables, changed = filled(Path(name), "published")
    assert tables > 10
    assert changed == 0, f"run: python -m docs.fill published {name}"


@pytest.mark.long  # reads the whole store
def test_the_files_are_whole_and_small(store):
    assert store.verify() == []
    assert store.listing("quarantine") == []
    files = (path for path in PUBLISHED.rglob("*") if path.is_file() and "snapshots" not in path.parts)
    assert sum(path.stat().st_size for path in files) < 52e6, "the history of the repository has room for so much"


def test_rows_say_where_they_come_from_and_name_no_folder_of_a_machine(store):
    rows = store.trials()
    for column in ("commit", "fingerprint", "device", "cpu_seconds", "numerics_version"):
        assert rows[column].null_count == 0, column
    # A file beside the code makes a checkout dirty; a fingerprint is that of the code.
    clean = rows.filter(pc.invert(rows["dirty"])).select(["commit", "fingerprint"]).to_pylist()
    assert all(row in clean for row in rows.filter(rows["dirty"]).select(["commit", "fingerprint"]).to_pylist())
    commands = [*rows["command"].to_pylist(), *(record.provenance.command for record in store.sweeps())]
    assert not [command for command in commands if re.search(r"(^|[\s=])[/~]", command)]


def test_every_finished_trial_has_its_network(store):
    finished = [seal for seal in store.seals().values() if seal.status == "finished"]
    assert [seal.trial_id for seal in finished if seal.network is None] == []


@pytest.mark.long  # a space a start
def test_the_recorded_spaces_are_of_the_language(store):
    for record in store.sweeps():
        assert recorded_space(record, store) is not None, record.name


@pytest.mark.long  # reads a space a sweep, of which there are more and more
def test_the_spaces_of_published_sweeps_find_their_trials_done(store):
    committed = store.committed()
    names = {record.name for record in store.sweeps()}
    assert {"coloring_starts", "coloring_basins", "coloring_halving"} <= names
    latest = {record.name: record.trial_ids for record in store.sweeps()}
    for name, planned in latest.items():
        if set(planned) <= committed.keys():
            expansion = shipped.expansion(ROOT / "search_spaces" / f"{name}.yaml")
            assert set(expansion.trial_ids) <= committed.keys(), name


def test_a_start_has_nothing_to_run(capsys):
    # Twelve stop at no rung; three that were stopped are also trials of another sweep, which trained them to the end.
    path = ROOT / "search_spaces" / "coloring_halving.yaml"
    assert start(path, results=str(PUBLISHED), dry_run=True) == 0
    assert "15 done · 129 stopped · 0 to run" in capsys.readouterr().out
