"""The orders of a driver."""

from sweeper.packs.orders import Orders


def test_orders_wait_for_those_that_they_are_for():
    orders = Orders()
    assert orders.order("a") == "carry on"
    orders.stop_early("a")
    assert (orders.order("a"), orders.order("b")) == ("stop early", "carry on")
    orders.leave()
    assert (orders.order("a"), orders.order("b")) == ("leave", "leave")
