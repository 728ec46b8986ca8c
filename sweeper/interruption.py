"""The answers of a start to the signals that ask it to stop, before, while and after packs run.

Before packs run, and after, there is nothing to tidy up: the process ends at once. (An exception would do the same,
unless it was raised in a callback of the garbage collector or in an import in C code, which lose exceptions.) While Ray
starts, a signal raises KeyboardInterrupt, so that the processes that have been started are stopped. While packs run,
the first signal is noted, and the driver's loop makes the packs leave checkpoints; the second signal raises
KeyboardInterrupt.

Beside Ctrl-C, SIGTERM and SIGHUP these are the ones that batch systems send some time before the end (`--signal` of
Slurm), timers, and limits of CPU time. Workers do not hear these: the driver asks them to leave checkpoints.

A signal may mean that the machine is about to be taken away. Then Ray's own processes may have got the signal too and
answer nothing, so that waiting for them has a limit: `leave_within`.
"""

import contextlib
import os
import select
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Literal

OF_BATCH_SYSTEMS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGALRM)

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, *OF_BATCH_SYSTEMS)

CLEAR_LINE = "\r\x1b[2K"  # for a terminal

LIMIT_SECONDS = 25.0  # reclaimed machines and Slurm leave 30 seconds between the first signal and the last


class Interruption:
    """Whether the sweep is to stop; `signum` is the first signal that was answered, `limit` the limit that ends it."""

    def __init__(self) -> None:
        self.signum: int | None = None
        self.limit: str | None = None
        self._arrived: int | None = None
        self._answer: Literal["exit", "raise", "note", "ignore"] = "exit"
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        for end in (self._woken, self._wake):
            # Not at the end of the process, in which the thread of `leave_within` still waits.
            weakref.finalize(self, os.close, end).atexit = False

    def listen(self) -> None:
        """Take over `SIGNALS`; those that the caller ignores (nohup) stay ignored."""
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)  # one byte for each signal
        for signum in SIGNALS:
            if signal.getsignal(signum) != signal.SIG_IGN:
                signal.signal(signum, self._on_signal)

    def ask(self) -> None:
        """Let the sweep stop as after Ctrl-C; any thread may call this while packs run."""
        self.signum = self.signum or signal.SIGINT
        os.write(self._wake, bytes([signal.SIGINT]))

    def end(self, limit: str) -> None:
        """Let the sweep stop as after Ctrl-C, as it has come to a limit, in a few words; the first limit counts."""
        self.limit = self.limit or limit

    @property
    def asked(self) -> bool:
        """Whether the sweep is to stop."""
        return self.signum is not None or self.limit is not None

    def leave_within(self, seconds: float) -> None:
        """End the process this long after the first signal, even while it waits."""

        def watch() -> None:
            while (arrived := self.arrived()) is None:
                select.select([self._woken], [], [])
            time.sleep(seconds)
            last_words("interrupted, and nothing answered in time; the same command carries on")
            os._exit(128 + arrived)

        threading.Thread(target=watch, daemon=True).start()

    def arrived(self) -> int | None:
        """The first signal that came, even if unanswered because the main thread is inside a call to Ray."""
        with contextlib.suppress(BlockingIOError):
            signals = (signum for signum in os.read(self._woken, 4096) if signum in SIGNALS)
            self._arrived = self._arrived or next(signals, None)
        return self._arrived

    @contextlib.contextmanager
    def answered_by(self, answer: Literal["raise", "note", "ignore"]) -> Iterator[None]:
        """Answer signals in this way inside the `with` block."""
        before, self._answer = self._answer, answer
        try:
            yield
        finally:
            self._answer = before

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal came, also if an earlier exception for the signal got lost."""
        if self.signum is not None:
            raise KeyboardInterrupt

    def _on_signal(self, signum: int, frame: Any) -> None:
        first = self.signum is None
        self.signum = self.signum or signum
        match self._answer:
            case "exit":
                last_words("interrupted; the same command carries on")
                os._exit(128 + self.signum)
            case "note" if first or signum == signal.SIGXCPU:  # which comes every second
                pass
            case "raise" | "note":
                raise KeyboardInterrupt


@contextlib.contextmanager
def starting_deaf_processes() -> Iterator[None]:
    """Processes that are started meanwhile, and theirs, hear neither hangups nor batch systems.

    A terminal that is closed, or a batch system, cannot end them: the driver lets them leave checkpoints then.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP, *OF_BATCH_SYSTEMS})  # children inherit it
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore_batch_systems() -> None:
    """Have this process, a worker, ignore `OF_BATCH_SYSTEMS`; a plug-in may use a timer, and sets its own answer."""
    with contextlib.suppress(ValueError):  # a thread that is not the main one may not
        for signum in OF_BATCH_SYSTEMS:
            signal.signal(signum, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, OF_BATCH_SYSTEMS)


def last_words(text: str) -> None:
    """Write to standard error what may be the last words of the process, if anybody can still hear them.

    On a terminal they stand in place of a bar that is drawn there.
    """
    with contextlib.suppress(OSError):
        os.write(2, f"{CLEAR_LINE if os.isatty(2) else ''}{text}\n".encode())


def exit_code(start: Callable[[Interruption], int]) -> int:
    """The exit code of a start that answers signals; 128 + n after signal n."""
    interruption = Interruption()
    interruption.listen()
    interruption.leave_within(LIMIT_SECONDS)
    try:
        return start(interruption)
    except KeyboardInterrupt:
        print("interrupted; the same command carries on", file=sys.stderr)
        return 128 + (interruption.arrived() or interruption.signum or signal.SIGINT)
