"""The files of a store, by its address."""

from pathlib import Path

from pyarrow import fs

from sweeper.store.files import DurableFiles, explained
from sweeper.store.local_files import LocalFiles
from sweeper.store.object_files import ObjectFiles


def open_files(address: str | Path) -> DurableFiles:
    """The files below a local folder or a URL such as `s3://bucket/results`.

    Raises:
        StoreError: the scheme is unknown, or the address makes no sense.
    """
    text = str(address)
    if "://" not in text:
        return LocalFiles.at(text)
    if text.startswith("file://"):
        with explained("open", text):
            return LocalFiles.at(fs.FileSystem.from_uri(text)[1])
    return ObjectFiles.at(text)
