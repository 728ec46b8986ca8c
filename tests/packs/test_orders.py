"""The orders of a driver, and the process that keeps them."""

import sys

from sweeper.packs.orders import Orders
from tests.processes import python


def test_orders_wait_for_those_that_they_are_for():
    orders = Orders()
    assert orders.order("a") == "carry on"
    orders.stop_early("a")
    assert (orders.order("a"), orders.order("b")) == ("stop early", "carry on")
    orders.leave()
    assert (orders.order("a"), orders.order("b")) == ("leave", "leave")


def test_the_process_that_keeps_orders_waits_for_no_library():
    def loaded(code: str) -> set[str]:
        printed = python("-c", f"import sys; {code}; print(*sys.modules)", check=True).stdout
        return {name.partition(".")[0] for name in printed.split()}

    by_itself = loaded("pass")
    assert loaded("from sweeper.packs import orders") - sys.stdlib_module_names <= {"sweeper", "__main__", *by_itself}
