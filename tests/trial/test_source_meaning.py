"""What a Python file says is the same whether it was kept by an earlier process or not."""

import ast
import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sweeper.trial import source_meaning

SOURCE = b"from . import near\nimport far\nVALUE = 1\nFILE = 'a/b-c_1'\n"


@pytest.fixture
def next_process(tmp_path, monkeypatch) -> Iterator[Callable[[], None]]:
    """Begins a process that knows nothing but files, in a folder for temporary files that was empty at first."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def begin() -> None:
        importlib.reload(source_meaning)

    begin()
    yield begin
    begin()


def _kept(folder: Path) -> Path:
    (file,) = folder.rglob("*.json")
    return file


def test_a_file_that_an_earlier_process_has_read_is_not_parsed_again(next_process, monkeypatch):
    first = source_meaning.meaning(SOURCE, ("tasks",))
    assert first.imports == ("tasks.near", "far")
    source_meaning.keep()
    next_process()
    monkeypatch.setattr(ast, "parse", pytest.fail)
    assert source_meaning.meaning(SOURCE, ("tasks",)) == first


def test_another_text_or_place_has_another_meaning(next_process):
    first = source_meaning.meaning(SOURCE, ("tasks",))
    source_meaning.keep()
    next_process()
    assert source_meaning.meaning(SOURCE.replace(b"1", b"2"), ("tasks",)).digest != first.digest
    assert source_meaning.meaning(SOURCE, ("models",)) == (first.digest, ("models.near", "far"), ("a", "b-c_1"))
    assert source_meaning.meaning(SOURCE + b"# a remark\n", ("tasks",)) == first


@pytest.mark.parametrize(
    ("one", "other"),
    [("1", "'1'"), ("...", "'Ellipsis'"), ("1", "1.0"), ("1", "True"), ("None", "'None'"), ("b'1'", "'1'"),
     ("1j", "'1j'"), ("0.0", "-0.0"), ("b'1'", "\"b'1'\""), ("[None]", "[]"), ("(1, None)", "(1,)")],
)  # fmt: skip
def test_values_of_different_types_differ(one, other):
    meanings = [source_meaning.meaning(f"VALUE = {value}\n".encode(), ()) for value in (one, other)]
    assert meanings[0].digest != meanings[1].digest


@pytest.mark.parametrize(
    ("text", "imports"),
    [
        ("import a.b, c", ("a.b", "c")),
        ("from a import *", ("a",)),
        ("from ..near import x", ("tasks.near.x",)),
        ("importlib.import_module('a.b')", ("a.b",)),
        ("__import__('a')", ("a",)),
        ("import_module(name='a')", ("a",)),
        ("import_module('.near', __package__)", ("tasks.inner.near",)),
        ("import_module('..near', package=__package__)", ("tasks.near",)),
        ("import_module(name)", ()),
    ],
)
def test_imports_are_seen_in_statements_and_calls(text, imports):
    assert source_meaning.meaning(text.encode(), ("tasks", "inner")).imports == imports


def test_texts_are_words_but_docstrings_are_not():
    text = b'"""Doc."""\nPATH = f"data/{name}.json"\nOTHER = b"raw"\ndef f():\n    """Doc."""\n'
    assert source_meaning.meaning(text, ()).words == ("data", "json", "raw")


def test_a_process_may_keep_several_times(next_process, tmp_path):
    for number in range(3):
        source_meaning.meaning(b"VALUE = %d" % number, ())
        source_meaning.keep()
    assert len(json.loads(_kept(tmp_path).read_bytes())) == 3


@pytest.mark.parametrize("damage", [b"", b"[1, 2]", b'{"a": 1}', b'{"a": ["b"', b"\xff"])
def test_damage_costs_no_more_than_time(next_process, tmp_path, damage):
    first = source_meaning.meaning(SOURCE, ())
    source_meaning.keep()
    _kept(tmp_path).write_bytes(damage)
    next_process()
    assert source_meaning.meaning(SOURCE, ()) == first
    source_meaning.keep()
    assert len(json.loads(_kept(tmp_path).read_bytes())) == 1


def test_without_a_safe_folder_nothing_is_kept(next_process, monkeypatch, tmp_path):
    monkeypatch.setattr(source_meaning, "private_folder", lambda *_: None)
    assert source_meaning.meaning(SOURCE, ()).imports == (".near", "far")
    source_meaning.keep()
    assert not list(tmp_path.iterdir())


def test_the_oldest_are_forgotten(next_process, monkeypatch, tmp_path):
    monkeypatch.setattr(source_meaning, "MOST_KEPT", 2)
    for number in range(3):
        source_meaning.meaning(b"VALUE = %d" % number, ())
    source_meaning.keep()
    assert len(json.loads(_kept(tmp_path).read_bytes())) == 2
