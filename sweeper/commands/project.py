"""Commands for the plug-ins of a project: `new` and `check`.

    new experiment NAME, new task NAME, new model NAME      a plug-in that runs, and a search space for it
    new cluster slurm                                       a script that runs sweeps as jobs of Slurm
    check FILE…                                             hold plug-ins against their contracts

A plug-in is checked with its defaults, beside those other plug-ins with which its kind of trial joins it.

Exit codes: 0; 2 for a name that cannot be used, for a file that is there already, and if a plug-in breaks its contract
or cannot be loaded, with one line for each mistake.
"""

import importlib.resources
import keyword
import re
import shlex
import string
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sweeper import progress
from sweeper.command_line import CommandLine, errors_told
from sweeper.messages import UserError, instead, printable_lines, typed

if TYPE_CHECKING:
    from sweeper.trial.plugins import Kind
    from sweeper.trial.trial import Trial


app = CommandLine()


# New

KINDS = ("experiment", "task", "model", "cluster")
"""What can be begun. This package has two templates for a plug-in, itself and a search space, and one for a cluster."""


@app.command()
def new(
    kind: Annotated[
        Literal["experiment", "task", "model", "cluster"],
        typer.Argument(metavar="|".join(KINDS), help="What to begin."),
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name: small letters, digits and underscores.")],
) -> None:
    """Write experiments/NAME.py (or tasks/, or models/), which runs, and search_spaces/NAME.yaml, a sweep of it.

    An experiment is any training; a task is a problem that networks are trained on (docs/adding-a-task.md), and a model
    is such a network (docs/adding-a-model.md).

    new cluster slurm writes slurm.sh, which runs sweeps as jobs of Slurm (docs/cluster.md).
    """
    project = Path.cwd()
    with errors_told():
        if kind == "cluster":
            print(_cluster(name))
            return
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
    print(f"{plugin[0]} and {space[0]} written; to train it: {typed('run', space[0])}")


def _cluster(name: str) -> str:
    """Write the script for a kind of cluster into the working folder, for the programs of this environment."""
    if name != "slurm":
        raise UserError(
            f"{name!r} is no kind of cluster here{instead(name, ['slurm'])}; docs/cluster.md has the others"
        )
    template = (importlib.resources.files("sweeper") / "templates" / "slurm.sh.txt").read_text()
    try:
        with Path("slurm.sh").open("x") as file:
            file.write(template.replace("PROGRAMS", shlex.quote(str(Path(sys.executable).parent))))
    except FileExistsError:
        raise UserError("slurm.sh is there already") from None
    return "slurm.sh written; look at its head, then: sbatch slurm.sh SPACE.yaml RESULTS"


# Check


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Such as tasks/gates.py or models/tree/.")],
) -> None:
    """Hold plug-ins against their contracts, by the whole conformance suite."""
    with progress.doing("importing"):
        import jax

    jax.config.update("jax_platforms", "cpu")
    with errors_told():
        from sweeper.trial import jax_settings

        jax_settings.require()  # as a start does: a program of 64 bits is another one
        said: dict[str, None] = {}
        for file in progress.each(files, "checking files"):
            with progress.doing(f"importing {file}"):
                from sweeper.packs import conformance

                kind, name = _plugin(file)
                trials = examples_of(kind, name)
            found = dict.fromkeys(conformance.mistakes(trials))
            if not found:
                others = dict.fromkeys(other for trial in trials for other in trial.plugin_names if other != name)
                print(f"{file}: the {kind} {name} keeps its contract{', with ' * bool(others)}{', '.join(others)}")
            said |= found
    if said:
        print(printable_lines("\n".join(said)), file=sys.stderr)
        raise typer.Exit(2)


def _plugin(file: Path) -> "tuple[Kind, str]":
    """Kind and name of the plug-in in a file or folder of the project; a `UserError` if there is none."""
    from sweeper.trial import plugins

    module = file.parent if file.name == "__init__.py" else file
    for kind in plugins.KINDS:
        if module.resolve().parent in [folder.resolve() for folder in plugins.folders(kind)]:
            return kind, module.stem
    folders = ", ".join(f"{kind}s/" for kind in plugins.KINDS)
    raise UserError(f"{file} is no plug-in: plug-ins are files and packages of {folders}")


def examples_of(kind: "Kind", name: str) -> "list[Trial]":
    """Trials with a plug-in, and with the plug-ins beside which it has to work."""
    from pydantic import ValidationError

    from sweeper.trial import plugins
    from sweeper.trial.kinds import kinds

    plugins.load(kind, name)  # a file that cannot be imported is a message about itself, not about its defaults
    of_trials = next(of_trials for of_trials in kinds() if kind in of_trials.record.DECLARED.parts)
    try:
        return of_trials.examples(kind, name)
    except ValidationError as error:
        wrong = error.errors()[0]
        field = ".".join(map(str, wrong["loc"][1:]))
        reason = f"the {kind} {name} cannot be made of its defaults: {field}: {wrong['msg']}"
        raise UserError(
            f"{reason}; {typed('run', 'SPACE', '--dry-run')} checks it with the values of a space"
        ) from None
