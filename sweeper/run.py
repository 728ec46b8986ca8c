"""`python -m sweeper.run SPACE.yaml`: plan, run, resume.

Every start reads the space, subtracts the committed trials of the store, runs the rest, and prints the results. There
is no separate command to resume, and no state beside the store.

Exit codes: 0 when every planned trial is committed and none failed; 1 when some failed or are missing, with the reason
of each; 2 for input that cannot be run; 128 + n after signal n (130 for Ctrl-C), with the command that carries on.
"""

import atexit
import gc
import sys
from pathlib import Path
from typing import Annotated

import typer

from sweeper.command_line import Address, CommandLine, Concurrency, Results
from sweeper.interruption import Interruption, exit_code

app = CommandLine()


@app.command()
def run(
    space: Annotated[Path, typer.Argument(metavar="SPACE.yaml", help="The search space.")],
    results: Results = "results",
    address: Address = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run, and at what cost.")] = False,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=VALUE", help="Overrides an entry; repeatable."),
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed trials again.")] = False,
    recompute_other_code: Annotated[
        bool,
        typer.Option("--recompute-other-code", help="Compute rows again that other code has computed."),
    ] = False,
    concurrency: Concurrency = None,
) -> None:
    """Run what is missing of a search space, and print what came out."""

    # Python looks through all objects when it ends: a sixth of the time of a start that finds everything done. (DuckDB
    # counts on it, so commands that ask in SQL wait for it.)
    atexit.register(gc.freeze)

    def start(interruption: Interruption) -> int:
        # Jax, Ray and the rest take seconds to import, in which Ctrl-C must be understood already.
        from sweeper.starts import planned_sweep, sweep

        options = planned_sweep.StartOptions(
            space=space,
            results=results,
            address=address,
            dry_run=dry_run,
            overrides=tuple(overrides or ()),
            retry_failed=retry_failed,
            recompute_other_code=recompute_other_code,
            concurrency=concurrency,
            argv=tuple(sys.argv),
        )
        return sweep.start(options, interruption)

    raise typer.Exit(exit_code(start))


if __name__ == "__main__":
    app()
