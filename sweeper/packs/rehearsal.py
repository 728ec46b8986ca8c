"""The rehearsal of a start: its programs are traced here, and once more where those who train will stand.

A fresh process has the files, the environment and the order of sets of a worker, and traces every program for the first
time. A file that is missing there is missing in every worker. A program that is another one there (by numpy's random
numbers, the time, a count of calls, an order of a set) may be another one in each worker, or after an interruption.

    python -m sweeper.packs.rehearsal < TRIALS

The input is a list of trials in JSON. The last line of the output is JSON too: the digests of the programs of each, or
the reason why they cannot be traced there.
"""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from sweeper.progress import doing
from sweeper.training import compilation
from sweeper.training.kind import kind_of
from sweeper.trial import jax_settings, plugins, vectorisation
from sweeper.trial.contract_checks import ContractError, attributed, broken
from sweeper.trial.plugins import PluginError
from sweeper.trial.record import canonical
from sweeper.trial.trial import Trial, trial_of


class Program(NamedTuple):
    """The program of a method of a plug-in."""

    plugin: Any
    digest: str  # constants included
    effects: tuple[str, ...]  # names of what JAX keeps in order as it may change something outside; see `HARMLESS`


HARMLESS = {"Debug", "OrderedDebug", "InternalMutableArray"}
"""Effects of programs that print, and of those that change arrays that they have made (`jax.new_ref`)."""


def programs(trial: Trial) -> dict[str, Program]:
    """The programs of all methods of the plug-ins of a trial; a `ContractError` if one cannot be traced."""
    found: dict[str, Program] = {}

    def traced(plugin: Any, method: str, function: Callable[..., Any], *arguments: Any) -> Any:
        with attributed(plugin, method), vectorisation.built_for("cpu"), jax_settings.one_thread():
            program = compilation.traced(function, seen, *arguments)
            text = program.lower(lowering_platforms=("cpu",)).as_text()
        effects = {type(effect).__name__.removesuffix("Effect") for effect in program.jaxpr.effects} - HARMLESS
        found[method] = Program(plugin, hashlib.sha256(text.encode()).hexdigest(), tuple(sorted(effects)))
        return program.out_info

    seen = kind_of(trial).by_shapes(trial)
    kind_of(trial).trace_programs(trial, traced)
    return found


def digests(programs: Mapping[str, Program]) -> dict[str, str]:
    return {method: program.digest for method, program in programs.items()}


def difference(here: Mapping[str, Program], there: Mapping[str, str]) -> ContractError | None:
    """The mistake of the first method whose program has effects, or another digest there; None if there is none."""
    for method, (plugin, digest, effects) in here.items():
        if effects:
            found = f"a program with effects ({', '.join(effects)}), as io_callback has"
            must = "pure: a training that goes on from a checkpoint would not repeat them"
            return broken(plugin, method, found, must)
        if there.get(method) != digest:
            must = (
                "the same: all randomness comes through keys and arguments, none from numpy.random, random or time; it "
                "counts no calls, and what functools.cache keeps is of numpy, not of JAX; if it needs the order of a "
                f"set, start with PYTHONHASHSEED={jax_settings.HASH_SEED}"
            )
            return broken(plugin, method, "another program in another process", must)
    return None


def here() -> dict[str, str]:
    """The environment of a fresh process that finds the modules and the project of this one."""
    paths = os.pathsep.join(dict.fromkeys([str(plugins.ROOT), *filter(None, sys.path)]))
    return {"PYTHONPATH": paths, plugins.PROJECT_VARIABLE: str(plugins.PROJECT), **jax_settings.ONE_THREAD}


@contextlib.contextmanager
def traced_elsewhere(
    trials: Sequence[Trial], environment: Mapping[str, str], folder: Path | None = None
) -> Iterator[Callable[[], list[dict[str, str]]]]:
    """Trace the programs of trials in a fresh process as well, while the body of the `with` runs.

    The process works in the folder, by default in that of this process, and the environment is added to that of this
    process. The function waits for the digests of each trial. A trial that cannot be traced is a `ContractError`.
    """
    with tempfile.TemporaryFile("w+") as plan:
        json.dump([canonical(trial) for trial in trials], plan)
        plan.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "sweeper.packs.rehearsal"],
            stdin=plan,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=os.environ | dict(environment) | {"JAX_PLATFORMS": "cpu", "PYTHONHASHSEED": jax_settings.HASH_SEED},
        )

    def found() -> list[dict[str, str]]:
        with doing("tracing programs in another process"):
            printed, said = process.communicate()
        try:
            answer = json.loads(printed.splitlines()[-1])
        except (IndexError, ValueError):  # a plug-in has ended the process
            answer = f"the process ended with {process.returncode}: {(said.splitlines() or ['nothing said'])[-1]}"
        if isinstance(answer, str):
            reason = answer if folder is None else answer.replace(str(folder), str(plugins.PROJECT))
            raise ContractError(f"workers, or another process, cannot trace what was planned: {reason}")
        return answer

    with process:
        try:
            yield found
        finally:
            process.kill()


class Rehearsal(NamedTuple):
    """A trial of a start for each combination of plug-ins that is new here, with the programs as traced here."""

    trials: Sequence[Trial] = ()
    programs: Sequence[Mapping[str, Program]] = ()
    marks: Sequence[Path | None] = ()  # files that a rehearsal without a mistake writes, for later starts

    @contextlib.contextmanager
    def elsewhere(self, environment: Mapping[str, str], folder: Path | None = None) -> Iterator[None]:
        """Trace the programs in a fresh process, see `traced_elsewhere`, while the body of the `with` runs.

        A program that differs there, or cannot be traced, is a `ContractError` at the end.
        """
        if not self.trials:
            yield
            return
        with traced_elsewhere(self.trials, environment, folder) as found:
            yield
            there = found()
        for mistake in filter(None, map(difference, self.programs, there)):
            raise mistake
        for mark, trial, digests_there in zip(self.marks, self.trials, there, strict=True):
            if mark is not None:
                mark.write_text(json.dumps([canonical(trial), digests_there]))


def _answer(trials: Sequence[Any]) -> list[dict[str, str]] | str:
    """The digests of the programs of each trial, or why there are none."""
    try:
        return [digests(programs(trial_of(trial))) for trial in trials]
    except (PluginError, ValidationError, ContractError) as error:
        message = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        return (
            f"{message} (workers get the code of the project, and what plug-ins and the space name, without what git "
            "ignores, hidden files and results: let git know the files that they need, name them in the plug-in, as "
            'in "data/*.csv", or let it read them outside of the project, by their full paths)'
        )


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):  # a plug-in may print
        answer = _answer(json.load(sys.stdin))
    print("\n" + json.dumps(answer))
