"""The orders of a driver, and the process that keeps them."""

import subprocess
import sys

from sweeper.packs.orders import Orders
from sweeper.trial import plugins

MODULES = "import sys; from sweeper.packs import orders; print(*sys.modules)"


def test_orders_wait_for_those_that_they_are_for():
    orders = Orders()
    assert orders.order("a") == "carry on"
    orders.stop_early("a")
    assert (orders.order("a"), orders.order("b")) == ("stop early", "carry on")
    orders.leave()
    assert (orders.order("a"), orders.order("b")) == ("leave", "leave")


def test_the_process_that_keeps_orders_waits_for_no_library():
    done = subprocess.run([sys.executable, "-c", MODULES], cwd=plugins.ROOT, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded - sys.stdlib_module_names <= {"sweeper", "__main__", *_of_every_process()}


def _of_every_process() -> set[str]:
    """Modules that this interpreter loads by itself, whatever is run."""
    done = subprocess.run(
        [sys.executable, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in done.stdout.split()}
