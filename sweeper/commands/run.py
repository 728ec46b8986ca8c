"""`python -m sweeper.run SPACE.yaml …`: plan, run, resume.

Every start reads the space, subtracts the committed trials of the store, runs the rest, and prints the results. There
is no separate command to resume, and no state beside the store. Several spaces share the cluster and the view.

Exit codes: 0 when every planned trial is committed and none failed; 1 when some failed or are missing, with the reason
of each; 2 for input that cannot be run; 128 + n after signal n (130 for Ctrl-C), with the command that carries on.
"""

import atexit
import contextlib
import functools
import gc
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from sweeper.command_line import Address, CommandLine, Concurrency, Overrides, Results, told_end
from sweeper.interruption import Interruption, exit_code
from sweeper.messages import UserError, typed
from sweeper.progress import doing

app = CommandLine()


@app.command()
def run(
    spaces: Annotated[
        list[Path], typer.Argument(metavar="SPACE.yaml…", help="The search space, or several to run together.")
    ],
    results: Results = "results",
    address: Address = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run, and at what cost.")] = False,
    overrides: Overrides = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed trials again.")] = False,
    recompute_other_code: Annotated[
        bool,
        typer.Option(
            "--recompute-other-code",
            help="Compute rows again that are of other code, or of an older scheme of fingerprints.",
        ),
    ] = False,
    concurrency: Concurrency = None,
    trial: Annotated[
        str | None,
        typer.Option("--trial", metavar="ID", help="Debug one trial: train it here, with pdb; store nothing."),
    ] = None,
) -> None:
    """Run what is missing of search spaces, and print what came out."""
    # Python looks through all objects when it ends: a sixth of the time of a start that finds everything done. (DuckDB
    # counts on it, so commands that ask in SQL wait for it.)
    atexit.register(gc.freeze)

    started = functools.partial(
        start,
        spaces,
        results,
        overrides=overrides or (),
        address=address,
        dry_run=dry_run,
        retry_failed=retry_failed,
        recompute_other_code=recompute_other_code,
        concurrency=concurrency,
        trial=trial,
    )
    raise typer.Exit(exit_code(started))


def start(
    spaces: Sequence[Path],
    results: str,
    interruption: Interruption,
    *,
    overrides: Sequence[str] = (),
    address: str | None = None,
    dry_run: bool = False,
    retry_failed: bool = False,
    recompute_other_code: bool = False,
    concurrency: int | None = None,
    trial: str | None = None,
) -> int:
    """Plan, train and tell; returns the exit code. While no pack runs, a signal raises KeyboardInterrupt."""
    # Jax, Ray and the rest take seconds to import, in which Ctrl-C must be understood already.
    with doing("importing"), _uncollected():
        import jax

        from sweeper.space import search_space
        from sweeper.store.store import Store
        from sweeper.sweeps.on_cluster import Interrupted
        from sweeper.sweeps.output import Output
        from sweeper.sweeps.sweep_plan import require_together, unchecked_plan
        from sweeper.training import compilation
        from sweeper.trial import plugins, provenance

    output = Output()
    jax.config.update("jax_platforms", "cpu")  # the driver plans and counts; only workers use accelerators
    readable = False
    try:
        with plugins.contained(), _uncollected(), doing(f"reading {', '.join(map(str, spaces))}"):
            specs = [search_space.read(space, overrides) for space in spaces]
        require_together(specs)
        Store.open(results)
        readable = True
        if trial is not None:
            from sweeper.sweeps.training import train_one

            if len(specs) > 1:
                raise UserError("--trial: a trial is one of a single space")
            row = train_one(specs[0], Store.open(results), trial, output)
            output.say("\n".join(f"  {name} {value}" for name, value in row.items() if isinstance(value, float)))
            output.say(f"{row['status']}{'' if row['error_message'] is None else ': ' + str(row['error_message'])}")
            return 0 if row["status"] == "finished" else 1
        plans = []
        for spec in specs:
            plan = unchecked_plan(
                spec,
                results,
                retry_failed=retry_failed,
                recompute_other_code=recompute_other_code,
                command=provenance.command_line(sys.argv),
            )
            output.say(str(plan))
            plan.check()
            if dry_run:
                from sweeper.sweeps.training import require_room

                require_room(plan, address)
                if jax.config.values["jax_compilation_cache_dir"] is None:
                    compilation.keep_on_this_machine()  # the sweep finds what is compiled to time it
                for line in plan.examples():
                    output.say(line)
                output.say(f"  cost: {plan.cost()}")
            plans.append(plan)
        if dry_run:
            return 0
        from sweeper.sweeps.training import train_together  # with pandas; the plan is told before

        came_out = train_together(
            plans, address=address, concurrency=concurrency, interruption=interruption, output=output
        )
        for result in came_out:
            result.tell(output, result.draw())
        if not all(result.complete or result.goal_reached for result in came_out):
            return 1
        store = [] if results == "results" else ["--results", results]
        for spec in specs:
            output.say(f"next: {typed('query', 'best', spec.name, *store)}")
        output.say(f"      {typed('report', '--html', 'page.html', *store)}")
        return 0
    except (Interrupted, UserError, OSError) as end:
        return told_end(end, output, "trial", of_store=1 if readable else 2)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Leave garbage for later: among thousands of new modules and classes the search takes a tenth of their time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
