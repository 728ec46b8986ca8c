"""Settings of JAX that people set have one value for all trials, and flags of XLA enter the fingerprint."""

import functools

import jax
import pytest

from sweeper.training import compilation
from sweeper.trial import fingerprint, jax_settings, plugins
from sweeper.trial.jax_settings import SettingsError
from sweeper.trial.plugins import PluginError
from tests.processes import python
from tests.tiny_sweeps import with_seeds
from tests.trials import coloring_trial


@pytest.fixture(autouse=True)
def restored():
    yield
    jax_settings.put_back()


@pytest.fixture
def setter(coloring_like):
    """Writes the task `setter` into a project."""
    return functools.partial(coloring_like, "setter")


OTHER = {
    "jax_debug_infs": True,
    "jax_debug_nans": True,
    "jax_default_matmul_precision": "bfloat16",
    "jax_default_prng_impl": "rbg",
    "jax_disable_jit": True,
    "jax_enable_x64": True,
    "jax_numpy_dtype_promotion": "strict",
    "jax_threefry_partitionable": False,
}


def test_a_start_with_another_setting_is_refused_by_name_and_can_be_put_back():
    assert OTHER.keys() == jax_settings.PINNED.keys()
    for name, value in OTHER.items():
        jax.config.update(name, value)
        with pytest.raises(SettingsError, match=rf"{name} is '{value}' .* unset {name.upper()}"):
            jax_settings.require()
        jax_settings.put_back()
        jax_settings.require()


@pytest.mark.slow  # a process
def test_a_setting_of_the_environment_is_refused_by_name(tmp_path):
    (tmp_path / "space.yaml").write_text(with_seeds(1))
    variables = {"JAX_ENABLE_X64": "1", "PYTHONPATH": str(plugins.ROOT)}
    done = python("-m", "sweeper", "run", "space.yaml", "--dry-run", cwd=tmp_path, **variables)
    assert done.returncode == 2, done.stderr
    assert "jax_enable_x64 is 'True' " in " ".join(done.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("jax.config.update('jax_enable_x64', True)", "jax_enable_x64 to 'True'"),
        ("import os; os.environ['XLA_FLAGS'] = '--a=true'", "XLA_FLAGS to '--a=true'"),
    ],
)
def test_a_plug_in_that_changes_a_setting_when_imported_is_refused_and_undone(setter, project, code, told):
    setter(at_import=code)
    file = project / "tasks" / "setter.py"
    for _ in range(2):  # Python has the module the second time
        with pytest.raises(PluginError, match=f"^{file}: the import of the task 'setter' sets {told}"):
            plugins.load("task", "setter")
        assert not jax_settings.changed()


@pytest.mark.slow
def test_a_plug_in_that_changes_a_setting_and_fails_is_told_by_its_failure_and_undone(setter):
    setter(at_import="jax.config.update('jax_default_prng_impl', 'rbg'); 1 / 0")
    with pytest.raises(PluginError, match="ZeroDivisionError"):
        plugins.load("task", "setter")
    assert not jax_settings.changed()


@pytest.mark.slow
def test_a_plug_in_that_changes_a_setting_when_traced_is_refused_and_undone(setter):
    setter(in_trace="jax.config.update('jax_threefry_partitionable', False)")
    trial = coloring_trial(task={"name": "setter", "vertices": 4})
    with pytest.raises(SettingsError, match=r"task 'setter'.* jax_threefry_partitionable to 'False'"):
        compilation.kept(lambda trial: trial.task.sample_inputs(trial.keys().training, 3), trial)
    assert not jax_settings.changed()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "counted"),
    [
        ({"XLA_FLAGS": ""}, {}),
        ({"XLA_FLAGS": "--xla_dump_to=/x --xla_force_host_platform_device_count=2"}, {}),
        ({"XLA_FLAGS": "--b=1 --a=2  --b=3"}, {"XLA_FLAGS": "--a=2 --b=3"}),
        ({"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=true --a", "NVIDIA_TF32_OVERRIDE": "1"},
         {"XLA_FLAGS": "--a", "NVIDIA_TF32_OVERRIDE": "1"}),
    ],
)  # fmt: skip
def test_flags_that_decide_numbers_enter_the_fingerprint(variables, counted, monkeypatch):
    monkeypatch.setattr(jax_settings, "environment", dict.fromkeys(jax_settings.VARIABLES, ""))
    plain = fingerprint.captured()
    monkeypatch.setattr(jax_settings, "environment", dict.fromkeys(jax_settings.VARIABLES, "") | variables)
    here = fingerprint.captured()
    assert dict(here.always.items() - plain.always.items()) == counted
    assert (here.fingerprint(coloring_trial()) == plain.fingerprint(coloring_trial())) == (not counted)
    if counted:
        with pytest.raises(fingerprint.OtherCodeError, match=r"XLA_FLAGS \(--a.* instead of none\)"):
            here.require(plain, coloring_trial())
