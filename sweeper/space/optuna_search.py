"""Optuna search: a tree-structured Parzen estimator (Bergstra et al., 2011) proposes settings by earlier values."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from sweeper.messages import counted
from sweeper.space.holes import Hole
from sweeper.space.search import Search, Study, open_holes
from sweeper.space.yaml_tree import Node

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


class OptunaSearch(Search):
    """Asks an Optuna study for `trials` settings."""

    DRAWS = True
    ADAPTS = True

    method: Literal["optuna"]

    def study(self, variants: Sequence[Node]) -> "OptunaStudy":
        return OptunaStudy(self, distributions(variants))

    def title(self, trials: int) -> str:
        return f"an Optuna search of {counted(self.trials or 0, 'setting')}, {counted(trials, 'trial')} so far"


class OptunaStudy(Study):
    """A study with a seeded sampler, which counts open settings as bad ones (`constant_liar`)."""

    def __init__(self, search: OptunaSearch, distributions: "dict[str, BaseDistribution]"):
        import optuna  # a second of import that only this search needs

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(seed=search.seed, constant_liar=True)
        direction = "maximize" if search.mode == "max" else "minimize"
        self._study = optuna.create_study(sampler=sampler, direction=direction)
        self._failed = optuna.trial.TrialState.FAIL
        self._distributions = distributions
        self._asked: list[optuna.trial.Trial] = []

    def ask(self) -> Mapping[str, Any]:
        self._asked.append(self._study.ask(self._distributions))
        return self._asked[-1].params

    def tell(self, number: int, value: float | None) -> None:
        if value is None:
            self._study.tell(self._asked[number], state=self._failed)
        else:
            self._study.tell(self._asked[number], value)


def distributions(variants: Sequence[Node]) -> "dict[str, BaseDistribution]":
    """Optuna's distribution of every open hole, in the order of paths.

    For a choice, the index of its entry is drawn. Holes inside an entry that was not chosen have no influence.
    """
    return {path: _distribution(hole) for path, hole in open_holes(variants).items()}


def _distribution(hole: Hole) -> "BaseDistribution":
    from optuna import distributions

    match hole.kind:
        case "choice":
            return distributions.CategoricalDistribution(range(len(hole.options)))
        case "int":
            low, high = (end.value for end in hole.options)
            return distributions.IntDistribution(low, high)
        case kind:
            low, high = (end.value for end in hole.options)
            return distributions.FloatDistribution(low, high, log=kind == "log_uniform")
