"""`python -m sweeper stop SWEEP`: ask the drivers of a sweep to leave checkpoints and end, as Ctrl-C does.

The request goes through the store, so any machine will do that can write there. The command ends when the drivers have.

Exit codes: 0 when no driver of the sweep runs any more; 1 if a driver does not answer; 2 for a sweep that is not there,
or a store that cannot be read or written; 130 for Ctrl-C, which ends the wait alone.
"""

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from sweeper.command_line import Results, exit_on
from sweeper.messages import printable

if TYPE_CHECKING:
    from sweeper.store.store import Store

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

SECONDS = 1.0
"""Between two looks for an answer."""

PATIENCE = 60.0
"""Seconds without a new sign of life after which a driver elsewhere is given up."""


@app.command()
def stop(
    sweep: Annotated[str, typer.Argument(help="Its name, as `status` shows it.")],
    results: Results = "results",
) -> None:
    """Ask the drivers of a sweep to leave checkpoints and end; returns when they have."""
    from sweeper.store.store import Store, StoreError

    try:
        with exit_on(StoreError):
            silent = stopped(Store.existing(results), sweep)
    except KeyboardInterrupt:
        print("the request stays; only the wait for an answer has ended", file=sys.stderr)
        raise typer.Exit(130) from None
    raise typer.Exit(1 if silent else 0)


def stopped(store: "Store", sweep: str) -> bool:
    """Ask all drivers of a sweep to stop and wait for them; returns whether one of them did not answer.

    Raises:
        StoreError: there is no such sweep, or the store cannot be read or written.
    """
    from sweeper.store.driver_process import life
    from sweeper.store.drivers import ask_to_stop, remove_sign, signs
    from sweeper.store.sweep_records import latest_starts

    waiting = {each.sign.driver: each for each in signs(store.files) if each.sweep == sweep}
    if not waiting:
        latest_starts(store.sweeps(), [sweep])
        print(f"no driver of {sweep} runs")
        return False
    for driver in waiting:
        ask_to_stop(store.files, sweep, driver)
    heard = dict.fromkeys(waiting, time.monotonic())
    silent = False
    while waiting:
        now = {each.sign.driver: each for each in signs(store.files) if each.sweep == sweep}
        for driver, before in list(waiting.items()):
            where = printable(f"{before.sign.process.host} (process {before.sign.process.pid})")
            if driver not in now:
                print(f"{sweep}: the driver on {where} has stopped")
                del waiting[driver]
            elif life(before.sign.process) == "dead":
                remove_sign(store.files, sweep, driver)
                print(f"{sweep}: the driver on {where} had died")
                del waiting[driver]
            elif now[driver].modified != before.modified:
                waiting[driver], heard[driver] = now[driver], time.monotonic()
            elif time.monotonic() - heard[driver] > max(PATIENCE, 4 * before.sign.every):
                print(f"{sweep}: the driver on {where} gives no sign of life; the request stays", file=sys.stderr)
                del waiting[driver]
                silent = True
        if waiting:
            time.sleep(SECONDS)
    return silent


if __name__ == "__main__":
    app()
