"""What a fresh machine meets: the lock files, and the Python that `make` picks."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement

from sweeper.trial import plugins

PROJECT = tomllib.loads((plugins.ROOT / "pyproject.toml").read_text())["project"]
LOCKS = sorted({*(plugins.ROOT / "locks").glob("*.lock")} - {plugins.ROOT / "locks" / "uv.lock"})
"""The locks of environments; that of uv has uv alone."""
PYTHONS = ("3.11", "3.12", "3.13")


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_a_lock_holds_one_hashed_version_of_each_package_and_no_address(path):
    text = path.read_text()
    entries = re.findall(r"^([\w.-]+==\S+)(?: ; (.+))? \\\n    --hash=sha256:", text, re.MULTILINE)
    assert len(entries) == len(re.findall(r"^\S", text, re.MULTILINE)) > 50
    assert "://" not in text
    for python in PYTHONS:
        environment = {"python_version": python, "python_full_version": f"{python}.9"}
        pinned = [Requirement(entry) for entry, marker in entries if not marker or Marker(marker).evaluate(environment)]
        assert len(pinned) == len({requirement.name for requirement in pinned})
        versions = {requirement.name: str(requirement.specifier) for requirement in pinned}
        newest = python != PYTHONS[0]
        assert versions["jax"] == versions["jaxlib"] == ("==0.12.0.1" if newest else "==0.10.2")
        for requirement in map(Requirement, PROJECT["dependencies"]):
            version = versions[requirement.name.lower()].removeprefix("==")
            assert requirement.specifier.contains(version), f"{requirement} leaves out {version}"


def _made(folder: Path, *pythons: tuple[str, str]) -> subprocess.CompletedProcess[str]:
    """`make .venv/bin/pip` where the named Pythons are installed, each a script."""
    shutil.copy(plugins.ROOT / "Makefile", folder)
    programs = folder / "programs"
    programs.mkdir()
    for name, script in pythons:
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    make = shutil.which("make")
    assert make is not None
    return subprocess.run(
        [make, ".venv/bin/pip"], cwd=folder, env={"PATH": str(programs)}, capture_output=True, text=True, check=False
    )


def test_make_takes_the_newest_python_that_works(tmp_path):
    # A shim of a version manager is there, and fails, for every version that it knows but has not switched on.
    shim = "echo not switched on >&2; exit 127"
    works = 'test "$1" = -c || echo "$0 $*" > made'
    made = _made(tmp_path, ("python3.13", shim), ("python3.12", works), ("python3.11", works))
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "made").read_text().split()[0].endswith("python3.12")
    assert (tmp_path / "made").read_text().split()[1:] == ["-m", "venv", ".venv"]
