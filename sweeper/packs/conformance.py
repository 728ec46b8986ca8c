"""Whether plug-ins keep their contracts: when the kinds of trial check them, and what is done with mistakes.

`check_shapes` traces every method by shapes: nothing is computed, and no device is needed. Planning does that.
`check_values` sees what shapes do not show, on a few values, and a fresh process says whether the programs are the same
there. A start does that before the first pack of a code (`probe`). `sweeper check` does both. A mistake is a
`ContractError`, with the same message everywhere.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
from jaxtyping import PyTree

from sweeper.packs import rehearsal
from sweeper.packs.failures import kind_and_message, log_no_callbacks
from sweeper.packs.pack_training import ADVICE, non_finite
from sweeper.packs.packing import lane, stack
from sweeper.packs.rehearsal import Rehearsal
from sweeper.progress import doing, each
from sweeper.store.trial_file import check_network
from sweeper.training.kind import Checks, kind_of, trainer_of
from sweeper.trial import jax_settings, vectorisation
from sweeper.trial.contract_checks import ContractError, place
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
    keep = _require_storable if to_keep else lambda *_: None
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
    with rehearsal.traced_elsewhere(trials, rehearsal.here()) as there:
        values = _mistakes_of_values(trials)
        here = list(map(rehearsal.programs, each(trials, "tracing programs")))
        programs = list(map(rehearsal.difference, here, there()))
    # A program that differs explains numbers that disagree.
    return [of_program or of_values for of_program, of_values in zip(programs, values, strict=True)]


def _mistakes_of_values(trials: Sequence[Trial]) -> list[ContractError | None]:
    mistakes: list[ContractError | None] = []
    seen: set[str] = set()
    for trial in trials:
        mistake = None
        try:
            for what, check in _unseen(kind_of(trial).checks_by_values(trial), seen):
                with doing(f"computing values of {what}"):
                    check()
        except ContractError as error:
            mistake = error
        mistakes.append(mistake)
    return mistakes


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
    for trial in each(shaped, "computing first states"):
        if (mistake := _mistake_of_start(trial)) is not None:
            yield f"{trial.words}: {mistake}"


def _mistake_of_start(trial: Trial) -> str | None:
    """What a program raises, or a weight that is not finite before the first step and still is not after a stride."""
    log_no_callbacks()
    trials, trainer = stack([trial]), trainer_of(trial)
    try:
        state = trainer.start(trials)
        if non_finite(trial, lane(state.network, 0)) is None:
            return None
        state, _ = trainer.stride(trials, state, min(trainer.stride_steps, trial.steps))
        spoilt = non_finite(trial, lane(state.network, 0))
    except jax.errors.JaxRuntimeError as error:
        return ": ".join(kind_and_message(error))
    return None if spoilt is None else f"{spoilt} after the first steps{ADVICE}"


# At a start


def probe(trials: Iterable[Trial], code: Code, in_process: bool = False) -> Rehearsal:
    """Check values here, once on this machine for the code of every combination of plug-ins; the rehearsal is left.

    Programs of an earlier rehearsal are those of workers as well, whose sets have one order. In this process they have
    another at each start: if it is to train, its programs must still be those of the rehearsal. If they are not, data
    may have been edited, and the programs are rehearsed again. Files that only fields name, such as the data of an
    experiment, are in no fingerprint: whether workers have them is rehearsed for each of them, at every start.
    """
    folder = private_folder("rehearsed")
    new: dict[Trial, Path | None] = {}
    first: dict[Any, Trial] = {}  # whose data this process has already, as its shapes were checked
    for trial in trials:
        first.setdefault((trial.plugin_names, *(() if in_process else _files_named(canonical(trial)))), trial)
    for (_, *files), trial in first.items():
        mark = None if folder is None or files else folder / f"{code.fingerprint(trial)}{'' if in_process else '-copy'}"
        if mark is None or not _holds(mark, in_process and bool(sys.flags.hash_randomization)):
            new[trial] = mark
    if any(_mistakes_of_values(list(new))):
        check_values(new)
    programs = list(map(rehearsal.programs, each(list(new), "tracing programs")))
    return Rehearsal(list(new), programs, list(new.values()))


def _files_named(value: Any) -> list[str]:
    """The texts in the fields of a trial that are relative paths of files, which workers look for in their copy."""
    if isinstance(value, str):
        return [value] if not os.path.isabs(value) and os.path.isfile(value) else []
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [name for entry in entries for name in _files_named(entry)]


def _holds(mark: Path, traced_here: bool) -> bool:
    """Whether there was a rehearsal, with the programs that this process traces, if it must be `traced_here`."""
    try:
        trial, digests = json.loads(mark.read_text())
        return not traced_here or rehearsal.digests(rehearsal.programs(trial_of(trial))) == digests
    except (OSError, ValueError, TypeError):  # a `ContractError` is a ValueError
        return False
