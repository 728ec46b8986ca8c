"""Whether plug-ins keep their contracts: when the kinds of trial check them, and what is done with mistakes.

`check_shapes` traces every method by shapes: nothing is computed, and no device is needed. Planning does that.
`check_values` sees what shapes do not show, on a few values. A start does that before the first pack of a code, and two
fresh processes say whether the programs are the same there, where each is traced for the first time, and with other
orders of sets. `sweeper check` does both. A mistake is a `ContractError`, with the same message everywhere.
"""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jaxtyping import PyTree

from sweeper.progress import doing, each
from sweeper.store.trial_file import check_network
from sweeper.training import compilation
from sweeper.training.kind import Checks, kind_of
from sweeper.trial import jax_settings, plugins, vectorisation
from sweeper.trial.contract_checks import ContractError, broken, place
from sweeper.trial.fingerprint import Code
from sweeper.trial.private_folder import private_folder
from sweeper.trial.record import canonical
from sweeper.trial.trial import Trial, trial_of

# Shapes


def check_shapes(trials: Iterable[Trial], to_keep: bool = False) -> None:
    """Hold the plug-ins of every trial against their contracts, by shapes; plug-ins that come together are traced once.

    A method that gives what its contract excludes, or raises, is a `ContractError`. So is a network that no store
    keeps, if networks are `to_keep`.
    """
    keep = _require_storable if to_keep else _ignore
    seen: set[str] = set()
    with vectorisation.built_for("cpu"), jax_settings.one_thread():  # to ask for the platform would start JAX
        for trial in trials:
            for _, check in _unseen(kind_of(trial).checks_by_shapes(trial, keep), seen):
                check()


def _unseen(checks: Checks, seen: set[str]) -> Iterator[tuple[str, Callable[[], None]]]:
    """The checks, with their words, but for those seen; a check is seen once the loop goes on after it."""
    for what, check in checks.items():
        if what not in seen:
            yield what, check
            seen.add(what)


def _require_storable(network: PyTree, plugin: Any, method: str) -> None:
    try:
        check_network(jax.tree.leaves(network))
    except ValueError as error:
        raise ContractError(f"{place(plugin, method)}: {error}") from None


def _ignore(network: PyTree, plugin: Any, method: str) -> None:
    pass


# Values


def check_values(trials: Iterable[Trial]) -> None:
    """Hold what plug-ins compute against their contracts, on a few values.

    The methods of the trials have the shapes of their contracts. A value that no contract allows, or a program that
    differs in another process, is a `ContractError`.
    """
    for mistake in value_mistakes(list(trials)):
        if mistake is not None:
            raise mistake


def value_mistakes(trials: Sequence[Trial]) -> list[ContractError | None]:
    """The first mistake of each trial that `check_values` sees, None where there is none."""
    values: list[ContractError | None] = []
    seen: set[str] = set()
    with contextlib.ExitStack() as ended:
        elsewhere = [ended.enter_context(_tracing_elsewhere(trials, each)) for each in HASH_SEEDS]
        try:
            for trial in trials:
                mistake = None
                try:
                    for what, check in _unseen(kind_of(trial).checks_by_values(trial), seen):
                        with doing(f"computing values of {what}"):
                            check()
                except ContractError as error:
                    mistake = error
                values.append(mistake)
            programs = _program_mistakes(trials, elsewhere)
        finally:
            for process in elsewhere:
                process.kill()
    # A program that differs explains numbers that disagree.
    return [of_program or of_values for of_program, of_values in zip(programs, values, strict=True)]


# Everything


def mistakes(trials: Sequence[Trial]) -> Iterator[str]:
    """Everything that is wrong with the plug-ins of trials, a line each.

    What the first checks refuse, no other check sees, as it would stumble over it.
    """
    shaped = []
    for trial in each(trials, "tracing shapes"):
        try:
            check_shapes([trial], to_keep=True)
            shaped.append(trial)
        except ContractError as error:
            yield str(error)
    found = value_mistakes(shaped) if shaped else []
    yield from (str(error) for error in found if error is not None)


# Programs


class Program(NamedTuple):
    """The program of a method of a plug-in."""

    plugin: Any
    digest: str  # constants included
    effects: tuple[str, ...]  # names of what JAX keeps in order as it may change something outside; see `HARMLESS`


HARMLESS = {"Debug", "OrderedDebug", "InternalMutableArray"}
"""Effects of programs that print, and of those that change arrays that they have made (`jax.new_ref`)."""


def _programs(trial: Trial) -> dict[str, Program]:
    """The programs of all methods of the plug-ins of a trial."""
    programs: dict[str, Program] = {}

    def traced(plugin: Any, method: str, function: Callable[..., Any], *arguments: Any) -> Any:
        with vectorisation.built_for("cpu"), jax_settings.one_thread():
            program = compilation.traced(function, trial.for_programs(), *arguments)
            text = program.lower(lowering_platforms=("cpu",)).as_text()
        effects = {type(effect).__name__.removesuffix("Effect") for effect in program.jaxpr.effects} - HARMLESS
        programs[method] = Program(plugin, hashlib.sha256(text.encode()).hexdigest(), tuple(sorted(effects)))
        return program.out_info

    kind_of(trial).trace_programs(trial, traced)
    return programs


def _digests(trial: Trial) -> dict[str, str]:
    return {method: program.digest for method, program in _programs(trial).items()}


def _program_mistakes(
    trials: Sequence[Trial], elsewhere: Iterable["subprocess.Popen[bytes]"]
) -> list[ContractError | None]:
    """What is wrong with programs that act outside, or differ from trace to trace, as numpy's random numbers do."""
    here = list(map(_programs, each(trials, "tracing programs")))
    traces: list[list[dict[str, str]]] = []
    with doing("tracing programs in other processes"):
        for process in elsewhere:
            assert process.stdout is not None
            printed = process.stdout.read()
            if process.wait() != 0:  # what cannot be traced there, a worker cannot trace either, and says why
                return [None] * len(here)
            traces.append(json.loads(printed))
    return [_difference(mine, others) for mine, *others in zip(here, *traces, strict=True)]


def _difference(mine: dict[str, Program], others: Sequence[dict[str, str]]) -> ContractError | None:
    """The mistake of the first method whose program has effects, or another digest elsewhere."""
    for method, (plugin, digest, effects) in mine.items():
        if effects:
            found = f"a program with effects ({', '.join(effects)}), as io_callback has"
            return broken(
                plugin, method, found, "pure: a training that goes on from a checkpoint would not repeat them"
            )
        if any(other.get(method) != digest for other in others):
            same = (
                "the same: all randomness comes through keys and arguments, none from numpy.random, random or time; it "
                "counts no calls, and takes no order from a set"
            )
            return broken(plugin, method, "another program each time it is traced", same)
    return None


HASH_SEEDS = (jax_settings.HASH_SEED, "1")
"""Hash seeds of the fresh processes: they order sets of texts."""


def _tracing_elsewhere(trials: Iterable[Trial], hash_seed: str) -> "subprocess.Popen[bytes]":
    """A process of the same project that traces the programs of trials for the first time, and prints the digests."""
    paths = os.pathsep.join([str(plugins.ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    own = {"JAX_PLATFORMS": "cpu", plugins.PROJECT_VARIABLE: str(plugins.PROJECT), "PYTHONPATH": paths}
    own["PYTHONHASHSEED"] = hash_seed
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "sweeper.packs.conformance"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | own | jax_settings.ONE_THREAD,
    )
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # it has ended
        process.stdin.write(json.dumps(list(map(canonical, trials))).encode())
        process.stdin.close()
    return process


def _trace() -> None:
    with contextlib.redirect_stdout(sys.stderr):  # a plug-in may print
        digests = list(map(_digests, map(trial_of, json.load(sys.stdin))))
    print(json.dumps(digests))


# Once


def probe(trials: Iterable[Trial], code: Code, in_process: bool = False) -> list[Trial]:
    """`check_values`, once on this machine for the code of every combination of plug-ins; returns the trials checked.

    Programs of an earlier check are those of workers as well, whose sets have one order. In this process they have
    another at each start: if it is to train, its programs must be the same as at that check, too.
    """
    folder = private_folder("conforming")
    kinds = list({each.plugin_names: each for each in trials}.values())
    if folder is None:
        check_values(kinds)
        return kinds
    marks = {folder / code.fingerprint(trial): trial for trial in kinds}
    known = {mark: noted for mark in marks if (noted := _noted(mark)) is not None}
    for trial, digests in known.values() if in_process and sys.flags.hash_randomization else ():
        if (mistake := _difference(_programs(trial), [digests])) is not None:
            raise mistake
    new = {mark: trial for mark, trial in marks.items() if mark not in known}
    if new:
        check_values(new.values())
    for mark, trial in new.items():
        mark.write_text(json.dumps([canonical(trial), _digests(trial)]))
    return list(new.values())


def _noted(mark: Path) -> tuple[Trial, dict[str, str]] | None:
    """The trial that was checked, and the digests of its programs; None if none was, or the file makes no sense."""
    try:
        trial, digests = json.loads(mark.read_text())
        return trial_of(trial), dict(digests)
    except (OSError, ValueError, TypeError):
        return None


if __name__ == "__main__":
    _trace()
