"""Whether two packs that share a device train more than one pack with twice the lanes.

Every pack is a process (`python -m benchmarks.gpu.sharing LANES SECONDS [toy]`), as it is under Ray. It says when its
program is compiled, waits for a line, trains for so many seconds, and prints its trial-steps a second.
"""

import subprocess
import sys
import time

import jax

from benchmarks.shipped_trials import shipped_trial
from sweeper.learned_algorithms import gradient
from sweeper.packs.packing import stack
from sweeper.training import compilation
from sweeper.trial import vectorisation

LANES, SECONDS = 64, 5.0


def print_sharing(toy: bool) -> bool:
    """Print the trial-steps of colouring a second, of one pack and of two packs with half of its lanes each."""
    lanes, seconds = (4, 0.1) if toy else (LANES, SECONDS)
    print("| packs at once | lanes of each | trial-steps/s, together |\n|---|---|---|")
    for number in (1, 2):
        rates = _rates(number, lanes // number, seconds, toy)
        print(f"| {number} | {lanes // number} | {sum(rates):,.4g} |", flush=True)
    print()
    return True


def _rates(number: int, lanes: int, seconds: float, toy: bool) -> list[float]:
    """Trial-steps a second of so many packs that train at the same time."""
    command = [sys.executable, "-m", "benchmarks.gpu.sharing", str(lanes), str(seconds), *["toy"] * toy]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(number)
    ]
    try:
        if any(pack.stdout.readline() != "compiled\n" for pack in started if pack.stdout):
            raise RuntimeError("a pack ended before its program was compiled")
        for pack in started:
            if pack.stdin:
                pack.stdin.write("\n")
                pack.stdin.flush()
        return [float(pack.communicate()[0]) for pack in started]
    finally:
        for pack in started:
            pack.kill()
            pack.wait()


def _pack(lanes: int, seconds: float, toy: bool) -> None:
    stacked = stack([shipped_trial("colouring", toy).model_copy(update={"seed": seed}) for seed in range(lanes)])
    state = gradient.start(stacked)
    program = compilation.compiled(
        gradient.advance, stacked, state, gradient.STRIDE, static_argnums=2, donate_argnums=1
    )
    state, _ = jax.block_until_ready(program(stacked, state))
    print("compiled", flush=True)
    sys.stdin.readline()
    begun, steps = time.monotonic(), 0
    while time.monotonic() < begun + seconds:
        state, _ = jax.block_until_ready(program(stacked, state))
        steps += gradient.STRIDE
    print(lanes * steps / (time.monotonic() - begun))


if __name__ == "__main__":
    with vectorisation.built_for("cuda" if jax.default_backend() == "cpu" else jax.default_backend()):
        _pack(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:] == ["toy"])
