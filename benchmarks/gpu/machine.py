"""Packages, driver, commit and settings, so that a report says by itself what it was measured with."""

import importlib.metadata
import os
import platform
import re
import subprocess
from pathlib import Path

PACKAGES = r"flax|jax|jaxlib|jax-cuda[\w-]+"
DRIVER = Path("/proc/driver/nvidia/version")

SETTINGS = ("CUDA_", "JAX_", "LD_LIBRARY_PATH", "NVIDIA_TF32_OVERRIDE", "PJRT_", "TF_GPU_", "XLA_")
"""How the environment variables begin that may change what JAX finds on a GPU, or makes of it."""


def described() -> str:
    """The packages and the driver, the commit, and settings. Opens no device."""
    # All plugins of JAX for CUDA, also those that are not needed and may be in the way.
    there = {package.name.lower().replace("_", "-"): package.version for package in importlib.metadata.distributions()}
    found = [f"{name} {version}" for name, version in sorted(there.items()) if re.fullmatch(PACKAGES, name)]
    settings = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(SETTINGS)]
    return (
        f"Here: {', '.join(found)}; driver {_driver()}; Python {platform.python_version()}; "
        f"commit {commit_of(Path.cwd())}; {' '.join(settings) or 'no settings of JAX or CUDA'}.\n"
    )


def _driver() -> str:
    # Not nvidia-smi, which waits for ever where the driver does.
    try:
        version = re.search(r"Kernel Module.*?\s(\d+[.\d]+)", DRIVER.read_text())
    except OSError:
        return "unknown"
    return version[1] if version else "unknown"


def commit_of(checkout: Path) -> str:
    """The commit of a checkout, marked if files of it were changed."""
    command = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    try:
        return subprocess.run(command, cwd=checkout, capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
