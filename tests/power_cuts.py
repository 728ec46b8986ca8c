"""Power cuts: an exception before or after any operation that changes files of a store."""

import itertools

from sweeper.store.local_files import LocalFiles
from sweeper.store.object_files import ObjectFiles


class PowerCut(BaseException):
    """The process ends here."""


def cut_at(moment, patch):
    """The power fails before (even) or after (odd) an operation on the files; `patch` is undone by the caller."""
    counter = itertools.count()

    def guarded(operation):
        def run(*arguments, **options):
            for end in ("before", "after"):
                if end == "after":
                    value = operation(*arguments, **options)
                if next(counter) == moment:
                    raise PowerCut
            return value

        return run

    for kind in (LocalFiles, ObjectFiles):
        for name in ("write", "delete", "move"):
            patch.setattr(kind, name, guarded(getattr(kind, name)))
