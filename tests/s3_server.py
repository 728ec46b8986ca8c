"""An S3 server of one's own: moto's, in a process of its own on the loopback address, which logs every request."""

import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from pyarrow import fs

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "AKIATESTING",
    "AWS_SECRET_ACCESS_KEY": "a/secret+key",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""What a client needs in its environment: any keys do, and there is no machine's role to ask for."""


class Server:
    """A running server with one bucket, called `bucket`."""

    def __init__(self, address: str, log: Path):
        self._address, self._log = address, log
        self.filesystem = fs.S3FileSystem(
            access_key=ENVIRONMENT["AWS_ACCESS_KEY_ID"],
            secret_key=ENVIRONMENT["AWS_SECRET_ACCESS_KEY"],
            endpoint_override=address,
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )
        self.filesystem.create_dir("bucket")

    def url(self, folder: str) -> str:
        """Address of a store in the bucket."""
        return f"s3://bucket/{folder}?endpoint_override={self._address}&scheme=http&region=us-east-1"

    def requests(self) -> list[tuple[str, str]]:
        """Method and path with query of every request so far, in the order in which they were answered."""
        return [(found[1], found[2]) for found in _REQUEST.finditer(self._log.read_text())]


_REQUEST = re.compile(r'"(?:\x1b\[\d+m)*([A-Z]+) (\S+) HTTP/1.1')


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A server that lives as long as the context; `folder` gets its log."""
    log = folder / "s3.log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", "0"], stdout=file, stderr=file
        )
    try:
        while (found := re.search(r"Running on http://(127\.0\.0\.1:\d+)", log.read_text())) is None:
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        yield Server(found[1], log)
    finally:
        process.kill()
        process.wait()
