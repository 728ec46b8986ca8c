"""Ctrl-C and its relatives, as a request that can wait for checkpoints.

While packs run, the first signal is only noted, and the driver's loop acts on it; at any other time, and from the
second on, a signal raises KeyboardInterrupt at once.
"""

import signal
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """Whether somebody wants the sweep to stop.

    Attributes:
        signum: The first signal that came.
        patient: Whether a loop is looking at `signum`.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self.patient = False

    def listen(self) -> None:
        """Take over SIGINT, SIGTERM and SIGHUP; what the caller ignores (nohup) stays ignored."""
        for signum in SIGNALS:
            if signal.getsignal(signum) != signal.SIG_IGN:
                signal.signal(signum, self._on_signal)

    def ignore(self) -> None:
        """Let nothing disturb the last steps."""
        for signum in SIGNALS:
            signal.signal(signum, signal.SIG_IGN)

    def _on_signal(self, signum: int, frame: Any) -> None:
        first = self.signum is None
        self.signum = self.signum or signum
        if not (first and self.patient):
            raise KeyboardInterrupt
