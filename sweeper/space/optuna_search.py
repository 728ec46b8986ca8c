"""Optuna search: a sampler of Optuna proposes settings by the values of earlier ones.

Every kind of hole is one of Optuna's own distributions, with its step and its scale, so that a sampler sees order and
distance. Holes of an entry that is not chosen are not asked for: Optuna knows such conditions by what a trial has.
"""

import importlib.util
import operator
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from sweeper.messages import counted
from sweeper.space.holes import Choice, holes_in
from sweeper.space.search import Search, Study
from sweeper.space.yaml_tree import Node
from sweeper.trial.field_types import Count, Positive
from sweeper.trial.record import Spec

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.trial import Trial

Share = Annotated[float, Field(ge=0, le=1)]


class Sampler(Spec):
    """What all samplers have: each is Optuna's with the name of the class, such as `TPESampler`, and its fields are the
    arguments there, with their names and defaults."""

    NEEDS: ClassVar[tuple[str, ...]] = ()
    """Packages that it needs beside Optuna."""

    FIXED: ClassVar[Mapping[str, Any]] = {}
    """Arguments that a space does not choose."""

    MANY_METRICS: ClassVar[bool] = True
    """Whether it can search for the Pareto front of several metrics."""

    name: str

    @model_validator(mode="after")
    def _available(self) -> "Sampler":
        missing = [package for package in self.NEEDS if importlib.util.find_spec(package) is None]
        if missing:
            raise ValueError(f"name: '{self.name}' needs {' and '.join(missing)}: pip install {' '.join(missing)}")
        return self

    def sampler(self, seed: int) -> "BaseSampler":
        """The sampler, with this seed of its draws."""
        import optuna

        with warnings.catch_warnings():
            # Who names a sampler knows it; that Optuna may change it is for us to watch.
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            kind = getattr(optuna.samplers, f"{type(self).__name__}Sampler")
            return kind(seed=seed, **self.FIXED, **self.model_dump(exclude={"name"}))


class TPE(Sampler):
    """Tree-structured Parzen estimators (Bergstra et al., 2011), which count settings under way as bad ones."""

    FIXED: ClassVar = {"constant_liar": True}

    name: Literal["tpe"] = "tpe"
    n_startup_trials: Count = 10
    n_ei_candidates: Count = 24
    multivariate: bool | None = None
    group: bool = False

    @model_validator(mode="after")
    def _grouped(self) -> "TPE":
        if self.group and not self.multivariate:
            raise ValueError("group: needs 'multivariate: true'")
        return self


class GP(Sampler):
    """Bayesian optimisation with a Gaussian process."""

    NEEDS = ("torch",)
    FIXED: ClassVar = {"warn_independent_sampling": False}

    name: Literal["gp"]
    n_startup_trials: Count = 10
    deterministic_objective: bool = False


class CmaEs(Sampler):
    """CMA-ES (Hansen, 2016) of the numbers of a space; choices are drawn at random."""

    NEEDS = ("cmaes",)
    FIXED: ClassVar = {"warn_independent_sampling": False}
    MANY_METRICS = False

    name: Literal["cma_es"]
    sigma0: Positive | None = None
    n_startup_trials: Count = 1
    popsize: Annotated[int, Field(ge=2)] | None = None
    use_separable_cma: bool = False
    with_margin: bool = False
    lr_adapt: bool = False


class NSGAII(Sampler):
    """NSGA-II (Deb et al., 2002), an evolutionary search for the Pareto front of several metrics."""

    name: Literal["nsga2"]
    population_size: Annotated[int, Field(ge=2)] = 50
    mutation_prob: Share | None = None
    crossover_prob: Share = 0.9
    swapping_prob: Share = 0.5


class QMC(Sampler):
    """A quasi-random sequence, which covers the space more evenly than random draws do."""

    FIXED: ClassVar = {"warn_independent_sampling": False, "warn_asynchronous_seeding": False}

    name: Literal["qmc"]
    qmc_type: Literal["sobol", "halton"] = "sobol"
    scramble: bool = False


def _named(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError(f"a sampler is written {{name: {value}}}, with its options beside the name")
    return {"name": "tpe", **value} if isinstance(value, dict) else value


AnySampler = Annotated[TPE | GP | CmaEs | NSGAII | QMC, Field(discriminator="name"), BeforeValidator(_named)]
"""A sampler by its name, or by a mapping of its name and options; TPE where no name is given."""


class OptunaSearch(Search):
    """Asks an Optuna study for `trials` settings."""

    DRAWS = True
    ADAPTS = True

    method: Literal["optuna"]
    sampler: AnySampler = TPE()

    @model_validator(mode="after")
    def _one_metric(self) -> "OptunaSearch":
        if len(self.metric) > 1 and not self.sampler.MANY_METRICS:
            raise ValueError(f"metric: the sampler {self.sampler.name} improves one metric, not {len(self.metric)}")
        return self

    def study(self, variants: Sequence[Node]) -> "OptunaStudy":
        return OptunaStudy(self, variants)

    def title(self, trials: int) -> str:
        return f"an Optuna search of {counted(self.draws, 'setting')}, {counted(trials, 'trial')} so far"


class OptunaStudy(Study):
    """A study with a seeded sampler."""

    def __init__(self, search: OptunaSearch, variants: Sequence[Node]):
        import optuna  # a second of import that only this search needs

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._states = optuna.trial.TrialState
        self._study = optuna.create_study(
            sampler=search.sampler.sampler(search.seed),
            directions=["maximize" if mode == "max" else "minimize" for mode in search.mode],
        )
        self._variants = variants
        # The variants of the settings: one of each in turn, as long as its number of draws lasts
        assert search.trials is not None
        draws = search.trials
        turns = (variant for turn in range(max(draws)) for variant, number in enumerate(draws) if turn < number)
        self._own_numbers = turns if len(draws) > 1 else None
        self._asked: list[Trial] = []

    def ask(self) -> Mapping[str, Any]:
        if self._own_numbers is not None:
            self._study.enqueue_trial({"variants": next(self._own_numbers)})
        trial = self._study.ask()
        self._asked.append(trial)
        setting: dict[str, Any] = {}
        if len(self._variants) > 1:
            setting["variants"] = trial.suggest_categorical("variants", range(len(self._variants)))
        self._suggest(trial, self._variants[setting.get("variants", 0)], setting)
        return setting

    def _suggest(self, trial: "Trial", node: Node, setting: dict[str, Any]) -> None:
        """Suggest a value for every open hole of a tree in the order of paths, and of the entries that are chosen."""
        open_holes = [(each.path, each.value) for each in holes_in(node, chosen=False) if each.value.DRAWN]
        for path, hole in sorted(open_holes, key=operator.itemgetter(0)):
            setting[path] = hole.suggested(trial, path)
            if isinstance(hole, Choice):
                self._suggest(trial, hole.options[setting[path]], setting)

    def tell(self, number: int, values: Sequence[float] | None) -> None:
        if values is None:
            self._study.tell(self._asked[number], state=self._states.FAIL)
        else:
            self._study.tell(self._asked[number], list(values))

    def prune(self, number: int) -> None:
        self._study.tell(self._asked[number], state=self._states.PRUNED)

    def leave_out(self, number: int) -> None:
        self._asked[number].set_constraint("exclude", 1.0)
        self.prune(number)
