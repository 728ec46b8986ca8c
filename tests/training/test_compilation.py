"""A process compiles a program once for all trials that share it, and keeps only its latest programs."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sweeper.learned_algorithms import evaluation, gradient
from sweeper.packs.packing import lane, stack
from sweeper.training import compilation, identity
from sweeper.training.kind import trainer_of
from sweeper.trial import plugins
from tasks import coloring
from tests.processes import python
from tests.trials import coloring_trial

FIELDS = {
    "task": {"name": "coloring", "vertices": 4},
    "model": {"name": "transformer", "width": 4, "key_size": 4, "blocks": 1},
    "batch_size": 3,
    "steps": 10,
}


def metrics_of(**fields):
    trial = coloring_trial(**FIELDS, **fields)
    trials = stack([trial])
    state, _ = gradient.stride(trials, gradient.start(trials), 10)
    return evaluation.evaluate(trial, lane(state.network, 0))[0]


@pytest.mark.long
def test_baselines_that_differ_in_their_objective_alone_share_programs():
    expected = metrics_of(baseline="Aq_R", objective={"q": 1.0, "m": 2})
    compiled = compilation.seconds()
    assert metrics_of(baseline="AE_R", objective={"q": 7.0, "m": 2}) == expected
    assert compilation.seconds() == compiled


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adam", pytest.param("pgpe", marks=pytest.mark.long)])
def test_a_task_of_short_sums_asks_for_it_in_its_steps_with_one_seed_and_its_digest_says_so(optimizer, monkeypatch):
    """The networks are those of XLA's other way, up to rounding."""
    compile_program, options = compilation.executable, []

    def watched(lowered, asked):
        options.append(asked.get("xla_cpu_experimental_ynn_fusion_type"))
        return compile_program(lowered, asked)

    def trained(short, **fields):
        for cache, module in (("_programs", compilation), ("_trainings", identity)):
            monkeypatch.setattr(module, cache, {})
        monkeypatch.setattr(coloring.Task, "SHORT_SUMS", short)
        trial = coloring_trial(**FIELDS, optimizer={"name": optimizer}, **fields)
        trials = stack([trial])
        trainer, state, evaluated = trainer_of(trials), trainer_of(trials).start(trials), len(options)
        for _ in range(5):
            state, _ = trainer.stride(trials, state, 1)
        network, stepped = lane(state.network, 0), len(options)
        evaluation.evaluate(trial, network)
        ways = options[:evaluated], options[evaluated:stepped], options[stepped:]
        options.clear()
        assert [len(set(of)) for of in ways] == [1, 1, 1]
        return network, identity.identity(trial, "").programs, [of[0] for of in ways]

    monkeypatch.setattr(compilation, "executable", watched)
    one_seed, digest, ways = trained(True, baseline="Aq_r0")
    other, other_digest, no_ways = trained(False, baseline="Aq_r0")
    assert ways == [None, "LIBRARY_FUSION_TYPE_DOT", None]
    assert no_ways == [None, None, None]
    assert digest != other_digest
    for weights, others in zip(jax.tree.leaves(one_seed), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(weights, others, rtol=1e-4, atol=1e-5)
    (_, digest, ways), (_, other_digest, _) = (
        trained(short, baseline="Aq_R", objective={"m": 3}) for short in (True, False)
    )
    assert (ways, digest) == ([None, None, None], other_digest)


CVAR = {"baseline": "Aq_R", "objective": {"name": "cvar", "m": 2}}


@pytest.mark.slow
@pytest.mark.parametrize("fields", [{"baseline": "AE_r0"}, {"baseline": "AE_R", "objective": {"m": 3}}, CVAR])
def test_other_trials_have_programs_of_their_own(fields):
    common = coloring_trial(**FIELDS, baseline="Aq_R", objective={"m": 2})
    other = coloring_trial(**FIELDS, **{"objective": {"m": 2}} | fields)
    assert jax.tree.structure(common.for_programs()) != jax.tree.structure(other.for_programs())


@pytest.mark.slow
def test_the_programs_used_latest_are_kept(monkeypatch):
    monkeypatch.setattr(compilation, "_programs", {})
    monkeypatch.setattr(compilation, "PROGRAMS", 4)
    compile_program, sizes = compilation.compiled, []

    def counted(function, trial, values, **options):
        sizes.append(len(values))
        return compile_program(function, trial, values, **options)

    def doubled(trial, values):
        return 2 * values

    monkeypatch.setattr(compilation, "compiled", counted)
    for size in (1, 2, 3, 4, 1, 5, 1, 5, 2):
        program = compilation.kept(doubled, coloring_trial(), jnp.ones(size))
        assert program(coloring_trial(), jnp.ones(size)).tolist() == [2.0] * size
    assert sizes == [1, 2, 3, 4, 5, 2]


AT_ONCE = f"""
import sys, time, jax
from pathlib import Path
from sweeper.learned_algorithms import gradient
from sweeper.packs.packing import stack
from sweeper.training import compilation
from tests.trials import coloring_trial
compilation.keep_on_this_machine()
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
trials = stack([coloring_trial(**{FIELDS})])
state = jax.eval_shape(gradient.init, trials)
mine, other = map(Path, sys.argv[1:])
mine.touch()
while not other.exists():
    time.sleep(0.01)
compilation.kept(gradient.advance, trials, state, static=(10,))
print(events.count("/jax/compilation_cache/cache_hits"))
"""


@pytest.mark.long
def test_of_two_processes_that_need_a_program_at_once_one_compiles_it(tmp_path):
    def found(*numbers: int) -> str:
        files = [tmp_path / str(number) for number in numbers]
        return python("-c", AT_ONCE, *files, TMPDIR=str(tmp_path), JAX_COMPILATION_CACHE_DIR="", check=True).stdout

    with ThreadPoolExecutor() as pool:
        assert sorted(pool.map(found, (1, 2), (2, 1))) == ["0\n", "1\n"]


TASK = """
import numpy as np, jax, jax.numpy as jnp
values = np.random.default_rng(0).normal(size=(2000, 300)).astype(np.float32)
x = jnp.asarray(values)
constants = [x.sum(0), (x * x).sum(), x.T @ x, jnp.linalg.cholesky(x.T @ x)]
from typing import Literal
from tasks import coloring
class Task(coloring.Task):
    name: Literal["computing"] = "computing"
    def sample_seeds(self, key, count):
        return super().sample_seeds(key, count) * np.mod(np.float64(constants[0]) * 2**12, 1).mean()
"""

SUMS = """
import hashlib, jax, numpy as np
jax.numpy.ones(3) + 1  # starts jax's own CPU device
from sweeper.training import compilation
from sweeper.trial import plugins
from tests.trials import coloring_trial
plugins.load("task", "computing")
from tasks import computing
def sums(trial, x):
    return x.sum(0), (x * x).sum(), x.T @ x, jax.numpy.linalg.cholesky(x.T @ x), jax.nn.softmax(x)
results = compilation.compiled(sums, coloring_trial(), computing.values)(coloring_trial(), computing.values)
print(*[hashlib.sha256(np.asarray(result).tobytes()).hexdigest() for result in [*results, *computing.constants]])
jax.numpy.ones(300) + computing.constants[0]  # on jax's own device they may be used, too
"""


def _printed(project: Path, script: str, *arguments: str, **variables: str) -> str:
    (project / "tasks").mkdir(exist_ok=True)
    (project / "tasks" / "computing.py").write_text(TASK)
    return python("-c", script, *arguments, check=True, **variables | {plugins.PROJECT_VARIABLE: str(project)}).stdout


@pytest.mark.long
def test_sums_do_not_depend_on_the_threads_of_the_process(tmp_path):
    """Those of XLA's kernels, and of what a plug-in computes with JAX while it is imported."""
    one, several = (
        _printed(tmp_path, SUMS, PJRT_NPROC=threads, XLA_FLAGS=flags)
        for threads, flags in (("1", ""), ("4", "--xla_force_host_platform_device_count=2"))
    )
    assert one.split() == several.split()
