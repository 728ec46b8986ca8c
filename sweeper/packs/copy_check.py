"""Checks the copy of a project: loads and traces the plug-ins of a plan in a process that has the code of workers.

It runs before there are workers: what the copy lacks, a file of data too, would fail in every one of them.

    python -m sweeper.packs.copy_check < PLAN

The input is JSON: the names of plug-ins by kind, trials, and the code of the start. The last line of the output is
JSON: why workers could not run these trials, or null.
"""

import json
import sys
from typing import Any

from pydantic import ValidationError

from sweeper.packs.conformance import check_shapes
from sweeper.trial import fingerprint, plugins
from sweeper.trial.contract_checks import ContractError
from sweeper.trial.fingerprint import Code, OtherCodeError
from sweeper.trial.plugins import PluginError
from sweeper.trial.trial import trial_of


def complaint(names: dict[plugins.Kind, list[str]], trials: list[Any], code: Code) -> str | None:
    """Why workers could not run these trials."""
    try:
        for kind, of_kind in names.items():
            for name in of_kind:
                plugins.load(kind, name)
        specs = list(map(trial_of, trials))
        own = fingerprint.captured()
        for spec in specs:
            own.require(code, spec)
        check_shapes(specs)
    except (PluginError, ValidationError, ContractError) as error:
        message = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        return (
            f"{message} (they get the project without what git ignores, hidden files and results: let git know the "
            "files that they need, or let plug-ins read them outside of the project, by their full paths)"
        )
    except OtherCodeError:
        return "the project was edited while this start planned it; start again"
    return None


if __name__ == "__main__":
    names, trials, code = json.load(sys.stdin)
    print("\n" + json.dumps({"complaint": complaint(names, trials, Code.model_validate(code))}))
