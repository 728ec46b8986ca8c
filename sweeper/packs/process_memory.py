"""The most memory that a pack had in use: of the accelerator, or of this process."""

import contextlib
import re
import resource
import sys
from pathlib import Path

import jax


def forget_peak() -> None:
    """Reset the measured peak, where the system can: Linux does when a 5 is written to this file."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """Most memory in use: of the accelerator so far, or of this process since `forget_peak`."""
    statistics = jax.devices()[0].memory_stats()
    if statistics is not None:
        return statistics["peak_bytes_in_use"]
    with contextlib.suppress(OSError):
        if peak := re.search(r"^VmHWM:\s*(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE):
            return int(peak[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
