"""Commands that run and stop sweeps: `run`, `evaluate` and `stop`.

    run SPACE.yaml                  plan, run, resume
    evaluate WHAT                   stored networks by another protocol
    stop SWEEP                      drivers leave checkpoints and end, as with Ctrl-C

Every start of `run` reads the space, subtracts the committed trials of the store, runs the rest, and prints the
results. There is no separate command to resume, and no state beside the store.

`evaluate` trains nothing. The entries of the protocol are those that the kind of trial has: the fields of an
experiment, such as `--set experiment.episodes=1000`, or those of `evaluation`, such as `--set evaluation.seeds=1000`;
any other `--set` overrides the space. WHAT is a search space, whose trials are evaluated, or ids of trials; `--where`
chooses trials by a condition of SQL. Results are in the view `evaluations`. An evaluation that exists is not repeated.

The request of `stop` goes through the store, so any machine will do that can write there. The command ends when the
drivers have.

Exit codes of `run` and `evaluate`: 0 when every planned trial is committed and none failed, or every chosen network is
evaluated; 1 when some failed or are missing, with the reason of each; 2 for input that makes no sense; 128 + n after
signal n (130 for Ctrl-C), with the command that carries on.

Exit codes of `stop`: 0 when no driver of the sweep runs any more; 1 if a driver does not answer; 2 for a sweep that is
not there, or a store that cannot be read or written; 130 for Ctrl-C, which ends the wait alone.
"""

import atexit
import contextlib
import functools
import gc
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweeper.command_line import Address, CommandLine, Concurrency, Overrides, Results, opened, told_end
from sweeper.interruption import Interruption, exit_code
from sweeper.messages import UserError, printable, typed
from sweeper.progress import doing

if TYPE_CHECKING:
    from sweeper.store.store import Store


app = CommandLine()


# Run


@app.command()
def run(
    space: Annotated[Path, typer.Argument(metavar="SPACE.yaml", help="The search space.")],
    results: Results = "results",
    address: Address = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run, and at what cost.")] = False,
    overrides: Overrides = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed trials again.")] = False,
    recompute_other_code: Annotated[
        bool,
        typer.Option("--recompute-other-code", help="Compute rows again that are of other code."),
    ] = False,
    concurrency: Concurrency = None,
    trial: Annotated[
        str | None,
        typer.Option("--trial", metavar="ID", help="Debug one trial: train it here, with pdb; store nothing."),
    ] = None,
) -> None:
    """Run what is missing of a search space, and print what came out."""
    # Python looks through all objects when it ends: a sixth of the time of a start that finds everything done. (DuckDB
    # counts on it, so commands that ask in SQL wait for it.)
    atexit.register(gc.freeze)

    again = {"retry_failed": retry_failed, "recompute_other_code": recompute_other_code}
    where = {"address": address, "concurrency": concurrency}
    started = functools.partial(start, space, results, overrides=overrides or (), dry_run=dry_run, trial=trial)
    raise typer.Exit(exit_code(functools.partial(started, again=again, where=where)))


def start(
    space: Path,
    results: str,
    interruption: Interruption,
    overrides: Sequence[str] = (),
    dry_run: bool = False,
    trial: str | None = None,
    again: Mapping[str, bool] = {},
    where: Mapping[str, Any] = {},
) -> int:
    """Plan, train and tell; returns the exit code. While no pack runs, a signal raises KeyboardInterrupt.

    `again` are options of `sweeper.plan`, `where` those of `sweeper.train`.
    """
    # Jax, Ray and the rest take seconds to import, in which Ctrl-C must be understood already.
    with doing("importing"), _uncollected():
        import jax

        from sweeper.space import search_space
        from sweeper.store.store import Store
        from sweeper.sweeps.on_cluster import Interrupted
        from sweeper.sweeps.output import Output
        from sweeper.sweeps.sweep_plan import unchecked_plan
        from sweeper.trial import provenance

    output = Output()
    jax.config.update("jax_platforms", "cpu")  # the driver plans and counts; only workers use accelerators
    store = None
    try:
        with _uncollected(), doing(f"reading {space}"):
            spec = search_space.read(space, overrides)
        store = Store.open(results)
        if trial is not None:
            from sweeper.sweeps.training import train_one

            return 0 if train_one(spec, store, trial, output) else 1
        plan = unchecked_plan(spec, results, command=provenance.command_line(sys.argv), **again)
        output.say(str(plan))
        plan.check()
        from sweeper.sweeps.training import rehearse, train_plan  # with pandas; the plan is told before

        if dry_run:
            rehearse(plan, where.get("address"))
            output.say(f"  cost: {plan.cost()}")
            return 0
        from sweeper.training import compilation

        compilation.keep_on_this_machine()
        result = train_plan(plan, interruption=interruption, output=output, **where)
        result.tell(output, result.draw())
        if not (result.complete or result.goal_reached):
            return 1
        elsewhere = [] if results == "results" else ["--results", results]
        output.say(f"next: {typed('query', 'best', spec.name, *elsewhere)}")
        output.say(f"      {typed('report', '--html', 'page.html', *elsewhere)}")
        return 0
    except (Interrupted, UserError, OSError) as end:
        return told_end(end, output, "trial", of_store=2 if store is None else 1)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Leave garbage for later: among thousands of new modules and classes the search takes a tenth of their time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


# Evaluate


@app.command()
def evaluate(
    what: Annotated[
        list[str] | None, typer.Argument(metavar="[SPACE.yaml | TRIAL...]", help="A search space, or ids of trials.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="SQL", help="Chooses trials: a condition on the view trials, such as seed = 1."),
    ] = None,
    results: Results = "results",
    address: Address = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be evaluated.")] = False,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="A changed entry of the protocols, such as evaluation.seeds=1000; repeatable.",
        ),
    ] = None,
    recompute_other_code: Annotated[
        bool,
        typer.Option("--recompute-other-code", help="Make evaluations again that are of other code."),
    ] = False,
    concurrency: Concurrency = None,
) -> None:
    """Evaluate stored networks by another protocol, without training."""
    ids = tuple(name for name in what or () if re.fullmatch("[0-9a-f]{20}", name))
    spaces = [Path(name) for name in what or () if name not in ids]
    of_protocol = [each for each in overrides or () if each.startswith(("evaluation.", "experiment."))]
    of_space = [each for each in overrides or () if each not in of_protocol]
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
        from sweeper.trial import provenance

        output = Output()
        jax.config.update("jax_platforms", "cpu")  # only workers use accelerators
        planned = None
        try:
            store = Store.existing(results)
            if where is not None:
                chosen = sql.chosen_ids(where, store)
            else:
                chosen = search_space.read(spaces[0], of_space) if spaces else ids
            planned = evaluation.plan_evaluation(
                chosen,
                search_space.protocol_of(of_protocol),
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


# Stop


@app.command()
def stop(
    sweep: Annotated[str, typer.Argument(help="Its name, as `status` shows it, or the file of its search space.")],
    results: Results = "results",
) -> None:
    """Ask the drivers of a sweep to leave checkpoints and end; returns when they have."""
    try:
        with opened(results) as store:
            if sweep.endswith((".yaml", ".yml")):
                from sweeper.space import search_space

                sweep = search_space.read(Path(sweep)).name
            code = stop_drivers(store, sweep)
    except KeyboardInterrupt:
        print("the request stays; only the wait for an answer has ended", file=sys.stderr)
        raise typer.Exit(130) from None
    raise typer.Exit(code)


def stop_drivers(store: "Store", sweep: str, **waits: float) -> int:
    """Ask the drivers of a sweep to stop and say what became of each; the exit code. `waits` are those of `answers`."""
    from sweeper.listeners.heartbeats import SILENT, answers

    ends = set()
    for heartbeat, end in answers(store.files, sweep, **waits):
        where = printable(heartbeat.place)
        print(f"{sweep}: the driver on {where} {end}", file=sys.stderr if end == SILENT else sys.stdout)
        ends.add(end)
    if not ends:
        store.latest_starts([sweep])  # refuses a sweep that is not there
        print(f"no driver of {sweep} runs")
    return 1 if SILENT in ends else 0
