"""Settings of JAX that decide numbers have one value for all trials, and flags of XLA enter the fingerprint."""

import functools
import os

import jax
import pytest

from sweeper.training import compilation
from sweeper.trial import fingerprint, jax_settings, plugins
from sweeper.trial.jax_settings import SettingsError
from sweeper.trial.plugins import PluginError
from tests.processes import python
from tests.tiny_sweeps import start, with_seeds
from tests.trials import coloring_trial

NO_NUMBERS = """
check_vma jax2tf_associative_scan_reductions jax2tf_default_native_serialization jax_array_garbage_collection_guard
jax_auto_pcast jax_backend_target jax_captured_constants_report_frames jax_captured_constants_warn_bytes
jax_check_proxy_envs jax_check_static_indices jax_check_tracer_leaks jax_compilation_cache_check_contents
jax_compilation_cache_dir jax_compilation_cache_expect_pgle jax_compilation_cache_include_metadata_in_key
jax_compilation_cache_max_size jax_compiler_detailed_logging_min_ops jax_cpu_collectives_implementation
jax_cpu_enable_async_dispatch jax_cpu_get_global_topology_timeout_minutes jax_cpu_get_local_topology_timeout_minutes
jax_cross_host_transfer_socket_address jax_cross_host_transfer_timeout_seconds jax_cross_host_transfer_transfer_size
jax_cross_host_transport_addresses jax_cuda_visible_devices jax_debug_key_reuse
jax_debug_leaked_clients_on_clear_backends jax_debug_log_modules jax_default_device jax_disable_bwd_checks
jax_disable_vmap_shmap_error jax_disallow_mesh_context_manager jax_distributed_debug
jax_distributed_verify_secure_credentials jax_dump_ir_modes jax_dump_ir_to jax_enable_checks
jax_enable_compilation_cache jax_enable_preemption_service jax_enable_recoverability
jax_experimental_unsafe_xla_runtime_errors jax_explain_cache_misses jax_export_calling_convention_version
jax_export_deserialize_expired_versions jax_export_ignore_forward_compatibility jax_force_dcn_cross_host_transfers
jax_hlo_source_file_canonicalization_regex jax_include_debug_info_in_dumps jax_include_full_tracebacks_in_locations
jax_legacy_prng_key jax_log_checkpoint_residuals jax_log_compiles jax_logging_level jax_mock_gpu_topology
jax_mosaic_allow_hlo jax_mosaic_unzip_debug_locations jax_mtls_ca_file jax_mtls_cert_file jax_mtls_key_file
jax_mtls_peer_uri_prefix jax_mutable_array_checks jax_no_execution jax_no_tracing jax_num_cpu_devices
jax_oneapi_visible_devices jax_pallas_auto_assign_collective_ids jax_pallas_auto_assign_collective_ids_limit
jax_pallas_enable_debug_checks jax_pallas_poison_buffers jax_pallas_use_mosaic_gpu jax_pallas_verbose_errors
jax_persistent_cache_enable_xla_caches jax_persistent_cache_min_compile_time_secs
jax_persistent_cache_min_entry_size_bytes jax_pgle_aggregation_percentile jax_pgle_profiling_runs
jax_pjrt_client_create_options jax_platform_name jax_platforms jax_pprint_use_color jax_raise_on_ppermute_sort_diff
jax_raise_persistent_cache_errors jax_refs_to_pins jax_remove_custom_partitioning_ptr_from_cache_key
jax_remove_size_one_mesh_axis_from_type jax_rocm_visible_devices jax_send_traceback_to_runtime jax_serialization_version
jax_share_binary_between_hosts jax_share_binary_between_hosts_timeout_ms jax_sort_devices_by_process_index
jax_source_url_schema jax_thread_guard jax_traceback_filtering jax_traceback_in_locations_limit
jax_tracer_error_num_traceback_frames jax_transfer_guard jax_transfer_guard_device_to_device
jax_transfer_guard_device_to_host jax_transfer_guard_host_to_device jax_use_cpp_shard_args
jax_use_emit_pipeline_primitive jax_xla_backend jax_xla_profile_version mock_num_gpu_processes
"""
"""Where programs run, how they are kept, moved and shown; and checks that raise or change nothing."""


@pytest.fixture(autouse=True)
def restored():
    yield
    jax_settings.put_back()


@pytest.fixture
def setter(coloring_like):
    """Writes the task `setter` into a project."""
    return functools.partial(coloring_like, "setter")


def test_every_setting_of_this_jax_is_sorted():
    unsorted = set(jax.config.values) - set(jax_settings.PINNED) - set(NO_NUMBERS.split())
    assert not unsorted, "does it decide numbers? then into jax_settings.PINNED, with its default"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jax_enable_x64", True),
        ("jax_threefry_partitionable", False),
        ("jax_default_matmul_precision", "bfloat16"),
        ("jax_default_prng_impl", "rbg"),
        ("jax_random_seed_offset", 1),
        ("jax_numpy_dtype_promotion", "strict"),
        ("jax_debug_nans", True),
    ],
)
def test_a_start_with_another_setting_is_refused_by_name(name, value, tmp_path, capsys):
    (tmp_path / "space.yaml").write_text(with_seeds(1))
    jax.config.update(name, value)
    assert start(tmp_path / "space.yaml", dry_run=True) == 2
    assert f"{name} is {str(value)!r} " in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("name", ["ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "OPENBLAS_CORETYPE", "MKL_CBWR"])
def test_a_start_with_other_kernels_is_refused_by_name(name, tmp_path, monkeypatch, capsys):
    (tmp_path / "space.yaml").write_text(with_seeds(1))
    monkeypatch.setenv(name, "SSE41")
    assert start(tmp_path / "space.yaml", dry_run=True) == 2
    assert f"{name} is 'SSE41' " in " ".join(capsys.readouterr().err.split())
    monkeypatch.setenv(name, "")
    assert not jax_settings.changed(), "as for a worker"


@pytest.mark.slow  # processes
def test_variables_of_other_kernels_are_ignored_unless_a_library_has_read_them(tmp_path):
    """An administrator sets them for all programs of a machine, and a sweep is to start there."""
    (tmp_path / "space.yaml").write_text(with_seeds(1))
    told = "ignored, as all trials have the kernels of their CPU: OPENBLAS_CORETYPE=Prescott"
    variables = {"OPENBLAS_CORETYPE": "Prescott", "PYTHONPATH": str(plugins.ROOT)}
    done = python("-m", "sweeper.run", "space.yaml", "--dry-run", cwd=tmp_path, **variables)
    assert done.returncode == 0, done.stderr
    assert told in " ".join(done.stdout.split())
    late = "import numpy, sweeper; sweeper.plan('space.yaml')"
    assert "SettingsError: what decides numbers differs" in python("-c", late, cwd=tmp_path, **variables).stderr


@pytest.mark.slow  # a process
def test_a_setting_of_the_environment_is_refused_by_name(tmp_path):
    (tmp_path / "results" / "trials").mkdir(parents=True)
    variables = {"JAX_ENABLE_X64": "1", "PYTHONPATH": str(plugins.ROOT)}
    done = python("-m", "sweeper", "evaluate", "--where", "true", cwd=tmp_path, **variables)
    assert done.returncode == 2, done.stderr
    assert "jax_enable_x64 is 'True' " in " ".join(done.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("jax.config.update('jax_enable_x64', True)", "jax_enable_x64 to 'True'"),
        ("import os; os.environ['ONEDNN_MAX_CPU_ISA'] = 'AVX2'", "ONEDNN_MAX_CPU_ISA to 'AVX2'"),
        ("import os; os.environ['XLA_FLAGS'] = '--a=true'", "XLA_FLAGS to '--a=true'"),
        ("jax.config.update('jax_default_prng_impl', 'rbg'); 1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_plug_in_that_changes_a_setting_when_imported_is_refused_and_undone(setter, code, told):
    setter(at_import=code)
    for _ in range(2):  # Python has the module the second time
        with pytest.raises(PluginError, match=told):
            plugins.load("task", "setter")
        assert not jax_settings.changed()


@pytest.mark.slow
def test_a_start_with_such_a_plug_in_says_where_it_is(setter, tmp_path, capsys):
    setter(at_import="jax.config.update('jax_enable_x64', True)")
    (tmp_path / "space.yaml").write_text(with_seeds(1).replace("name: coloring", "name: setter"))
    assert start(tmp_path / "space.yaml", dry_run=True) == 2
    told = "".join(capsys.readouterr().err.split())
    assert "tasks/setter.py:theimportofthetask'setter'setsjax_enable_x64to'True'" in told


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
    assert (plain.settings, here.settings) == ({}, counted)
    assert (here.fingerprint(coloring_trial()) == plain.fingerprint(coloring_trial())) == (not counted)
    if counted:
        with pytest.raises(fingerprint.OtherCodeError, match=r"XLA_FLAGS \('--a.*' instead of ''\)"):
            here.require(plain, coloring_trial())


def test_flags_in_a_file_are_read(tmp_path, monkeypatch):
    (tmp_path / "flags").write_text("--b=1\n--a=2\n")
    monkeypatch.setenv("XLA_FLAGS", str(tmp_path / "flags"))
    assert jax_settings._of_environment()["XLA_FLAGS"] == "--b=1 --a=2"


LATE = """
import os
import jax
jax.numpy.ones(3) + 1  # XLA reads its flags now
os.environ["XLA_FLAGS"] = "--xla_cpu_enable_fast_math=true"
from sweeper.trial import jax_settings

def told():
    try:
        jax_settings.require()
    except jax_settings.SettingsError as error:
        return str(error)

assert "XLA_FLAGS" in told()
del os.environ["XLA_FLAGS"]
assert "XLA_FLAGS" in told()
os.environ["XLA_FLAGS"] = "--xla_cpu_enable_fast_math=false"
assert told() is None
"""


@pytest.mark.slow  # a process
@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="nobody knows how a process began here")
def test_flags_that_xla_has_not_read_are_no_fingerprint():
    done = python("-c", LATE, XLA_FLAGS="--xla_cpu_enable_fast_math=false")
    assert done.returncode == 0, done.stderr
