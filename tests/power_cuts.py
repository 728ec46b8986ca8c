"""Power cuts: an exception before or after any operation that changes files of a store."""

import itertools

import pytest

from sweeper.store import local_files
from sweeper.store.local_files import LocalFiles
from sweeper.store.object_files import ObjectFiles


class _PowerCut(BaseException):
    """The process ends here."""


def power_cuts(folder, least):
    """Empty folders, and for each a function that runs an action with a power cut, one operation later each time.

    The function returns whether the action ended before the cut, as it does in the last folder, after at least so many
    others. Nothing is flushed, because the power is not really cut.
    """
    for moment in itertools.count():
        ended = []

        def run(action, *arguments, moment=moment, ended=ended):
            ended.append(survived(moment, action, *arguments))
            return ended[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(local_files.os, "fsync", lambda descriptor: None)
            yield folder / str(moment), run
        if ended == [True]:
            break
    assert moment >= least


def survived(moment, action, *arguments):
    """Run an action with a power cut before (even moments) or after (odd) an operation on files; whether it ended."""
    with pytest.MonkeyPatch.context() as patch:
        _cut_at(moment, patch)
        try:
            action(*arguments)
        except _PowerCut:
            return False
    return True


def _cut_at(moment, patch):
    """Count the operations on files; the caller undoes `patch`."""
    counter = itertools.count()

    def guarded(operation):
        def run(*arguments, **options):
            for end in ("before", "after"):
                if end == "after":
                    value = operation(*arguments, **options)
                if next(counter) == moment:
                    raise _PowerCut
            return value

        return run

    for kind in (LocalFiles, ObjectFiles):
        for name in ("write", "delete", "move"):
            patch.setattr(kind, name, guarded(getattr(kind, name)))
