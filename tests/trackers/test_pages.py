"""The page of each tracker opens after the commands of docs/trackers.md alone, as far as its program is installed."""

import contextlib
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from sweeper.trial import plugins
from tests.heartbeats import until
from tests.processes import python

DOCUMENT = (Path(__file__).parents[2] / "docs" / "trackers.md").read_text()
ROW = re.compile(r"^\| ([\w&]+) \| `(sweeper [^`]+)` \| `([^`]+)` \|$", re.MULTILINE)
ROWS = {tool: commands for tool, *commands in ROW.findall(DOCUMENT)}


@pytest.mark.long  # starts servers, which import for seconds
@pytest.mark.parametrize("tool", ["MLflow", "TensorBoard"])
def test_the_page_opens_after_the_documented_commands(store, tmp_path, tool):
    export, show = ROWS[tool]
    words = ["-m", "sweeper", *shlex.split(export)[1:], "--results", store.url]
    python(*words, cwd=tmp_path, check=True, PYTHONPATH=str(plugins.ROOT))
    program, *options = shlex.split(show)
    if (found := shutil.which(program, path=f"{Path(sys.executable).parent}:{tmp_path}")) is None:
        pytest.skip(f"{program} is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([found, *options, "--port", str(port)], cwd=tmp_path, env=os.environ)
    try:
        assert tool in page(f"http://127.0.0.1:{port}/", server)
    finally:
        server.terminate()
        server.wait()


def page(url: str, server: "subprocess.Popen[bytes]") -> str:
    """What a server that is about to start answers."""

    def answered() -> str | None:
        assert server.poll() is None, "the server has ended"
        with contextlib.suppress(OSError), urllib.request.urlopen(url) as answer:
            return answer.read().decode()

    return until(answered)


def test_every_tool_of_the_table_has_its_commands():
    assert sorted(ROWS) == ["MLflow", "TensorBoard"]
    assert "wandb sync" in DOCUMENT
