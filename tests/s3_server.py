"""An S3 server for tests: moto's, in a process of its own on the loopback address, which logs every request.

While the file `busy` is there, the server answers every request with 503, as a busy store does.
"""

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


LOG, BUSY = "s3.log", "busy"


class Server:
    """A running server with one bucket, called `bucket`.

    Attributes:
        busy: While this file is there, every answer is 503.
    """

    def __init__(self, address: str, folder: Path):
        self._address, self._log = address, folder / LOG
        self.busy = folder / BUSY
        filesystem = fs.S3FileSystem(
            access_key=ENVIRONMENT["AWS_ACCESS_KEY_ID"], secret_key=ENVIRONMENT["AWS_SECRET_ACCESS_KEY"],
            endpoint_override=address, scheme="http", region="us-east-1", allow_bucket_creation=True,
        )  # fmt: skip
        filesystem.create_dir("bucket")

    def url(self, folder: str) -> str:
        """Address of a store in the bucket."""
        return f"s3://bucket/{folder}?endpoint_override={self._address}&scheme=http&region=us-east-1"

    def requests(self) -> list[tuple[str, str]]:
        """Method and path with query of every request so far, in the order in which they were answered."""
        return [(request[1], request[2]) for request in _REQUEST.finditer(self._log.read_text())]


_REQUEST = re.compile(r'"(?:\x1b\[\d+m)*([A-Z]+) (\S+) HTTP/1.1')


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A server that lives as long as the context; `folder` gets its log."""
    log = folder / LOG
    with log.open("w") as file:
        process = subprocess.Popen([sys.executable, __file__, str(folder)], stdout=file, stderr=file)
    try:
        while (running := re.search(r"Running on http://(127\.0\.0\.1:\d+)", log.read_text())) is None:
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        yield Server(running[1], folder)
    finally:
        process.kill()
        process.wait()


def _serve(folder: Path) -> None:
    from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import run_simple

    answering = DomainDispatcherApplication(create_backend_app)

    def application(environment, start_response):
        if (folder / BUSY).exists():
            environment["wsgi.input"].read(int(environment.get("CONTENT_LENGTH") or 0))
            start_response("503 Slow Down", [("Content-Length", "0")])
            return []
        return answering(environment, start_response)

    run_simple("127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
