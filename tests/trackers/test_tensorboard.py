"""TensorBoard's own server shows the exported trials."""

import re
import subprocess
import sys
from urllib.parse import urlencode

import pytest

from tests.heartbeats import until
from tests.results import STARTED
from tests.trackers.exports import IDS, QS, asked, exported, grown

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


def test_the_server_shows_curves_metrics_and_hyper_parameters(store, tmp_path, server):
    grown(store, tmp_path / "logs", "tensorboard")
    folders = sorted((tmp_path / "logs" / "cycles").iterdir())
    assert {folder.name[-8:]: folder.name[:-9] for folder in folders} == {
        key[:8]: f"coloring_transformer_Aq_R_q={q}" for key, q in zip(IDS, QS, strict=True)
    }
    assert all(len(list(folder.iterdir())) == 1 for folder in folders)

    def plugin(name, question=None, **keys):
        return asked(f"{server}/data/plugin/{name}?{urlencode(keys)}", question)

    names = {f"cycles/{folder.name}" for folder in folders}
    until(lambda: plugin("scalars/tags").keys() == names)  # it looks every few seconds
    (first,) = (name for name in names if name.endswith(IDS[0][:8]))
    curve = plugin("scalars/scalars", tag="train_loss", run=first)
    assert [(step, round(value, 6)) for _, step, value in curve] == [(100, 0.2), (200, 0.1)]
    ((moment, step, value),) = plugin("scalars/scalars", tag="success_worst5", run=first)
    assert (step, value) == (300, 0.25)
    assert moment == pytest.approx(STARTED.timestamp() + 2.5)
    statuses = ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"]
    question = {"experimentName": "", "allowedStatuses": statuses, "colParams": [], "startIndex": 0, "sliceSize": 9}
    groups = plugin("hparams/session_groups", question)["sessionGroups"]
    assert {group["name"]: group["hparams"] for group in groups} == {
        f"cycles/coloring_transformer_Aq_R_q={q}_{key[:8]}": {"objective.q": q} for key, q in zip(IDS, QS, strict=True)
    }


def test_the_same_rows_make_the_same_bytes(made, tmp_path):
    for name in ("logs", "again"):
        assert exported(made, tmp_path / name, "tensorboard") == (2, 0)
    files = list((tmp_path / "logs").rglob("events*"))
    assert len(files) == 2
    for file in files:
        assert file.read_bytes() == (tmp_path / "again" / file.relative_to(tmp_path / "logs")).read_bytes()
