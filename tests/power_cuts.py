"""Power cuts: an exception before or after any operation that changes files of a store."""

import itertools
import os

import pytest

from sweeper.store.local_files import LocalFiles

ON_FILES = [(LocalFiles, name) for name in ("write", "delete", "move")]
ON_A_DISK = [(os, name) for name in ("open", "fsync", "link", "replace", "mkdir", "unlink")]


class _PowerCut(BaseException):
    """The process ends here."""


def power_cuts(folder, least, operations=ON_FILES):
    """Empty folders, and for each a function that runs an action with a power cut, one operation later each time.

    The cut comes before an operation or after it, and from then on there is none, so that nothing cleans up. The
    function returns whether the action ended before the cut, as it does in the last folder, after at least so many
    others. Nothing is flushed, because the power is not really cut.
    """
    for moment in itertools.count():
        ended, counter = [], itertools.count()

        def run(action, *arguments, moment=moment, ended=ended, counter=counter):
            with pytest.MonkeyPatch.context() as patch:
                for owner, name in operations:
                    patch.setattr(owner, name, _guarded(getattr(owner, name), counter, moment))
                try:
                    action(*arguments)
                except _PowerCut:
                    ended.append(False)
                else:
                    ended.append(True)
            return ended[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", lambda descriptor: None)
            yield folder / str(moment), run
        if ended == [True]:
            break
    assert moment >= least


def _guarded(operation, counter, moment):
    def run(*arguments, **options):
        if next(counter) >= moment:
            raise _PowerCut
        value = operation(*arguments, **options)
        if next(counter) >= moment:
            raise _PowerCut
        return value

    return run
