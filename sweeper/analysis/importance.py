"""Which entries decided how good the settings of a search are, by PED-ANOVA.

PED-ANOVA (Watanabe, Bansal and Hutter, arXiv 2304.10255) measures how much the values of an entry among the best tenth
of the settings differ from its values among all settings. It is Optuna's only evaluator that needs no further library.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sweeper.analysis.ranking import Ranking
from sweeper.analysis.results import is_number
from sweeper.analysis.table import PER_CENT, VALUES, Column, Table, value_text
from sweeper.messages import counted
from sweeper.space.holes import Hole
from sweeper.space.sweep_spec import SweepSpec
from sweeper.space.yaml_tree import Node
from sweeper.trial.entry_names import column_name, varying
from sweeper.trial.metrics import equal_but_rounding
from sweeper.trial.trial_spec import Baseline

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

LEAST_SETTINGS = 10  # with fewer settings the best tenth is less than one setting


def logarithmic_entries(space: SweepSpec) -> set[str]:
    """The entries that the search draws on a logarithmic scale, by dotted path."""
    return {path for variant in space.variants for path in _logarithmic(variant, "")}


def _logarithmic(node: Node, path: str) -> Iterator[str]:
    if isinstance(node.value, Hole):
        if node.value.LOGARITHMIC:
            yield path
        for option in node.value.probed:
            yield from _logarithmic(option, path)
    elif isinstance(node.value, dict):
        for key, entry in node.value.items():
            yield from _logarithmic(entry, f"{path}.{key}".lstrip("."))


def importances(ranked: Ranking, logarithmic: set[str]) -> dict[str, float]:
    """The share of every entry that differs between at least two ranked settings, the largest first; they add up to 1.

    `logarithmic` has the entries whose scale is logarithmic.
    """
    import optuna  # a second of import

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    records = [used_entries(each.setting.entries) for each in ranked.ranked]
    paths = tried_entries(records)
    distributions = {path: _distribution(values_of(records, path), path in logarithmic) for path in paths}
    study = optuna.create_study(direction="maximize" if ranked.goal.mode == "max" else "minimize")
    for each, record in zip(ranked.ranked, records, strict=True):
        params = {path: _parameter(record[path]) for path in paths if path in record}
        drawn_from = {path: distributions[path] for path in params}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=drawn_from, value=each.mean.mean))
    return optuna.importance.get_param_importances(study, evaluator=optuna.importance.PedAnovaImportanceEvaluator())


def used_entries(record: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that the baseline uses; an ignored entry has one fixed value in every trial."""
    baseline = Baseline(record["baseline"])
    entries_of_objective = {path for path in record if path.startswith("objective.") and path != "objective.m"}
    ignored = set() if baseline.uses_objective else entries_of_objective
    ignored |= set() if baseline.fresh_seeds else {"objective.m"}
    return {path: value for path, value in record.items() if path not in ignored}


def _parameter(value: Any) -> int | float | str:
    return value if isinstance(value, int | float) else value_text(value)


def tried_entries(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """The entries of which the settings have more than one value."""
    return [path for path in varying(records) if len(values_of(records, path)) > 1]


def values_of(records: Sequence[Mapping[str, Any]], path: str) -> list[Any]:
    """The different values of an entry, sorted where they are numbers."""
    values = list(dict.fromkeys(record[path] for record in records if path in record))
    return sorted(values) if all(map(is_number, values)) else values


def _distribution(values: list[Any], logarithmic: bool) -> "BaseDistribution":
    """The distribution from which the values were drawn, inferred from the values."""
    from optuna import distributions

    if not all(map(is_number, values)) or len(values) <= 2:
        return distributions.CategoricalDistribution([_parameter(value) for value in values])
    low, high = values[0], values[-1]
    if all(isinstance(value, int) for value in values):
        return distributions.IntDistribution(low, high, log=logarithmic and low > 0)
    return distributions.FloatDistribution(float(low), float(high), log=logarithmic and low > 0)


def importance_table(sweep: str, ranked: Ranking, space: SweepSpec) -> Table:
    """The entries of a search, the most important first, with the values tried and the best setting's."""
    title = f"What decides {ranked.goal.metric} in {sweep}"
    count = len(ranked.ranked)
    if count < LEAST_SETTINGS:
        return Table(
            title, (), (), f"{counted(count, 'setting')} with all seeds are too few; it takes {LEAST_SETTINGS}"
        )
    if equal_but_rounding(ranked.ranked[0].mean.mean, ranked.ranked[-1].mean.mean):
        return Table(title, (), (), f"{counted(count, 'setting')} have the same {ranked.goal.metric}")
    records = [used_entries(each.setting.entries) for each in ranked.ranked]
    shares = importances(ranked, logarithmic_entries(space))
    rows = tuple(
        (column_name(path), share, values_of(records, path), values_of(records[:1], path))
        for path, share in shares.items()
    )
    columns = (Column("entry"), Column("importance", PER_CENT), Column("tried", VALUES), Column("best setting", VALUES))
    note = (
        f"PED-ANOVA of {count:,} settings: how unlike the values of the best tenth of them are to those of all, "
        "as shares of all entries. With few settings the shares are rough."
    )
    return Table(title, columns, rows, note)
