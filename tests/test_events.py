"""The stream of events: every listener hears all of them, and none can harm the sweep."""

import pytest

from sweeper import events
from sweeper.events import Event, Stream
from tests.heard import Heard


class Broken(Heard):
    def hear(self, event: Event) -> None:
        super().hear(event)
        raise RuntimeError("no connection")


def test_every_listener_hears_everything_in_order_and_the_end_comes_last():
    first, second = Heard(), Heard()
    with Stream([first.hear, second.hear], warn=pytest.fail) as stream:
        stream.emit(events.SweepStarted(None))
        stream.emit(events.Ticked())
    assert first.events == second.events == [events.SweepStarted(None), events.Ticked(), events.SweepEnded()]


def test_the_end_comes_after_an_error_too():
    listener = Heard()
    with pytest.raises(KeyboardInterrupt), Stream([listener.hear], warn=pytest.fail):
        raise KeyboardInterrupt
    assert listener.events == [events.SweepEnded()]


def test_a_listener_that_raises_is_one_warning_and_harms_nobody():
    broken, sound, warnings = Broken(), Heard(), []
    with Stream([broken.hear, sound.hear], warnings.append) as stream:
        for _ in range(3):
            stream.emit(events.Ticked())
    assert len(broken.events) == len(sound.events) == 4
    (warning,) = warnings
    assert warning.startswith("Broken.hear raised RuntimeError: no connection")
