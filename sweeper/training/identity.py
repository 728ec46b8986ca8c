"""What a trial was made by, as far as it can be measured: digests of its code, of its programs and of its data.

A fingerprint lists files and libraries, which is what a plan can know. A list is never complete: a field may name a
file of data, a constant may come from anywhere. So a worker measures what it computes with. The digest of the programs
is that of their text, with all constants: of a step of the training, made for one lane and for a CPU, so that neither
the number of lanes nor the device counts, with the options that the trial asks of its compiler; and of the evaluation.
Trials of equal structure have equal digests, whatever their traced values are, unless code or data differ.
"""

import hashlib
import json
from typing import Any, NamedTuple

import jax
import numpy as np

from sweeper.training import compilation
from sweeper.training.kind import kind_of, trainer_of
from sweeper.trial import jax_settings, vectorisation
from sweeper.trial.record import canonical
from sweeper.trial.trial import Trial


class Identity(NamedTuple):
    """What a training is made by."""

    fingerprint: str  # of the code
    programs: str  # ten digits of the structure of the trial, a hyphen, and ten of its programs
    data: str | None  # of the arrays of the experiment; None without any

    def difference(self, other: "Identity") -> str | None:
        """In which way something made by this is not made by the other, in words that follow its name."""
        if self.fingerprint != other.fingerprint:
            return "is of other code"
        if self.programs != other.programs:
            return "is of other programs"
        return "was trained on other data" if self.data != other.data else None


def identity(trial: Trial, fingerprint: str) -> Identity:
    """What makes a trial, or its checkpoint, in this process."""
    data = kind_of(trial).data(trial)  # on the device of this process, before programs are traced for another
    return Identity(fingerprint, f"{_structure(trial)}-{_of_training(trial)}", data)


def of_row(training: Identity, evaluation: str | None) -> str | None:
    """The digest of the programs of a row, whose evaluation was computed by a program with this digest."""
    structure, _, digits = training.programs.partition("-")
    return None if evaluation is None else f"{structure}-{_digest(digits, evaluation)}"


def of_evaluation(trial: Trial, evaluation: str | None) -> str | None:
    """The digest of the programs of an evaluation that trains nothing."""
    return None if evaluation is None else f"{_structure(trial)}-{evaluation}"


_trainings: dict[Any, str] = {}
"""The digests of the programs that train, by the structure of the trial."""


def _of_training(trial: Trial) -> str:
    seen = trial.for_programs()
    structure = jax.tree.structure(seen)
    if structure not in _trainings:
        one = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((1,), np.int32 if isinstance(leaf, int) else np.float32), seen
        )
        with vectorisation.built_for("cpu"), jax_settings.one_thread():
            texts = [
                compilation.traced(function, *arguments).lower(lowering_platforms=("cpu",)).as_text()
                for function, arguments in trainer_of(trial).programs(one)
            ]
        _trainings[structure] = _digest(*texts, *map(str, compilation.training_options(seen).items()))
    return _trainings[structure]


def _structure(trial: Trial) -> str:
    """Ten digits that stand for all of a trial that is no traced value."""
    return _digest(json.dumps(canonical(jax.tree.map(lambda _: None, trial.for_programs())), sort_keys=True))


def _digest(*texts: str) -> str:
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=5).hexdigest()
