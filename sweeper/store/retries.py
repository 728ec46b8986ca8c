"""Waiting for a store in trouble: an operation is tried again for some minutes, less and less often."""

import dataclasses
import itertools
import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from sweeper.store.files import StoreTrouble

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

_FIRST, _LONGEST = 1.0, 30.0  # seconds of the first wait, which doubles, and of the longest


@dataclasses.dataclass(frozen=True)
class Retries:
    """How long an operation waits for a store in trouble.

    Attributes:
        seconds: After this time the trouble is an error.
        sleep: Waits the given number of seconds.
        clock: Seconds that have passed since any fixed time.
    """

    seconds: float = 300.0
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def until_done(self, operation: Callable[[], Result]) -> Result:
        """The result of an operation that may be tried again.

        Raises:
            StoreTrouble: the store was in trouble all the time.
        """
        end = self.clock() + self.seconds
        for attempt in itertools.count():
            try:
                return operation()
            except StoreTrouble as error:
                # Workers that met the same trouble must not come back at the same moment.
                wait = min(_FIRST * 2**attempt, _LONGEST) * random.uniform(0.5, 1.0)
                if self.clock() + wait > end:
                    raise
                if attempt == 0:
                    logger.warning("%s; trying again for %.0f s", error, self.seconds)
                self.sleep(wait)
        raise AssertionError("unreachable")
