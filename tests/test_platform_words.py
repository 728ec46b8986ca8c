"""The platform's rooms know no kind of trial: no identifier, message, docstring or comment has a word of learned
algorithms, or the name of one of their tasks.

These words belong into `sweeper/learned_algorithms`. What another room needs of a kind, it asks the kind
(`sweeper.training.kind`). Imports are held by the contracts in pyproject.toml.
"""

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from sweeper.trial.kinds import KINDS

SWEEPER = Path(__file__).parent.parent / "sweeper"

WORDS = re.compile(
    r"(?<![a-z])(baselines?|votes?|voters?|voting|majority|success(?:es)?|exhaustive"
    r"|colou?r(?:ed|ing)|recall|grid ?worlds?|treasures?|ski ?rental"
    r"|(?<=seeds )r|(?<=seed )r|(?<![-%:\d])[qm])(?![a-z])",  # not those of `python -m`, %M, ":Q" and F8_E4M3
    re.IGNORECASE,
)
"""Whole words, also as parts of identifiers such as `votes_30`."""

EXCEPTED = {
    # The folders of a store are `task=…/baseline=…`; for other kinds the second word is the name of the kind
    "store": {"baseline"},
    "trial/columns.py": {"baseline"},
    "trial/trial.py": {"baseline"},
    # The default objective is a plug-in of this name
    "trial/plugins.py": {"q"},
    # Words of other tools, for who brings them along
    "space/other_tools.py": {"q", "m", "exhaustive"},
    # A duration of ISO 8601, such as P1M2D
    "analysis/views.py": {"m"},
}
"""Words that a room or a module may have; this list only becomes shorter."""


def _texts(code: str) -> Iterator[tuple[int, str]]:
    """Line and text of every identifier, string, docstring and comment of a module."""
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(code)):
        for name in ("id", "attr", "arg", "name", "asname", "value"):
            if isinstance(text := getattr(node, name, None), str):
                yield getattr(node, "lineno", 0), text


@functools.cache  # identifiers come again and again
def _words(text: str) -> frozenset[str]:
    """The words of learned algorithms in a text."""
    return frozenset(match[0].lower() for match in WORDS.finditer(text))


def _excepted(place: str) -> set[str]:
    return {word for prefix, words in EXCEPTED.items() if place.startswith(prefix) for word in words}


@functools.cache
def _found() -> tuple[tuple[str, int, str], ...]:
    """Place, line and word, of every word in the rooms of the platform."""
    return tuple(_read())


def _read() -> Iterator[tuple[str, int, str]]:
    of_kinds = {module.split(".")[1] for module in KINDS.values()} - {"trial"}
    for file in sorted(SWEEPER.rglob("*.py")):
        place = file.relative_to(SWEEPER)
        code = file.read_text()
        if place.parts[0] not in of_kinds and WORDS.search(code):
            for line, text in _texts(code):
                yield from ((place.as_posix(), line, word) for word in _words(text))


def test_a_word_is_found_in_identifiers_and_in_texts():
    assert _words("majority_30 of_votes the_q seeds r, python -m x") == {"majority", "votes", "q", "r"}
    assert not _words("requires quantum queue memory successive succeeded seeds random r")
    module = "def final_m(votes):\n    '''Of seeds r.'''\n    return f'{votes.q} success'  # majority"
    assert {word for _, text in _texts(module) for word in _words(text)} == {
        "m",
        "votes",
        "r",
        "q",
        "success",
        "majority",
    }


def test_no_room_of_the_platform_has_a_word_of_learned_algorithms():
    found = [f"sweeper/{place}, line {line}: {word}" for place, line, word in _found() if word not in _excepted(place)]
    assert not found, "\n".join(found)


def test_the_list_of_exceptions_only_becomes_shorter():
    present = _found()
    for prefix, words in EXCEPTED.items():
        left = {word for place, _, word in present if place.startswith(prefix)}
        assert words <= left, f"{prefix}: strike {', '.join(sorted(words - left))} from the list"
