"""Environment variables that Ray reads at its import; `sweeper.launch` imports this module before Ray."""

import os
import sys
from pathlib import Path

# Ray's paragraph about every dead worker would hide our line about it.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "^")

_TOKENS = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")

# A driver that connects to a cluster shows a token only in this mode, and is refused again and again without it. Ray
# reads the variable when it is imported. If Ray is imported already, the processes that this driver starts would
# have the mode and the driver would not, so that the processes would refuse the driver.
if "ray" not in sys.modules and (
    any(name in os.environ for name in _TOKENS) or (Path.home() / ".ray" / "auth_token").is_file()
):
    os.environ.setdefault("RAY_AUTH_MODE", "token")
