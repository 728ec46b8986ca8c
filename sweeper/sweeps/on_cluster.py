"""The packs of a sweep or an evaluation on a Ray cluster, with listeners."""

import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from sweeper import events
from sweeper.events import Listener
from sweeper.interruption import SIGNALS, Interruption
from sweeper.messages import UserError
from sweeper.packs.rehearsal import Rehearsal
from sweeper.progress import doing
from sweeper.sweeps.output import Output
from sweeper.training.kind import kind_of

if TYPE_CHECKING:
    from sweeper import launch


class SweepError(UserError, RuntimeError):
    """A sweep that cannot be run here; `code` is the exit code of a command that ends so."""

    def __init__(self, message: str, code: int):
        super().__init__(message)
        self.code = code


class Interrupted(KeyboardInterrupt):
    """A sweep was asked to stop, and its packs have left checkpoints."""

    def __init__(self, signum: int, left: int, command: str):
        """By a signal, with so many trials or networks to go, and the command line that carries on."""
        super().__init__()
        self.signum, self.left, self.command = signum, left, command


def launched(
    job: "launch.Job",
    address: str | None,
    listeners: Sequence[Listener],
    output: Output,
    interruption: Interruption,
    rehearsal: Rehearsal,
) -> "launch.Launched":
    """Run all packs of a job, after the rehearsal of its programs.

    A `SweepError` if no cluster can run the packs; KeyboardInterrupt if it died of the signal that this process got.
    """
    with doing("importing Ray"):
        from sweeper import launch

    try:
        with events.Stream(listeners, warn=output.complain) as stream:
            stream.emit(job.planned())
            connected = launch.connected(address, job.resources, interruption, rehearsal, job.trials, job.text)
            for kind in set(map(kind_of, job.source.planned.values())):
                kind.forget_data()  # which was made for its shapes
            with contextlib.ExitStack() as stack:
                with doing("starting Ray"):
                    cluster = stack.enter_context(connected)
                stream.emit(events.SweepStarted(cluster))
                from sweeper.launch import tune_driver  # Tune is imported while a local cluster starts

                return tune_driver.launch(job, stream, interruption, grows=cluster is not None)
    except launch.LaunchError as error:
        if interruption.arrived() is not None:
            raise KeyboardInterrupt from error  # Ray's own processes got the signal as well, and ended first
        raise SweepError(str(error), 2 if isinstance(error, launch.SetupError) else 1) from error


@contextlib.contextmanager
def answering_signals(answer: Literal["note", "raise"]) -> Iterator[Interruption]:
    """Answer signals while packs run, and give a program its signal handlers back.

    The answer is `note` for packs in this process: a loop looks between two strides, and a second signal raises. On Ray
    signals raise until the cluster is there, and are noted then; outside the main thread, which alone gets signals, a
    start on Ray is refused.
    """
    if threading.current_thread() is not threading.main_thread():
        if answer == "note":
            yield Interruption()
            return
        raise SweepError("Ray's workers are asked to leave by signals, which only the main thread of a program gets", 2)
    handlers = {signum: signal.getsignal(signum) for signum in SIGNALS}
    wakeup = signal.set_wakeup_fd(-1)
    interruption = Interruption()
    try:
        with interruption.answered_by(answer):
            if answer == "note":
                interruption.listen()
            yield interruption
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(wakeup)
