"""What tests of guides share: blocks of a document, run one after the other in a folder outside the checkout."""

import re
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sweeper
from sweeper.__main__ import app
from sweeper.trial import loaded_code, plugins
from tests.processes import python

DOCS = Path(__file__).parents[1] / "docs"


def blocks(language: str, document: Path) -> list[str]:
    """The blocks of a language in a document, in order."""
    return re.findall(rf"```{language}\n(.*?)```", document.read_text(), re.DOTALL)


def commands(text: str) -> list[tuple[str, list[str]]]:
    """The commands of a block, each with the lines that it prints."""
    return [(command, printed) for command, *printed in map(str.splitlines, text.split("$ ")[1:])]


def run(line: str, code: int = 0) -> str:
    """What a command says that ends with this exit code."""
    words = shlex.split(line)
    assert words[0] == "sweeper"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", words)  # which decides what it advises to type
        done = CliRunner().invoke(app, words[1:])
    assert done.exit_code == code, done.output
    return done.output


def trained(space: str, steps: int) -> str:
    """What `sweeper run` says at the end, of a short training in this process."""
    result = sweeper.train(sweeper.plan(sweeper.read_space(space, {"trial.steps": steps})), in_process=True)
    return "\n".join([str(result), *result.draw()])


def forget(*modules: str) -> None:
    """Load plug-ins again, of which these modules were edited: each command of a guide is a process of its own."""
    plugins.load.cache_clear()
    for module in modules:
        sys.modules.pop(module, None)
        files = loaded_code._loaded.pop(module, {}).keys() - loaded_code._loaded.get("sweeper", {}).keys()
        for file in files & loaded_code._first.keys():
            del loaded_code._first[file]


def check_style(folder: str) -> None:
    """Hold the files in a folder of the project to the style of this repository."""
    settings = plugins.ROOT / "pyproject.toml"
    # In another folder ruff takes `sweeper` for a package like any other, and wants its import beside those.
    for check in (["check", "--ignore", "I001"], ["format", "--check"]):
        done = python("-m", "ruff", *check, "--config", settings, folder, cwd=Path.cwd())
        assert done.returncode == 0, done.stdout


def patched(text: str, difference: str) -> str:
    """A text in which the lines that begin with - were replaced by the lines with + that follow them."""
    for old, new in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)*)", difference, re.MULTILINE):
        before, after = (re.sub(r"^.", "", lines, flags=re.MULTILINE) for lines in (old, new))
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text
