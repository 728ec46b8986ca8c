"""What a process has imported after each of several steps, and JAX's settings as it finds them."""

import json
import os
import sys

import pytest

from tests.processes import python

PROGRAM = """
import json, sys
modules = [sorted(sys.modules)]
import sweeper
modules.append(sorted(sys.modules))
sys.modules["ray"] = None
import sweeper.packs.pack_run, tasks.coloring, models.transformer
from sweeper.trial import jax_settings
modules.append(sorted(sys.modules))
print(json.dumps([modules, jax_settings.changed()]))
"""


@pytest.mark.slow  # imports JAX
def test_what_waits_for_no_library_and_what_for_jax_alone():
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    steps, changed = json.loads(python("-c", PROGRAM, env=clean, check=True).stdout)
    bare, sweeper, numerics = ({name.partition(".")[0] for name in names} for names in steps)
    assert sweeper - bare - sys.stdlib_module_names == {"sweeper"}
    assert "jax" in numerics
    assert not [name for name in steps[2] if name.startswith("ray.")], "a pack runs where Ray is not installed"
    assert changed == {}, "what is pinned is the default of this JAX"
