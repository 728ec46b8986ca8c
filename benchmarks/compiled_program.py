"""What XLA compiles for a GPU that need not be here: kernels and memory of the programs of a trial.

    make .venv/cuda-compiler      # XLA's CUDA compiler, beside the environment: no driver, 715 MB
    python -m benchmarks.compiled_program [--device a100] [--lanes 8] [coloring recall classification …]

compiles every program of a space's last trial (of learned algorithms the last with new seeds r). The evaluation is that
of a single network. XLA runs all its passes and assembles the kernels. What it would measure on the device it does not
know: tiles of matrix products are its default ones, and cuBLAS's algorithms are not chosen.

Kernels are counted in the compiled text. Every fusion, product, sort, copy or custom call is one, and the body of a
loop counts as often as it runs. A loop that ends by what it computes counts as one turn, with its condition.
"""

import argparse
import functools
import multiprocessing
import os
import re
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from sweeper.learned_algorithms import evaluation, evolution, gradient
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.packs.packing import stack
from sweeper.space import search_space
from sweeper.training import compilation, experiments
from sweeper.training.kind import trainer_of
from sweeper.trial import vectorisation
from sweeper.trial.experiment_trial import ExperimentTrial
from sweeper.trial.record import canonical
from sweeper.trial.trial import Trial, trial_of

COMPILER = Path(sys.prefix) / "cuda-compiler"
"""Where `make .venv/cuda-compiler` puts the compiler."""

_COMMON = {
    "threads_per_block_limit": 1024, "threads_per_warp": 32, "shared_memory_per_block": 49_152,
    "block_dim_limit_x": 2**31 - 1, "block_dim_limit_y": 65_535, "block_dim_limit_z": 65_535,
    "registers_per_core_limit": 65_536, "registers_per_block_limit": 65_536,
}  # fmt: skip
_OWN = (
    "core_count", "fpus_per_core", "clock_rate_ghz", "memory_bandwidth", "l2_cache_size", "device_memory_size",
    "threads_per_core_limit", "shared_memory_per_core", "shared_memory_per_block_optin",
)  # fmt: skip
DEVICES: dict[str, tuple[str, tuple[int, int], dict[str, float]]] = {
    name: (title, capability, _COMMON | dict(zip(_OWN, values, strict=True)))
    for name, title, capability, values in (
        ("h100", "NVIDIA H100 80GB HBM3", (9, 0),
         (132, 128, 1.98, 3_352_320_000_000, 52_428_800, 84_942_979_072, 2048, 233_472, 232_448)),
        ("a100", "NVIDIA A100-SXM4-80GB", (8, 0),
         (108, 64, 1.41, 2_039_000_000_000, 41_943_040, 84_987_740_160, 2048, 167_936, 166_912)),
        ("l4", "NVIDIA L4", (8, 9),
         (58, 128, 2.04, 300_000_000_000, 50_331_648, 23_609_475_072, 1536, 102_400, 101_376)),
    )
}  # fmt: skip
"""Title, compute capability and properties of the GPUs that cluster.yaml and the documents name, from their data
sheets."""


class Request(NamedTuple):
    """A program to compile."""

    trial: dict[str, Any]  # the trial, as plain data
    program: str  # a name of `programs`
    device: str = "h100"  # a name of `DEVICES`
    lanes: int = 8  # lanes of the programs that train


class Counts(NamedTuple):
    """What one run of a compiled program does."""

    kernels: int
    outside: int  # those of them that are in no loop


class Compiled(NamedTuple):
    """What was compiled."""

    run: Counts  # what one run does
    memory: int  # bytes of the device, arguments included
    seconds: float  # CPU seconds of the compilation


def program_names(trial: Trial) -> tuple[str, ...]:
    """The programs of a trial: `stride` is the steps of a trainer by gradients, or of an experiment, in one program."""
    if trainer_of(trial) is evolution.TRAINER:
        return "init", "generation", "evaluation"
    return "init", "stride", "evaluation"


def traced(trial: Trial, program: str, lanes: int, placed: Any = lambda values: values) -> jax.stages.Traced:
    """A program for the shapes of its arguments, to which `placed` may give a device; nothing is computed."""
    if isinstance(trial, ExperimentTrial):
        return _traced_experiment(trial, program, lanes, placed)
    assert isinstance(trial, TrialSpec)
    stacked, evolves = stack([trial] * lanes), trainer_of(trial) is evolution.TRAINER
    function: Any
    arguments: tuple[Any, ...]
    if program == "init":
        function, arguments = (evolution if evolves else gradient).init, (stacked,)
    elif program == "evaluation":
        start = evolution.first_generation(stacked)[0] if evolves else jax.eval_shape(gradient.init, stacked)
        network = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), start.network)
        return compilation.traced(evaluation._measured, trial, placed(network))
    elif program == "stride":
        function = functools.partial(gradient.advance, length=gradient.STRIDE)
        arguments = stacked, jax.eval_shape(gradient.init, stacked)
    else:
        _, ((_, function, arguments),) = evolution.first_generation(stacked)
    return compilation.traced(function, *map(placed, arguments))


def _traced_experiment(trial: ExperimentTrial, program: str, lanes: int, placed: Any) -> jax.stages.Traced:
    stacked, data = stack([trial] * lanes), placed(experiments._shapes_of_data(trial))
    if program == "init":
        return compilation.traced(experiments.init, placed(stacked), data)
    state = jax.eval_shape(experiments.init, stacked, data)
    if program == "stride":
        function = functools.partial(experiments.advance, length=trainer_of(trial).stride_steps)
        return compilation.traced(function, placed(stacked), placed(state), data)
    network = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), state.network)
    return compilation.traced(experiments._evaluation, trial, placed(network), placed(np.int32(0)), data)


def compiled(requests: Iterable[Request], processes: int = os.cpu_count() or 1) -> list[Compiled | str]:
    """What each request gives, or the compiler's error, in the order of the requests; processes share the work."""
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _enter) as pool:
        return list(pool.map(_compiled, requests))


def _enter() -> None:
    """Make the compiler known to JAX before it looks for devices, and use a CPU for all that is computed."""
    sys.path.append(str(COMPILER))
    os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"  # there is no driver
    os.environ.pop("JAX_PLATFORMS", None)
    jax.config.update("jax_platforms", "cpu")


def _compiled(request: Request) -> Compiled | str:
    trial = trial_of(request.trial)
    sharding = SingleDeviceSharding(_device(request.device))

    def placed(values: Any) -> Any:
        return jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf), jax.dtypes.result_type(leaf), sharding=sharding), values
        )

    with vectorisation.built_for("cuda"):
        lowered = traced(trial, request.program, request.lanes, placed).lower()
        begun = time.process_time()
        try:
            program = compilation.executable(lowered)
        except jax.errors.JaxRuntimeError as error:
            return str(error)
    seconds = time.process_time() - begun
    return Compiled(run_counts(program.as_text() or ""), compilation.memory_bytes(program), seconds)


@functools.cache
def _device(name: str) -> Any:
    title, (major, minor), properties = DEVICES[name]
    fields = " ".join(f"{key}: {value}" for key, value in properties.items())
    target = (
        f"gpu_device_info {{ {fields} cuda_compute_capability {{ major: {major} minor: {minor} }} }} "
        f'platform_name: "CUDA" dnn_version_info {{ major: 9 minor: 8 patch: 0 }} device_description_str: "{title}"'
    )
    return topologies.get_topology_desc(name, platform="cuda", target_config=target, topology="1x1x1").devices[0]


# --------------------------------------------------------------------------------------------------------------------
# The compiled text
# --------------------------------------------------------------------------------------------------------------------

_FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "copy-done", "async-done"}
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{$")
_OPERATION = re.compile(r"^\s+(?:ROOT )?%?[\w.\-]+ = (?:\(.*?\)|\S+) ([a-z][\w\-]*)\(.*?\)(?:, (.*))?$")
_CALLED = re.compile(r"(?:body|condition|to_apply|true_computation|false_computation)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{(.*?)\}")
_TURNS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


def run_counts(text: str) -> Counts:
    """What one run of a program does that was compiled for a GPU, by the text of its compiled form."""
    computations: dict[str, list[re.Match[str]]] = {}
    entry, name = "", ""
    for line in text.splitlines():
        if found := _COMPUTATION.match(line):
            name = found[1]
            computations[name] = []
            entry = name if line.startswith("ENTRY") else entry
        elif found := _OPERATION.match(line):
            computations[name].append(found)

    @functools.cache
    def of(computation: str) -> np.ndarray:
        total = np.zeros(2, np.int64)
        for operation in computations[computation]:
            opcode, rest = operation.groups(default="")
            if opcode in _FREE:
                continue
            if opcode == "while":
                turns = _TURNS.search(rest)
                # A known number of turns needs no condition.
                once = sum(of(part) for part in _CALLED.findall(rest) if turns is None or f"body=%{part}" in rest)
                total += np.array([1, 0]) * once * (int(turns[1]) if turns else 1)
            elif opcode == "conditional":
                branches = _CALLED.findall(rest) + re.findall(r"[\w.\-]+", "".join(_BRANCHES.findall(rest)))
                total += max((of(branch) for branch in branches), key=lambda each: each[0])
            elif opcode == "call":
                total += of(_CALLED.findall(rest)[0])
            else:
                total += np.array([1, 1])
        return total

    return Counts(*map(int, of(entry)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one row for each program of the spaces that are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spaces", nargs="*", default=["coloring", "recall", "gridworld", "classification"])
    parser.add_argument("--device", choices=DEVICES, default="h100")
    parser.add_argument("--lanes", type=int, default=8)
    asked = parser.parse_args(arguments)
    if not COMPILER.exists():
        sys.exit(f"there is no compiler in {COMPILER}: make .venv/cuda-compiler")
    requests, titles, runs = [], [], []
    for name in asked.spaces:
        trials = search_space.read(Path("search_spaces", f"{name}.yaml"), ()).expand().trials
        trial = [each for each in trials if not (isinstance(each, TrialSpec) and each.single_seed)][-1]
        for program in program_names(trial):
            requests.append(Request(canonical(trial), program, asked.device, asked.lanes))
            stride = program == "stride"
            runs.append(trainer_of(trial).stride_steps if stride else 1)
            titles.append(f"{name} | {'step' if stride else program}")
    print("| space | program | kernels in loops | outside | memory, MB | compile, CPU s |")
    print("|---|---|---|---|---|---|")
    for title, steps, result in zip(titles, runs, compiled(requests), strict=True):
        if isinstance(result, str):
            print(f"| {title} | fails: {result.splitlines()[0]} |")
            continue
        run = result.run
        kernels = f"{(run.kernels - run.outside) / steps:,.0f} | {run.outside:,}"
        print(f"| {title} | {kernels} | {result.memory / 1e6:,.1f} | {result.seconds:.1f} |")


if __name__ == "__main__":
    main()
