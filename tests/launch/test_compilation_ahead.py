"""Programs that are compiled ahead are those that a pack runs, and are compiled by one process at a time."""

import json

import pytest

from sweeper.launch import compiling
from sweeper.launch.environment import worker_environment
from sweeper.packs import compilation_ahead
from sweeper.packs.pack_run import Destination, run_pack
from sweeper.packs.packing import Pack
from sweeper.space.resources import Resources
from sweeper.store.store import Store
from sweeper.training import compilation
from sweeper.trial import fingerprint, plugins, provenance
from sweeper.trial.trial_spec import canonical
from tests.processes import python
from tests.trials import coloring_trial

pytestmark = pytest.mark.slow

FIELDS = {"task": {"name": "coloring", "vertices": 4}, "batch_size": 2, "evaluation": {"seeds": 4, "votes": [3]}}
WALK = {"name": "gridworld", "height": 2, "width": 2, "horizon": 4, "noise": 3}


@pytest.mark.parametrize(
    "fields",
    [
        {"steps": 100}, {"steps": 7},
        {"task": WALK, "optimizer": {"name": "open_es", "population": 4}, "steps": 2,
         "evaluation": {"seeds": 2, "votes": []}},
    ],
    ids=["gradient", "gradient, fewer steps than a stride", "evolution"],
)  # fmt: skip
def test_a_pack_whose_programs_are_prepared_compiles_nothing(fields, tmp_path):
    trials = tuple(coloring_trial(**FIELDS | fields, seed=seed) for seed in range(2))
    compilation_ahead.compile_programs(trials[0], len(trials))
    compiled = compilation.seconds()
    run_pack(Pack(trials), Destination(Store.open(tmp_path), provenance.capture("test")))
    assert compilation.seconds() == compiled


@pytest.mark.long
def test_a_worker_reads_the_programs_that_were_compiled_ahead(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(compiling, "LEAST_SECONDS", 0.0)
    resources = Resources()
    environment = worker_environment(resources) | {"PYTHONPATH": str(plugins.ROOT)}
    pack = Pack((coloring_trial(**FIELDS, steps=3), coloring_trial(**FIELDS, steps=3, seed=1)))
    folder = compiling.kept_programs()
    assert folder is not None
    first = compiling.FirstPacks([pack], fingerprint.captured())
    with compiling.compiled_ahead(first, resources, environment) as (process,):
        process.wait()

    def programs() -> set[str]:
        return {path.name for path in folder.glob("*-cache")}

    ahead = programs()
    assert len(ahead) >= 3
    with compiling.compiled_ahead(first, resources, environment) as processes:
        assert not processes, "the programs are there"
    for other in (
        first._replace(packs=[Pack(pack.trials[:1])]),
        first._replace(packs=[Pack((coloring_trial(**FIELDS, steps=4),) * 2)]),
        first._replace(code=first.code.model_copy(update={"numerics": "other"})),
    ):
        with compiling.compiled_ahead(other, resources, environment) as processes:
            assert len(processes) == 1
    worker = (
        "import sys, json, tempfile; from sweeper.launch import compiling; compiling.LEAST_SECONDS = 0.0\n"
        "tempfile.tempdir = sys.argv[2]; compiling.keep_programs()\n"
        "from sweeper.packs.pack_run import Destination, run_pack; from sweeper.packs.packing import Pack\n"
        "from sweeper.store.store import Store; from sweeper.trial.provenance import capture\n"
        "from sweeper.trial.trial_spec import TrialSpec\n"
        "pack = Pack(tuple(map(TrialSpec.model_validate, json.loads(sys.argv[1]))))\n"
        "run_pack(pack, Destination(Store.open(sys.argv[2] + '/store'), capture('run')))\n"
    )
    arguments = [json.dumps([canonical(trial) for trial in pack.trials]), str(tmp_path)]
    python("-c", worker, *arguments, env=environment, check=True)
    large = {name for name in programs() - ahead if any(part in name for part in ("init", "advance", "_measured"))}
    assert not large
