"""Files of results that others may be reading while they are written: a reader gets the old file or the new one."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """A new file beside `path`, which takes the place of `path` at the end of the block.

    After an exception the file at `path` is what it was before.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
