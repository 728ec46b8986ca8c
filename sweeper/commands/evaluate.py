"""`python -m sweeper evaluate WHAT --seeds 1000 --votes 1,10,100`: evaluate stored networks by another protocol.

WHAT is a search space, whose trials are evaluated, or ids of trials; `--where` chooses trials by a condition of SQL.
Nothing is trained. Results are in the view `evaluations`. An evaluation that exists is not repeated.

Exit codes are those of `sweeper.run`: 0 when every chosen network is evaluated; 1 when some are not; 2 for
input that makes no sense; 128 + n after signal n.
"""

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from sweeper.command_line import Address, CommandLine, Concurrency, Overrides, Results, told_end
from sweeper.interruption import Interruption, exit_code
from sweeper.messages import UserError

app = CommandLine()


@app.command()
def evaluate(
    what: Annotated[
        list[str] | None, typer.Argument(metavar="[SPACE.yaml | TRIAL...]", help="A search space, or ids of trials.")
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Chooses trials: a condition on the view trials, such as q = 10.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Evaluation seeds r; without it those of the trial.")] = None,
    votes: Annotated[
        str | None, typer.Option(metavar="K,K...", help="Group sizes of the votes; without it those of the trial.")
    ] = None,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Every seed r once, in place of draws, where a task can list them.")
    ] = False,
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
    named = what or []
    ids = tuple(name for name in named if re.fullmatch("[0-9a-f]{20}", name))
    spaces = [Path(name) for name in named if name not in ids]
    if len(spaces) + bool(ids) + (where is not None) != 1:
        raise typer.BadParameter("give one search space, or ids of trials, or --where")

    if votes is not None and not re.fullmatch(r"[1-9]\d{0,8}(,[1-9]\d{0,8})*", votes):
        raise typer.BadParameter(f"--votes: expected numbers such as 1,10,100, got {votes!r}")
    sizes = None if votes is None else tuple(map(int, votes.split(",")))

    def started(interruption: Interruption) -> int:
        # Jax, Ray and the rest take seconds to import, in which Ctrl-C must be understood already.
        import jax

        from sweeper.analysis import sql
        from sweeper.packs.network_evaluation import ProtocolChanges
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
            with plugins.contained():
                if where is not None:
                    chosen = sql.chosen_ids(where, store)
                else:
                    chosen = search_space.read(spaces[0], overrides or ()) if spaces else ids
            planned = evaluation.plan_evaluation(
                chosen,
                ProtocolChanges(seeds, sizes, exhaustive or None),
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
