"""The compiled programs of this machine: the folder that keeps them, and processes that fill it while Ray starts.

Ray and a worker take seconds to start, in which cores are idle. Meanwhile processes without Ray compile the programs
of the first packs in the environment of a worker, so that workers read these programs from the folder. Whether the
folder has a program is known only after the program was traced, which takes seconds too. So an empty file says that the
programs of a pack were compiled.
"""

import contextlib
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jax

from sweeper.launch.ray_internals import machine_resources
from sweeper.packs import compilation_ahead
from sweeper.packs.packing import Pack, structure
from sweeper.space.resources import Resources
from sweeper.trial.fingerprint import Code
from sweeper.trial.private_folder import private_folder
from sweeper.trial.trial_spec import TrialSpec

LEAST_SECONDS = 0.1  # programs that compile faster are not kept
MOST_PROCESSES = 8  # processes that compile at once; each takes some hundred megabytes


class FirstPacks(NamedTuple):
    """The packs that a start trains first, the code that trains them, and trials with all plug-ins of the start."""

    packs: Sequence[Pack]
    code: Code
    trials: Sequence[TrialSpec] = ()


def kept_programs() -> Path | None:
    """The folder for programs; None if there is no safe folder.

    The folder holds machine code: a folder that other users may write to, or have made, is not used.
    """
    return private_folder("jax-cache")


def keep_programs() -> None:
    """Have jax keep the programs of this process in the folder."""
    if (folder := kept_programs()) is not None:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)


@contextlib.contextmanager
def compiled_ahead(
    first: FirstPacks, resources: Resources, environment: Mapping[str, str], folder_of_workers: Path | None = None
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Compile programs of packs in the background, except those that an earlier start compiled.

    Programs for a GPU, or for a population of workers, are not compiled. The environment and the folder are those of a
    worker. At the end of the context the processes that compile, which it yields, end, even if programs are missing.
    """
    folder = kept_programs()
    if folder is None or resources.gpus or resources.population_workers:
        yield []
        return
    keep = {"JAX_COMPILATION_CACHE_DIR": str(folder), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": str(LEAST_SECONDS)}
    packs: dict[Path, Pack] = {}
    for pack in first.packs:
        programs = f"{first.code.fingerprint(pack.trials[0])} {len(pack.trials)} {structure(pack.trials[0])}"
        packs[folder / f"{hashlib.sha256(programs.encode()).hexdigest()[:20]}-compiled"] = pack
    missing = [(file, pack) for file, pack in packs.items() if not file.exists()]
    processes = min(len(missing), MOST_PROCESSES, int(machine_resources()["CPU"] // resources.cpus))
    started: list[subprocess.Popen[bytes]] = []
    try:
        for number in range(processes):
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "sweeper.packs.compilation_ahead"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder_of_workers,
                env={**os.environ, **environment, **keep},
            )
            started.append(process)
            assert process.stdin is not None
            with contextlib.suppress(OSError):  # it has ended, and workers compile for themselves
                process.stdin.write(compilation_ahead.encoded(dict(missing[number::processes])))
                process.stdin.flush()
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()
