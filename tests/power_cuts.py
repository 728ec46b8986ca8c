"""Power cuts: an exception before or after any operation that changes files of a store."""

import itertools

import pytest

from sweeper.store.local_files import LocalFiles
from sweeper.store.object_files import ObjectFiles


class _PowerCut(BaseException):
    """The process ends here."""


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
