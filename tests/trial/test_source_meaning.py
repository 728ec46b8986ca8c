"""What a Python file says: its values, its imports and the files that it names."""

import pytest

from sweeper.trial import source_meaning

SOURCE = b"from . import near\nimport far\nVALUE = 1\nFILE = 'a/b-c_1.csv'\n"


def test_another_text_or_place_has_another_meaning():
    first = source_meaning.meaning(SOURCE, ("tasks",))
    assert source_meaning.meaning(SOURCE.replace(b"1", b"2"), ("tasks",)).digest != first.digest
    assert source_meaning.meaning(SOURCE, ("models",)) == (first.digest, ("models.near", "far"), ("a/b-c_1.csv",))
    assert source_meaning.meaning(SOURCE + b"# a remark\n", ("tasks",)) == first


@pytest.mark.parametrize(
    ("text", "imports"),
    [("import a.b, c", ("a.b", "c")), ("from a import *", ("a",)), ("from ..near import x", ("tasks.near.x",))],
)
def test_imports_are_seen(text, imports):
    assert source_meaning.meaning(text.encode(), ("tasks", "inner")).imports == imports


def test_texts_that_may_be_files_are_seen_but_docstrings_are_not():
    text = b'"""Doc in a.md"""\nPATH = f"data/{name}.json"\nOTHER = "x y.npy", "plain"\ndef f():\n    """b.md"""\n'
    assert source_meaning.meaning(text, ()).texts == ("x y.npy",)
