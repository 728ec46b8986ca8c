"""The trials of shipped spaces. A space whose trials start from others finds these in `published/`."""

from pathlib import Path

from sweeper.packs import start_from
from sweeper.space import search_space
from sweeper.space.sweep_spec import Expansion
from sweeper.store.store import Store
from sweeper.trial import plugins

SPACES = sorted((plugins.ROOT / "search_spaces").glob("*.yaml"))


def expansion(path: Path) -> Expansion:
    """All trials of a shipped space."""
    return start_from.of_store(search_space.read(path), Store.existing(plugins.ROOT / "published")).expand()
