"""TensorBoard's own server shows the exported trials."""

import contextlib
import json
import re
import subprocess
import sys
import urllib.request
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode

import pytest

from tests.heartbeats import until
from tests.results import STARTED
from tests.trackers.exports import IDS, QS, grown

pytestmark = pytest.mark.slow  # imports of TensorBoard take seconds


@pytest.fixture
def server(tmp_path):
    """The address of `tensorboard --logdir logs`."""
    program = [sys.executable, "-m", "tensorboard.main", "--logdir", tmp_path / "logs", "--port", "0"]
    with subprocess.Popen([*program, "--load_fast", "false"], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = next(found for line in process.stderr if (found := re.search(r"http://\S+?:\d+", line)))
        yield address[0]
        process.kill()


def asked(url: str, question: object = None) -> Any:
    """The JSON with which a server answers."""
    data = None if question is None else json.dumps(question).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def test_the_server_shows_curves_metrics_and_hyper_parameters(store, tmp_path, server):
    grown(store, tmp_path / "logs", "tensorboard")
    folders = sorted((tmp_path / "logs" / "cycles").iterdir())
    labels = [(IDS[[key[:8] for key in IDS].index(name[-24:-16])], name[:-25]) for name in (f.name for f in folders)]
    tried = zip([*IDS, IDS[1]], [*QS, QS[1]], strict=True)  # one was run again
    assert sorted(labels) == sorted((key, f"coloring_transformer_Aq_R_q={q}") for key, q in tried)

    def plugin(name, question=None, **keys):
        return asked(f"{server}/data/plugin/{name}?{urlencode(keys)}", question)

    names = {f"cycles/{folder.name}" for folder in folders}

    def all_are_listed():
        with contextlib.suppress(HTTPError):  # it looks every few seconds, and answers 500 while it looks
            return plugin("scalars/tags").keys() == names

    until(all_are_listed)
    (first,) = (name for name in names if f"_{IDS[0][:8]}-" in name)
    curve = plugin("scalars/scalars", tag="train_loss", run=first)
    assert [(step, round(value, 6)) for _, step, value in curve] == [(100, 0.2), (200, 0.1)]
    ((moment, step, value),) = plugin("scalars/scalars", tag="success_worst5", run=first)
    assert (step, value) == (300, 0.25)
    assert moment == pytest.approx(STARTED.timestamp() + 2.5)
    statuses = ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"]
    question = {"experimentName": "", "allowedStatuses": statuses, "colParams": [], "startIndex": 0, "sliceSize": 9}
    groups = plugin("hparams/session_groups", question)["sessionGroups"]
    assert sorted(group["hparams"]["objective.q"] for group in groups) == [1, 3, 3, 10]
