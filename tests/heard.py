"""A listener for tests."""

from sweeper.events import Event


class Heard:
    """A listener that keeps all events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def hear(self, event: Event) -> None:
        self.events.append(event)

    def all(self, kind: type) -> list:
        return [event for event in self.events if isinstance(event, kind)]
