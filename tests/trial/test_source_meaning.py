"""What a Python file says: its values, its imports and the words in its texts."""

import pytest

from sweeper.trial import source_meaning

SOURCE = b"from . import near\nimport far\nVALUE = 1\nFILE = 'a/b-c_1'\n"


def test_another_text_or_place_has_another_meaning():
    first = source_meaning.meaning(SOURCE, ("tasks",))
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
