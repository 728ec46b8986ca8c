"""The files that start clusters, checked offline: by Ray's own schema, by EC2's own model of a request, and by what
this project promises of every cluster."""

import copy
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import botocore.loaders
import botocore.model
import botocore.validate
import pytest
import ray
import yaml
from ray.autoscaler._private import util  # what `ray up` checks a file with; in public it goes on and asks a provider

from sweeper.trial import plugins
from tests import guides
from tests.end_to_end.sweep_process import until

pytestmark = pytest.mark.slow

LAUNCHER_FILES = ("cluster.yaml", "clusters/gcp.yaml", "clusters/local.yaml")


def _read(name: str) -> dict[str, Any]:
    return yaml.safe_load((plugins.ROOT / name).read_text())


def _accepted(config: dict[str, Any]) -> dict[str, Any]:
    """What `ray up` makes of a file before it asks a provider; refuses as `ray up` does."""
    prepared = util.prepare_config(copy.deepcopy(config))
    util.validate_config(prepared)
    return prepared


@pytest.mark.parametrize("name", LAUNCHER_FILES)
def test_ray_accepts_the_file(name):
    config = _read(name)
    prepared = _accepted(config)
    schema = json.loads((Path(ray.__file__).parent / "autoscaler" / "ray-schema.json").read_text())
    assert config["provider"].keys() <= schema["properties"]["provider"]["properties"].keys()
    # No command of Ray's defaults is left; they would install the newest packages.
    for key in ("head_setup_commands", "worker_setup_commands"):
        assert prepared[key] == config["setup_commands"]


def test_ec2_accepts_every_node_type():
    """As EC2's own model of `RunInstances` has them."""
    api = botocore.loaders.Loader().load_service_model("ec2", "service-2")
    shape = botocore.model.ServiceModel(api).operation_model("RunInstances").input_shape
    for node_type in _read("cluster.yaml")["available_node_types"].values():
        asked = {"MinCount": 1, "MaxCount": 1} | node_type["node_config"]
        assert not botocore.validate.ParamValidator().validate(asked, shape).generate_report()


@pytest.mark.parametrize("name", LAUNCHER_FILES)
def test_the_cluster_asks_for_a_token_and_shows_its_dashboard_to_itself_only(name):
    prepared = _accepted(_read(name))
    assert prepared["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"
    (head,) = (line for line in prepared["head_start_ray_commands"] if "ray start" in line)
    (worker,) = (line for line in prepared["worker_start_ray_commands"] if "ray start" in line)
    assert "RAY_AUTH_MODE=token ray start --head" in head
    assert "RAY_AUTH_MODE=token ray start --address=$RAY_HEAD_IP:6379" in worker
    assert "--dashboard-host=127.0.0.1" in shlex.split(head)
    assert "--autoscaling-config=~/ray_bootstrap_config.yaml" in shlex.split(head)


@pytest.mark.parametrize("name", LAUNCHER_FILES)
def test_machines_install_from_locks_that_exist(name):
    (install,) = (command for command in _read(name)["setup_commands"] if "pip install" in command)
    assert "--require-hashes" in install
    kinds = re.findall(r"echo (\w+)", install)
    assert kinds == ["gpu", "cluster"]
    locked = {kind: _locked(f"locks/{kind}.lock") for kind in kinds}
    base = _locked("locks/runtime.lock")
    assert all(base.items() <= versions.items() for versions in locked.values())
    assert "jax-cuda13-plugin" in locked["gpu"]
    assert "jax-cuda13-plugin" not in locked["cluster"]
    assert {"boto3", "aiohttp", "google-api-python-client"} <= set(locked["cluster"])


def _locked(name: str) -> dict[str, set[str]]:
    """Versions by package, each with the Pythons that get it."""
    entries = re.findall(r"^([\w.-]+)==(\S+(?: ; .+)?) ", (plugins.ROOT / name).read_text(), re.MULTILINE)
    return {name: {version for other, version in entries if other == name} for name, _ in entries}


def test_a_worker_job_stays_while_slurm_does_not_answer_and_leaves_when_its_head_is_gone(tmp_path, monkeypatch):
    """Stand-ins for Ray and `squeue`: a controller that cannot be reached for a moment is no head that has ended."""
    tools, meeting, state = tmp_path / "tools", tmp_path / ".slurm" / "7", tmp_path / "state"
    tools.mkdir(parents=True)
    meeting.mkdir(parents=True)
    for name, text in (("address", "n1:1"), ("token", "secret")):
        (meeting / name).write_text(text)
    sleep = shutil.which("sleep")
    scripts = {
        "sleep": f"exec {sleep} 0.1",  # between two looks the job sleeps for seconds
        "ray": f"[[ $1 == --version ]] && exit; echo >> ray; exec {sleep} infinity",
        "squeue": "echo >> asked; case $(cat state) in RUNNING) echo RUNNING;; "
        "silent) echo 'Unable to contact slurm controller' >&2; exit 1;; "
        "*) echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1;; esac",
    }
    for name, body in scripts.items():
        (tools / name).write_text(f"#!/bin/bash\n{body}\n")
        (tools / name).chmod(0o755)

    def asked() -> int:
        return len((tmp_path / "asked").read_text().splitlines())

    state.write_text("RUNNING")
    monkeypatch.chdir(tmp_path)
    assert "sbatch slurm.sh" in guides.run("sweeper new cluster slurm")
    assert "slurm.sh is there already" in guides.run("sweeper new cluster slurm", 2)
    script = tmp_path / "slurm.sh"
    text = script.read_text()
    assert f"programs={Path(sys.executable).parent}" in text
    script.write_text(text.replace(str(Path(sys.executable).parent), str(tools)))
    environment = os.environ | {"SLURM_SUBMIT_DIR": str(tmp_path)}
    job = subprocess.Popen(["bash", str(script), "worker", "7"], env=environment)
    until(lambda: (tmp_path / "ray").exists())
    state.write_text("silent")
    before = asked()
    until(lambda: asked() >= before + 3)
    assert job.poll() is None
    assert len((tmp_path / "ray").read_text().splitlines()) == 1, "the same Ray as before"
    state.write_text("gone")
    assert job.wait() == 0


def test_the_job_on_kubernetes_has_the_version_and_the_token_of_ray():
    cluster = _read("clusters/kuberay.yaml")["spec"]["rayClusterSpec"]
    assert cluster["rayVersion"] == ray.__version__
    assert cluster["authOptions"] == {"mode": "token"}
    assert all(
        group["replicas"] == group["minReplicas"] == 0 < group["maxReplicas"] for group in cluster["workerGroupSpecs"]
    )
