"""The page of each tracker opens after the commands of docs/trackers.md alone, as far as its program is installed.

MLflow's server has an environment of its own, which `make .venv/mlflow-page` makes as the document says.
"""

import contextlib
import os
import re
import shlex
import signal
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

QUICK = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
"""Six further processes of MLflow's server, which no page needs, do not start."""


@pytest.mark.long  # starts servers, which import for seconds
@pytest.mark.parametrize("tool", ["MLflow", "TensorBoard"])
def test_the_page_opens_after_the_documented_commands(store, tmp_path, tool):
    export, show = ROWS[tool]
    words = ["-m", "sweeper", *shlex.split(export)[1:], "--results", store.url]
    python(*words, cwd=tmp_path, check=True, PYTHONPATH=str(plugins.ROOT))
    program, *options = shlex.split(show)
    environment = Path(sys.prefix)
    found = next((path for path in (environment / "bin" / program, environment / program) if path.exists()), None)
    if found is None:
        pytest.skip(f"{program} is not installed in {environment}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = [found, *options, "--port", str(port)]
    server = subprocess.Popen(program, cwd=tmp_path, env=os.environ | QUICK, start_new_session=True)
    try:
        assert tool in page(f"http://127.0.0.1:{port}/", server)
    finally:
        os.killpg(server.pid, signal.SIGKILL)  # MLflow's would leave processes of its own behind
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
