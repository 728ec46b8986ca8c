"""`python -m sweeper new task NAME`: files to begin with, a task that runs and a search space for it.

Exit codes: 0; 2 for a name that cannot be used and for a file that is there already, with one message.
"""

import importlib.resources
import keyword
import re
import string
from pathlib import Path
from typing import Annotated, Literal

import typer

from sweeper.command_line import CommandLine, errors_told
from sweeper.messages import UserError

app = CommandLine()

TEMPLATES = {"tasks/$name.py": "task.py.txt", "search_spaces/$name.yaml": "space.yaml.txt"}
"""Templates of this package by the file that is made of each, relative to the project's folder."""


@app.command()
def new(
    kind: Annotated[Literal["task"], typer.Argument(metavar="task", help="What to begin.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name: small letters, digits and underscores.")],
) -> None:
    """Write tasks/NAME.py, a small task that runs, and search_spaces/NAME.yaml, a sweep of it, to be changed."""
    project = Path.cwd()
    with errors_told():
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
            raise UserError(f"{name!r} cannot name a task: small letters, digits and underscores, a letter first")
        from sweeper.trial import plugins  # jax takes a second to import

        if name in plugins.names("task"):
            raise UserError(f"there is a task {name!r} already (known: {', '.join(plugins.names('task'))})")
        templates = importlib.resources.files("sweeper") / "templates"
        texts = {path: (templates / template).read_text() for path, template in TEMPLATES.items()}
        task, space = filled = [
            [string.Template(part).substitute(name=name) for part in file] for file in texts.items()
        ]
        if present := [project / path for path, _ in filled if (project / path).exists()]:
            raise UserError(f"{present[0]} is there already")
        for path, text in filled:
            (project / path).parent.mkdir(exist_ok=True)
            with (project / path).open("x") as file:
                file.write(text)
    print(f"{task[0]} and {space[0]} written; to train it: sweeper run {space[0]}")
