"""`python -m sweeper new experiment NAME`, `new task` or `new model`: a plug-in that runs, and a search space for it.

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

KINDS = ("experiment", "task", "model")
"""What can be begun. This package has two templates for each: a plug-in, and a search space."""


@app.command()
def new(
    kind: Annotated[
        Literal["experiment", "task", "model"], typer.Argument(metavar="|".join(KINDS), help="What to begin.")
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name: small letters, digits and underscores.")],
) -> None:
    """Write experiments/NAME.py (or tasks/, or models/), which runs, and search_spaces/NAME.yaml, a sweep of it.

    An experiment is any training; a task is a problem that networks are trained on (docs/adding-a-task.md), and a model
    is such a network (docs/adding-a-model.md).
    """
    project = Path.cwd()
    with errors_told():
        from sweeper.space.yaml_tree import document_tree

        if not re.fullmatch(r"[a-z][a-z0-9_]{0,79}", name) or keyword.iskeyword(name):
            raise UserError(f"{name!r} names no {kind}: small letters, digits and underscores, a letter first")
        if not isinstance(document_tree(name).value, str):
            raise UserError(f"{name!r} names no {kind}: in a search space it is a value of YAML")
        from sweeper.trial import plugins  # jax takes a second to import

        if name in plugins.names(kind):
            known = ", ".join(plugins.names(kind))
            raise UserError(f"the name {name!r} belongs to another {kind} (known: {known})")
        templates = importlib.resources.files("sweeper") / "templates"
        places = {f"{kind}s/{name}.py": f"{kind}.py.txt", f"search_spaces/{name}.yaml": f"{kind}.yaml.txt"}
        texts = {path: (templates / template).read_text() for path, template in places.items()}
        plugin, space = filled = [(path, string.Template(text).substitute(name=name)) for path, text in texts.items()]
        if present := [project / path for path, _ in filled if (project / path).exists()]:
            raise UserError(f"{present[0]} is there already")
        for path, text in filled:
            (project / path).parent.mkdir(exist_ok=True)
            with (project / path).open("x") as file:
                file.write(text)
    print(f"{plugin[0]} and {space[0]} written; to train it: sweeper run {space[0]}")
