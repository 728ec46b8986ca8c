"""The environment of processes: what Ray reads at its import, and what workers have before they import JAX.

`sweeper.launch` imports this module before all others, since the first lines are about imports.
"""
# ruff: noqa: E402

import gc
import os
import sys

WORKER_VARIABLE = "SWEEPER_WORKER"  # the environment variable by which a worker process is known

if os.environ.get(WORKER_VARIABLE):
    # As in commands (`sweeper.command_line`): Python would look through all that imports and traces make again and
    # again, a fifth of the time of the imports.
    gc.set_threshold(100_000)
    # What the user of a node has set for JAX is not for trials; where programs are kept, decides no number.
    for name in [name for name in os.environ if name.startswith("JAX_") and "CACHE" not in name]:
        if name != "JAX_PLATFORMS":
            del os.environ[name]

# Ray's paragraph about every dead worker would hide our line about it.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "^")

# A driver that connects to a cluster shows a token only in this mode, and is refused again and again without it. Ray
# reads the variable when it is imported. If Ray is imported already, the processes that this driver starts would
# have the mode and the driver would not, so that the processes would refuse the driver.
if "ray" not in sys.modules and (
    {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys()
    or os.path.isfile(os.path.expanduser("~/.ray/auth_token"))  # there may be no home, or none that can be entered
):
    os.environ.setdefault("RAY_AUTH_MODE", "token")

from sweeper.packs.device_memory import memory_share
from sweeper.space.resources import Resources
from sweeper.trial import jax_settings


def worker_environment(resources: Resources) -> dict[str, str]:
    """Environment of the worker processes.

    One thread for any number of cores, as more threads are other numbers (`jax_settings.one_thread`); one order of
    sets; and XLA's settings are those of this process. Preallocation lets the first pack take most of a GPU that
    several packs share.
    """
    environment = {
        **{name: value for name, value in jax_settings.environment.items() if value or name == "XLA_FLAGS"},
        **jax_settings.ONE_THREAD,
        "PYTHONHASHSEED": jax_settings.HASH_SEED,
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "RAY_CHDIR_TO_TRIAL_DIR": "0",
        WORKER_VARIABLE: "1",
    }
    if resources.gpus == 0:
        # Workers without a GPU of their own still see the GPUs of the node.
        return environment | {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    return environment | memory_share()
