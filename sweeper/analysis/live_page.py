"""The report as a page that is written again and again while a sweep runs (`report --html page.html --watch 30`)."""

import sys
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

from sweeper.analysis.report import Reported, ReportError
from sweeper.messages import printable_lines
from sweeper.space.problems import SearchSpaceError
from sweeper.store.store import Store, StoreError

SHARE = 0.1
"""Share of the time that goes into writing the page at most."""


def follow(results: str, report: Callable[[bool, int | None], Reported], seconds: int) -> None:
    """Write the page until Ctrl-C, and a last time as a page that stays as it is.

    Figures and tables are made anew only if a trial or a start has been added. A store that cannot be read is tried
    again.

    Args:
        results: Folder or URL of the store behind the page.
        report: Makes the whole report; called with whether to print nothing but errors, and with the seconds after
            which an open page loads itself again (None for never).
        seconds: Between two pages, or more if a page takes long to write.

    Raises:
        ReportError, SearchSpaceError, StoreError, OSError: the first report could not be made.
    """
    store = Store.open(results)
    known, write_page = _state(store), report(False, seconds).write_page
    assert write_page is not None  # a report with a page
    spent = 0.0
    try:
        while True:
            sleep(max(seconds, spent / SHARE - spent))
            begun = monotonic()
            try:
                now = _state(store)
                if now != known:
                    known, write_page = now, report(True, seconds).write_page or write_page
                else:
                    write_page(seconds)
            except (ReportError, SearchSpaceError, StoreError, OSError) as error:
                print(printable_lines(str(error)), file=sys.stderr)
            spent = monotonic() - begun
    except KeyboardInterrupt:
        report(True, None)


def _state(store: Store) -> Any:
    """What figures and tables depend on: the committed trials, and the starts of sweeps."""
    return store.committed(), store.sweeps()
