"""What a fault cost."""

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Finding:
    """The result of a fault.

    Attributes:
        times: How often the fault was injected.
        trials: Trials of the sweep.
        lost: Committed trials that were gone later.
        doubled: Rows beside another row of the same trial at the end.
        again: Committed trials that a later start planned to run, or whose row changed.
        complete: Whether the same command finished the sweep.
        remark: What else was measured.
    """

    times: int
    trials: int
    lost: int
    doubled: int
    again: int
    complete: bool
    remark: str = ""

    @property
    def kept(self) -> bool:
        """Whether the fault was injected, and every promise kept."""
        return self.times > 0 and self.complete and not (self.lost or self.doubled or self.again)


Fault = Callable[[Path, Path, int, random.Random], Finding]
"""Takes a checkout, a scratch folder, how often to inject, and a generator."""
