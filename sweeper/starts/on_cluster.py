"""The packs of a start on a Ray cluster, with its listeners."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sweeper import events, listeners
from sweeper.interruption import Interruption
from sweeper.listeners import HeardStart
from sweeper.packs.packing import Pack
from sweeper.starts.output import Output

if TYPE_CHECKING:
    from sweeper import launch


class StartError(Exception):
    """Ends a start; the message is for the user.

    Attributes:
        code: The exit code.
    """

    def __init__(self, message: str, code: int):
        super().__init__(message)
        self.code = code


def launched(
    job: "launch.Job",
    address: str | None,
    output: Output,
    interruption: Interruption,
    first_packs: Sequence[Pack] = (),
) -> "launch.Launched":
    """Run all packs of a job.

    Args:
        job: The work.
        address: Ray cluster; None for the running one, else a local one.
        output: Where to print.
        interruption: Signals that came.
        first_packs: Packs whose programs may be compiled before there are workers.

    Raises:
        StartError: there is no cluster that can run the packs.
        KeyboardInterrupt: the cluster died of the signal that this process got.
    """
    from sweeper import launch  # Ray takes seconds to import

    code = job.provenance.code
    plugged = {
        (trial.task.name, trial.model.name, trial.objective.name): trial for trial in job.source.planned.values()
    }
    first = None if code is None else launch.FirstPacks(first_packs, code, tuple(plugged.values()))
    heard = HeardStart(output.out, job.store, job.provenance.command, interruption.ask)
    try:
        with events.Stream(listeners.listeners(heard), warn=output.complain) as stream:
            stream.emit(job.planned())
            with launch.connected(address, job.resources, interruption, first) as cluster:
                stream.emit(events.SweepStarted(cluster))
                return launch.launch(job, stream, interruption)
    except launch.LaunchError as error:
        if interruption.arrived() is not None:
            raise KeyboardInterrupt from error  # Ray's own processes got the signal as well, and ended first
        raise StartError(str(error), 2 if isinstance(error, launch.TooLarge | launch.ProjectError) else 1) from error
