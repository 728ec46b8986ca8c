"""`python -m sweeper check FILE…`: hold plug-ins against their contracts.

A task is checked with every model, a model with the project's tasks, an objective and an optimiser with one task, an
experiment with its defaults.

Exit codes: 0; 2 if a plug-in breaks its contract or cannot be loaded, with one line for each mistake.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweeper import progress
from sweeper.command_line import CommandLine, errors_told
from sweeper.messages import UserError, printable_lines

if TYPE_CHECKING:
    from sweeper.trial.plugins import Kind
    from sweeper.trial.trial import Trial

app = CommandLine()


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Such as tasks/gates.py or models/tree/.")],
) -> None:
    """Hold plug-ins against their contracts, by the whole conformance suite."""
    with progress.doing("importing"):
        import jax

    jax.config.update("jax_platforms", "cpu")
    with errors_told():
        said: dict[str, None] = {}
        for file in progress.each(files, "checking files"):
            with progress.doing(f"importing {file}"):
                from sweeper.packs import conformance_suite

                kind, name = _plugin(file)
                trials = _trials(kind, name)
            found = dict.fromkeys(conformance_suite.mistakes(trials))
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


def _trials(kind: "Kind", name: str) -> "list[Trial]":
    """Trials with a plug-in, and with the plug-ins beside which it has to work."""
    from pydantic import ValidationError

    from sweeper.trial import plugins
    from sweeper.trial.trial import trial_of

    plugin: Any = plugins.load(kind, name)
    try:
        if kind == "experiment":
            return [trial_of({"experiment": {"name": name}, "steps": 2})]
        tasks = [plugin()] if kind == "task" else _tasks(kind == "objective" and plugin.needs_groups)
        models = [name] if kind == "model" else [other for other, _ in _others("model")]
        written = {kind: {"name": name}} if kind in ("objective", "optimizer") else {}
        return [
            trial_of({
                "task": task, "model": {"name": model}, "baseline": "Aq_R", "steps": 1, "batch_size": 12,
                "optimizer": {"name": "adam" if task.abilities().differentiable else "pgpe"}, **written,
            })
            for task in tasks
            for model in (models if kind == "task" else models[:1])
        ]  # fmt: skip
    except ValidationError as error:
        raise UserError(f"the {kind} {name} cannot be made of its defaults: {error.errors()[0]['msg']}") from None


def _tasks(with_groups: bool) -> list:
    """The project's own tasks, or else a small one that comes with this package."""
    from sweeper.trial import plugins

    own = {file.stem for file in (plugins.PROJECT / "tasks").glob("*.py")} if plugins.PROJECT != plugins.SHIPPED else ()
    tasks = [task() for name, task in _others("task") if name in own]
    suitable = [task for task in tasks if not with_groups or task.abilities().groups is not None]
    return suitable or [plugins.load("task", "coloring")(vertices=5)]


def _others(kind: "Kind") -> "Iterator[tuple[str, Any]]":
    """The plug-ins of a kind, by name; one that cannot be loaded is no fault of the file that is checked."""
    from sweeper.trial import plugins

    for name in plugins.names(kind):
        try:
            yield name, plugins.load(kind, name)
        except plugins.PluginError as error:
            first = str(error).splitlines()[0]
            print(printable_lines(f"not checked with the {kind} {name}, which cannot be loaded: {first}"))
