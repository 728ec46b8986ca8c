"""What a lowered program asks of an accelerator: kernels and matrix products, counted in its StableHLO.

    python -m benchmarks.lowered_program [coloring recall gridworld …]

prints the kernels of every program of a space's last trial with new seeds r, eight lanes, lowered for CUDA, in the form
for a GPU and in that for a CPU. The evaluation is that of a single network.

A kernel is a function that the accelerator starts, and each start costs microseconds however small its work. How many
kernels XLA makes is known only after it has compiled for the device. Without the device they are estimated as follows.

    - A matrix product, convolution, reduction, sort, scatter, custom call or update of a slice is a kernel.
    - All other operations on arrays (arithmetic, gathers, slices, transpositions) are fused into the operation that
      reads them. If they are read by an operation that wants its operand in memory (a product, a sort, a custom call, a
      loop, or the caller of the program), each operand is a kernel more.
    - The body of a loop counts as often as it runs, and one more time a turn for its condition. A call counts as the
      function that is called; of several branches the largest counts.
    - Reshapes, broadcasts and constants are free.
"""

import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

from sweeper.packs.packing import stack
from sweeper.space import search_space
from sweeper.training import evaluation, evolution, gradient
from sweeper.training.compilation import traced
from sweeper.training.trainers import trainer_of
from sweeper.trial import vectorisation
from sweeper.trial.trial_spec import TrialSpec

_KERNELS = {
    "stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution", "stablehlo.reduce", "stablehlo.reduce_window",
    "stablehlo.sort", "stablehlo.scatter", "stablehlo.custom_call", "stablehlo.dynamic_update_slice", "stablehlo.fft",
    "stablehlo.cholesky", "stablehlo.triangular_solve", "stablehlo.rng_bit_generator", "chlo.top_k",
}  # fmt: skip

_READ_FROM_MEMORY = {
    "stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution", "stablehlo.sort", "stablehlo.custom_call",
    "stablehlo.while", "stablehlo.return", "stablehlo.case", "stablehlo.if", "func.return",
}  # fmt: skip

_FREE = {
    "stablehlo.constant", "stablehlo.reshape", "stablehlo.broadcast_in_dim", "stablehlo.iota",
    "stablehlo.optimization_barrier", "stablehlo.get_tuple_element", "stablehlo.tuple",
}  # fmt: skip

PRODUCTS = ("stablehlo.dot_general", "stablehlo.dot", "stablehlo.convolution")


def programs(trial: TrialSpec, lanes: int = 2, form: str = "cuda") -> dict[str, jax.stages.Lowered]:
    """Every program that a trial needs, lowered for CUDA, which need not be there; nothing is computed.

    Args:
        trial: The trial.
        lanes: Lanes of the programs that train.
        form: The platform in whose form the programs are (`sweeper.trial.vectorisation`).

    Returns:
        `init`, `evaluation`, and `stride`, the steps of Adam between two points of a curve; of an evolution
        `population` and `tell` instead of `stride`. In the form for a CPU `population` is one of its blocks.
    """
    with vectorisation.built_for(form):
        stacked = stack([trial] * lanes)
        if trainer_of(trial) is evolution.TRAINER:
            generation = evolution.first_generation(stacked)
            start = generation.state
            made = {
                "init": traced(evolution.init, stacked),
                "population": traced(generation.evaluate, *generation.evaluate_arguments),
                "tell": traced(evolution.tell, *generation.tell_arguments),
            }
        else:
            start = jax.eval_shape(gradient.init, stacked)
            advance = functools.partial(gradient.advance, length=gradient.STRIDE)
            made = {
                "init": traced(gradient.init, stacked),
                "stride": traced(advance, stacked, start, donate_argnums=1),
            }
        network = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), start.network)
        made["evaluation"] = traced(evaluation._measured, trial, network)
        return {name: program.lower(lowering_platforms=("cuda",)) for name, program in made.items()}


def kernels(lowered: jax.stages.Lowered) -> int:
    """Estimated number of kernels of one run of a program.

    Raises:
        ValueError: a loop of the program ends by what it computes, so that its turns cannot be counted.
    """
    functions = {operation.name.value: operation for operation in _module(lowered).body.operations}

    @functools.cache
    def of_function(name: str) -> int:
        return of_block(functions[name].body.blocks[0], inlined=name != "main")

    def of_block(block: Any, inlined: bool = False) -> int:
        return sum(map(of_operation, block.operations)) + _fusions(block, inlined)

    def of_operation(operation: Any) -> int:
        name = operation.operation.name
        match name:
            case "func.call":
                return of_function(operation.attributes["callee"].value)
            case "stablehlo.while":
                condition, body = (region.blocks[0] for region in operation.regions)
                return _turns(operation, condition) * (1 + of_block(body))
            case "stablehlo.case" | "stablehlo.if":
                return max(of_block(region.blocks[0]) for region in operation.regions)
            case _:
                return name in _KERNELS

    return of_function("main")


def products(lowered: jax.stages.Lowered) -> Iterator[str]:
    """The text of every matrix product and convolution of a program, with types and precision."""

    def within(block: Any) -> Iterator[str]:
        for operation in block.operations:
            if operation.operation.name in PRODUCTS:
                yield str(operation)
            for region in operation.operation.regions:
                for inner in region.blocks:
                    yield from within(inner)

    yield from within(_module(lowered).body)


def _module(lowered: jax.stages.Lowered) -> Any:
    return lowered.compiler_ir("stablehlo")


def _fusions(block: Any, inlined: bool) -> int:
    """Operands in the block that must be written to memory, and that no kernel of their own writes."""
    makers = {result: operation for operation in block.operations for result in operation.operation.results}
    written = set()
    for operation in block.operations:
        name = operation.operation.name
        if name not in _READ_FROM_MEMORY or (inlined and name == "func.return"):
            continue
        for operand in operation.operation.operands:
            while (maker := makers.get(operand)) is not None:
                name = maker.operation.name
                if name not in _FREE:
                    if name not in _KERNELS | {"stablehlo.while", "func.call", "stablehlo.case", "stablehlo.if"}:
                        written.add(operand)
                    break
                if len(maker.operation.operands) == 0:
                    break
                operand = maker.operation.operands[0]
    return len(written)


def _turns(loop: Any, condition: Any) -> int:
    """How often a loop runs at most: its condition asks whether a counter that begins at 0 is below a constant."""
    for operation in condition.operations:
        if operation.operation.name == "stablehlo.compare" and "LT" in str(
            operation.attributes["comparison_direction"]
        ):
            limit = _constant(operation.operands[1], loop, condition)
            if limit is not None:
                return limit
    raise ValueError(f"a loop without a known number of turns: {str(loop)[:500]}")


def _constant(value: Any, loop: Any, condition: Any) -> int | None:
    owner = value.owner
    if not hasattr(owner, "operation"):  # an argument of the condition, and hence an operand of the loop
        return _constant(loop.operation.operands[value.arg_number], loop, condition)
    if owner.operation.name != "stablehlo.constant":
        return None
    return int(next(iter(owner.operation.attributes["value"])))


def main() -> None:
    """Print one row for each program of the spaces that are named."""
    print("| space | program | in the form for a GPU | in the form for a CPU |\n|---|---|---|---|")
    for name in sys.argv[1:] or ["coloring", "recall", "gridworld"]:
        trials = search_space.read(Path("search_spaces", f"{name}.yaml"), ()).expand().trials
        trial = [trial for trial in trials if not trial.single_seed][-1]
        forms = [programs(trial, 8, form) for form in ("cuda", "cpu")]
        for program in forms[0]:
            counts = []
            runs, what = (gradient.STRIDE, "step") if program == "stride" else (1, program)
            for form in forms:
                try:
                    counts.append(f"{kernels(form[program]) / runs:,.0f}")
                except ValueError:
                    counts.append("its loops end by what they compute")
            print(f"| {name} | {what} | {' | '.join(counts)} |")


if __name__ == "__main__":
    main()
