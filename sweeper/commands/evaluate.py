"""`python -m sweeper evaluate WHAT --ENTRY VALUE`: evaluate stored networks by another protocol.

The entries of the protocol are those that the kind of trial has, such as `--seeds 1000` for `evaluation.seeds`.

WHAT is a search space, whose trials are evaluated, or ids of trials; `--where` chooses trials by a condition of SQL.
Nothing is trained. Results are in the view `evaluations`. An evaluation that exists is not repeated.

Exit codes are those of `sweeper.run`: 0 when every chosen network is evaluated; 1 when some are not; 2 for
input that makes no sense; 128 + n after signal n.
"""

import re
import sys
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sweeper.command_line import Address, CommandLine, Concurrency, Overrides, Results, told_end
from sweeper.interruption import Interruption, exit_code
from sweeper.messages import UserError

app = CommandLine()


@app.command(context_settings={"ignore_unknown_options": True})
def evaluate(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SPACE.yaml | TRIAL...] [--ENTRY VALUE]...",
            help="A search space, or ids of trials; and changed entries of their protocols, such as --seeds 1000.",
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="SQL", help="Chooses trials: a condition on the view trials, such as seed = 1."),
    ] = None,
    results: Results = "results",
    address: Address = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be evaluated.")] = False,
    overrides: Overrides = None,
    recompute_other_code: Annotated[
        bool,
        typer.Option(
            "--recompute-other-code", help="Make evaluations again that are of other code, or of an older scheme."
        ),
    ] = False,
    concurrency: Concurrency = None,
) -> None:
    """Evaluate stored networks by another protocol, without training."""
    named, written = _parts(what or [])
    ids = tuple(name for name in named if re.fullmatch("[0-9a-f]{20}", name))
    spaces = [Path(name) for name in named if name not in ids]
    if len(spaces) + bool(ids) + (where is not None) != 1:
        raise typer.BadParameter("give one search space, or ids of trials, or --where")

    def started(interruption: Interruption) -> int:
        # Jax, Ray and the rest take seconds to import, in which Ctrl-C must be understood already.
        import jax

        from sweeper.analysis import sql
        from sweeper.space import search_space
        from sweeper.store.store import Store
        from sweeper.sweeps import evaluation
        from sweeper.sweeps.on_cluster import Interrupted
        from sweeper.sweeps.output import Output
        from sweeper.trial import plugins, provenance

        output = Output()
        jax.config.update("jax_platforms", "cpu")  # only workers use accelerators
        planned = None
        try:
            store = Store.existing(results)
            changes = _changes(written)
            with plugins.contained():
                if where is not None:
                    chosen = sql.chosen_ids(where, store)
                else:
                    chosen = search_space.read(spaces[0], overrides or ()) if spaces else ids
            planned = evaluation.plan_evaluation(
                chosen,
                changes,
                results,
                recompute_other_code=recompute_other_code,
                command=provenance.command_line(sys.argv),
            )
            output.say(str(planned))
            if dry_run:
                return 0
            result = evaluation.evaluate(
                planned, address=address, concurrency=concurrency, interruption=interruption, output=output
            )
            result.tell(output)
            return 0 if result.complete else 1
        except (Interrupted, UserError, OSError) as end:
            return told_end(end, output, "network", of_store=2 if planned is None else 1)

    raise typer.Exit(exit_code(started))


def _parts(tokens: list[str]) -> tuple[list[str], dict[str, str]]:
    """What is named, and the entries that are written as options, each with its text; without a text it is `true`."""
    named: list[str] = []
    written: dict[str, str] = {}
    last: str | None = None  # an option that may still get a text
    for token in tokens:
        if match := re.fullmatch(r"--([a-z][a-z-]*)(=.*)?", token):
            name = match[1].replace("-", "_")
            written[name], last = (match[2][1:], None) if match[2] else ("true", name)
        elif token.startswith("-"):
            raise typer.BadParameter(f"no such option: {token}")
        elif last is not None:
            written[last], last = token, None
        else:
            named.append(token)
    return named, written


def _changes(written: Mapping[str, str]) -> dict[str, Any]:
    """The entries of a protocol with their values; a `ProtocolError` if no kind of trial has such a protocol."""
    from pydantic import ValidationError

    from sweeper.packs.network_evaluation import ProtocolError
    from sweeper.trial.kinds import kinds

    protocols = [kind.record.PROTOCOL for kind in kinds() if kind.record.PROTOCOL is not None]
    known = [protocol for protocol in protocols if written.keys() <= protocol.model_fields.keys()]
    if not known:
        names = ", ".join(f"--{name}" for protocol in protocols for name in protocol.model_fields)
        raise ProtocolError(f"no protocol has all of {', '.join(f'--{name}' for name in written)} (known: {names})")
    values = {name: _value(text, known[0].model_fields[name].annotation) for name, text in written.items()}
    try:
        known[0].model_validate(values)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise ProtocolError(f"--{wrong['loc'][0]}: {wrong['msg']}, got {written[str(wrong['loc'][0])]!r}") from error
    return values


def _value(text: str, annotation: Any) -> Any:
    """A number, true, or a list of these, as the type of an entry asks for; any other text is itself."""
    if typing.get_origin(annotation) is tuple:
        return tuple(_value(part, None) for part in text.split(","))
    return {"true": True, "false": False}.get(text, int(text) if text.isdecimal() else text)
