"""`python -m sweeper check FILE…`: hold plug-ins against their contracts.

A plug-in is checked with its defaults, beside those other plug-ins with which its kind of trial joins it.

Exit codes: 0; 2 if a plug-in breaks its contract or cannot be loaded, with one line for each mistake.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
                from sweeper.packs import conformance
                from sweeper.training.kinds import kind_of

                kind, name = _plugin(file)
                trials = _trials(kind, name)
            found = dict.fromkeys(conformance.mistakes(trials))
            if not found:
                others = dict.fromkeys(other for trial in trials for other in trial.plugin_names if other != name)
                print(f"{file}: the {kind} {name} keeps its contract{', with ' * bool(others)}{', '.join(others)}")
                with progress.doing("timing"):
                    for remark in (remark for trial in trials for remark in kind_of(trial).remarks(trial)):
                        print(f"{file}: {remark}")
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

    from sweeper.trial.kinds import kinds

    of_trials = next(of_trials for of_trials in kinds() if kind in of_trials.record.DECLARED.parts)
    try:
        return of_trials.examples(kind, name)
    except ValidationError as error:
        raise UserError(f"the {kind} {name} cannot be made of its defaults: {error.errors()[0]['msg']}") from None
