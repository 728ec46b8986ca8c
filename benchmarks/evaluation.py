"""What the evaluation of one stored colouring network costs, by the number of seeds.

    python -m benchmarks.evaluation [--seeds 100 300 1000] [--votes 5 30]

Evaluates the network of the shipped colouring space, with its initial weights, on all 181,440 cycles of ten vertices,
and prints wall and CPU seconds with the compilation, which is paid once in a process, wall seconds of the compilation
alone, and the peak memory of the process. Weights have no influence on the cost.
"""

import argparse
import resource
import time

from sweeper.training import compilation, evaluation
from sweeper.trial.trial_spec import Evaluation, TrialSpec

TRIAL = {
    "task": {"name": "coloring"},
    "model": {"name": "transformer"},
    "baseline": "Aq_R",
    "steps": 1,
}


def main() -> None:
    """Evaluate by each number of seeds; each needs a program of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--votes", type=int, nargs="+", default=[5, 30])
    arguments = parser.parse_args()
    print("| seeds | wall s | CPU s | of it compilation, wall s | peak MB so far |\n|---|---|---|---|---|")
    for seeds in arguments.seeds:
        protocol = Evaluation(seeds=seeds, votes=tuple(vote for vote in arguments.votes if vote <= seeds))
        trial = TrialSpec.model_validate(TRIAL).model_copy(update={"evaluation": protocol})
        network = trial.model.build(trial.task, trial.keys().weights)
        before, wall, cpu = compilation.seconds(), time.monotonic(), time.process_time()
        evaluation.evaluate(trial, network)
        compiling = compilation.seconds() - before
        wall, cpu = time.monotonic() - wall, time.process_time() - cpu
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"| {seeds:,} | {wall:.1f} | {cpu:.1f} | {compiling:.1f} | {memory:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
