"""The evaluation protocol: the metrics and outcomes of one network on the whole evaluation set.

Every input gets its share of right answers over the seeds r, and the metrics of a trial are averages over inputs and
bad tails: the 5th percentile of a success, the 95th of a loss. Two kinds of votes are measured: votes of disjoint
groups of seeds, as in the paper (`majority_30`), and the success of k votes estimated from all seeds (`votes_30`, see
`sweeper.learned_algorithms.voting`). A single-seed model is evaluated with its own r_0; it has no voters, and no vote
metrics. A bank of seeds r (`sweeper.learned_algorithms.seed_bank`) is evaluated as the distribution that it is: means
over seeds are expectations without an error, and nobody votes. A task may measure more than success and loss, or have
no answers to vote on.

Seeds r come from the trial's own evaluation stream, and the groups that vote are the same for all trials, so that the
evaluation of a trial does not depend on where the trial was trained.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from sweeper.learned_algorithms import voting, worst_input
from sweeper.learned_algorithms.contracts import Abilities, Network, Outcomes
from sweeper.learned_algorithms.metrics import FAILED_INPUTS, SUCCESS, estimate_of, metric_named
from sweeper.learned_algorithms.seed_bank import with_seeds
from sweeper.learned_algorithms.trial_spec import TrialSpec
from sweeper.learned_algorithms.voting import Share
from sweeper.learned_algorithms.worst_input import Finalists
from sweeper.training import compilation
from sweeper.trial import vectorisation
from sweeper.trial.contract_checks import ROUNDING, attributed, broken, check_array, check_batch
from sweeper.trial.metrics import Metric

Column = Share | Float[Array, " input"]


class Measured(NamedTuple):
    """The results of the program of an evaluation: columns by name, and the lowest loss."""

    columns: dict[str, Column]  # stored, and enter metrics; with one entry per input
    only_metrics: dict[str, Column]  # not stored, and enter metrics; they may cover only some inputs
    kept: Mapping[str, Float[Array, " input"]]  # stored, and enter no metric
    # The average over inputs of every group of seeds, by the column that is estimated from the groups: a seed is a
    # group, or some that vote
    groups: dict[str, Float[Array, "shuffle group"]]
    # Columns by the first half of the seeds alone and by the second, where seeds are drawn
    halves: dict[str, Float[Array, "half input"]]
    finalists: dict[str, Finalists]  # of the search for the worst input, by column
    of_pairs: dict[str, Float[Array, ""]]  # the task's metrics that are made of all pairs
    lowest_loss: Float[Array, ""]  # the lowest loss of all pairs


def program(trial: TrialSpec, network: Network) -> compilation.Program:
    """The program of an evaluation, which gives `Measured`."""
    return compilation.kept(_measured, trial, network)


def evaluate(trial: TrialSpec, network: Network) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Metrics by name of the network of a trial, without a lane axis, and the outcomes of every input.

    The outcomes are float32 columns by name with one entry per evaluation input: `success`, `any_seed`, `loss` and the
    task's own measures and kept columns; of a task with answers `sampled` and `variance`, and of a model with voters
    `margin`, `wrong_entropy`, `part_margin` if parts are voted on one by one, and two per vote and group size such as
    `majority_5` and `votes_5`. Outcomes that no task may have are a `ContractError`.
    """
    measured = jax.tree.map(np.asarray, program(trial, network)(trial, network))
    columns, only_metrics = _values(measured.columns), _values(measured.only_metrics)
    lowest = {"loss": measured.lowest_loss, **{name: columns[name].min() for name in _LIMITED if name in columns}}
    for name, value in lowest.items():
        if value < -ROUNDING:
            raise broken(trial.task, "outcomes", f"{value:g} as {name}", "at least 0")
    if "sampled" in columns and columns["sampled"].max() > 1 + ROUNDING:
        raise broken(trial.task, "outcomes", f"{columns['sampled'].max():g} as sampled", "at most 1")
    abilities = trial.task.abilities()
    protocol = metrics(columns | only_metrics, abilities.measures, measured.groups, measured.halves, measured.finalists)
    of_pairs = {name: float(value) for name, value in measured.of_pairs.items()}
    return protocol | of_pairs | _own(abilities, protocol), columns | measured.kept


def _own(abilities: Abilities, protocol: Mapping[str, float]) -> dict[str, float]:
    """The task's own metrics by name."""
    return {metric.name: value for metric, value in abilities.own_metrics(protocol).items()}


class Names(NamedTuple):
    """The names of what `evaluate` can return of a trial."""

    metrics: list[str]
    outcomes: list[str]


def names(trial: TrialSpec) -> Names:
    """The names in the results of a trial's evaluation; nothing is trained, compiled or run.

    An evaluation that breaks the contract of the task, or raises, is a `ContractError`.
    """
    with attributed(trial.task, "outcomes"):
        shapes = _shapes(trial)
    # With no input solved every metric exists.
    nothing = {name: np.zeros(1) for name in {**shapes.columns, **shapes.only_metrics}}
    abilities = trial.task.abilities()
    with attributed(trial.task, "abilities"):
        groups, halves = ({name: np.zeros((2, 2)) for name in some} for some in (shapes.groups, shapes.halves))
        finalists = {name: Finalists(np.zeros(2), np.zeros((2, 4))) for name in shapes.finalists}
        protocol = metrics(nothing, abilities.measures, groups, halves, finalists)
        return Names([*protocol, *shapes.of_pairs, *_own(abilities, protocol)], [*shapes.columns, *shapes.kept])


def _shapes(trial: TrialSpec) -> Measured:
    """`_measured` of an untrained network, with shapes in place of numbers."""

    def measured(trial: TrialSpec) -> Measured:
        return _measured(trial, trial.initial_network())

    with vectorisation.built_for("cpu"):  # to ask which platform this is would start JAX, also in a driver
        return jax.eval_shape(measured, trial)


def _values(columns: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: column.values() if isinstance(column, Share) else column for name, column in columns.items()}


def metrics(
    columns: Mapping[str, np.ndarray],
    measures: Sequence[Metric] = (),
    groups: Mapping[str, np.ndarray] = {},
    halves: Mapping[str, np.ndarray] = {},
    finalists: Mapping[str, Finalists] = {},
) -> dict[str, float]:
    """Averages and bad tails of the per-input columns; `wrong_entropy` over the inputs on which some seed is wrong.

    Percentiles interpolate linearly. Beside the percentile, which jumps between 0 and 1 for a deterministic model,
    stand the share of inputs on which every seed fails and the mean over the worst 5 % of the inputs. Success, losses,
    the best single seed and the task's own measures also have a metric of the worst input, such as `success_worst`, and
    `loss_worst`, which q = inf trains. The tail of the variance is its 95th percentile.

    Args:
        columns: One entry per input.
        measures: Those of the columns that the task measures itself.
        groups: For some columns the average of every group of seeds, `[shuffle, group]`; these columns get a standard
            error of the average, such as `votes_30_se`, unless its estimate is negative.
        halves: For some columns the values by each half of the seeds, `[half, input]`; these columns get the value of
            the worst input chosen by one half and judged by the other, such as `success_worst_heldout`.
        finalists: For some columns the inputs that seem worst; these columns get the value of the worst input by the
            stages of `worst_input`, and its standard error, such as `success_worst_staged`.
    """
    own = {measure.quantity: measure for measure in measures}
    with_worst = {"success", "loss", "best_seed", "best_seed_loss", *own}
    values_by_metric: dict[Metric, float] = {}
    for name, column in columns.items():
        metric, values = metric_named(name, own), column.astype(np.float64)
        if name == "wrong_entropy":
            # Without a wrong answer there is no entropy to average, and no number is better than 0.
            if (wrong := columns["success"] < 1).any():
                values_by_metric[metric] = float(values[wrong].mean())
            continue
        made = [metric, metric.tail]
        if name in with_worst:
            made.append(metric._replace(statistic="worst"))
        if metric == SUCCESS:
            made.append(SUCCESS._replace(statistic="worst5"))
        values_by_metric |= {each: each.over_inputs(values) for each in made}
        if metric == SUCCESS:
            values_by_metric[FAILED_INPUTS] = float((values == 0).mean())
        if name in halves:
            held_out = metric._replace(statistic="heldout")
            values_by_metric[held_out] = held_out.held_out(halves[name].astype(np.float64))
        if name in finalists:
            staged = metric._replace(statistic="staged")
            values_by_metric[staged], error = worst_input.worst(metric, finalists[name])
            values_by_metric[Metric(staged.name, "error")] = error
        if name in groups and (error := voting.standard_error(groups[name])) is not None:
            values_by_metric[metric._replace(statistic="error")] = error
    return {metric.name: value for metric, value in values_by_metric.items()}


def _measured(trial: TrialSpec, network: Network) -> Measured:
    task, keys = trial.task, trial.keys()
    if trial.single_seed:
        seeds = task.sample_seeds(keys.fixed_seed, 1)
    elif trial.evaluation.exhaustive:
        every = task.abilities().all_seeds
        assert every is not None  # or there is no such trial
        seeds = jax.tree.map(jnp.asarray, every())
    else:
        seeds = task.sample_seeds(keys.evaluation, trial.evaluation.seeds)
    network, of_trial = with_seeds(network, seeds)
    seeds, is_bank = of_trial.values, of_trial.probabilities is not None
    inputs = task.evaluation_inputs()
    count = check_batch(task, "evaluation_inputs", inputs)
    outcomes = task.outcomes(network, inputs, seeds)
    check_outcomes(trial, outcomes, count, jax.tree.leaves(seeds)[0].shape[0])
    of_pairs = {"loss": outcomes.loss, **outcomes.measures}
    columns: dict[str, Column] = {
        "success": of_trial.share(outcomes.correct),
        "any_seed": Share.of_seeds(outcomes.correct.any(axis=1, keepdims=True)),
        **{name: of_trial.mean(values) for name, values in of_pairs.items()},
    }
    if outcomes.sampled is not None:
        columns["sampled"] = of_trial.mean(outcomes.sampled)
    if outcomes.variance is not None and not is_bank:  # the task counts all seeds alike
        columns["variance"] = outcomes.variance
    measured = Measured(columns, {}, outcomes.kept, {}, {}, {}, {}, outcomes.loss.min())
    if not trial.single_seed:
        half = trial.evaluation.seeds // 2
        if half and not trial.evaluation.exhaustive and not is_bank:
            for name, values in {"success": outcomes.correct, **of_pairs}.items():
                measured.groups[name] = values.mean(axis=0)[None]
                measured.halves[name] = jnp.stack([values[:, :half].mean(axis=1), values[:, half:].mean(axis=1)])
        if trial.evaluation.worst_seeds is not None:
            values = worst_input.tail_of(task, outcomes).mean(axis=1)
            found = worst_input.finalists(trial, network, inputs, values, trial.evaluation.worst_seeds)
            measured.finalists[task.abilities().tail] = found
        measured.only_metrics.update(best_seed(outcomes.correct, outcomes.loss))
        if not is_bank:
            _add_votes(measured, trial, inputs, outcomes)
            for metric, value in task.abilities().pair_metrics(inputs, outcomes).items():
                check_array(task, "abilities", f"pair_metrics[{metric.name!r}]", value, np.floating)
                measured.of_pairs[metric.name] = value
    return measured


_LIMITED = ("sampled", "variance")
"""Columns that are not negative, as the loss."""


def check_outcomes(trial: TrialSpec, outcomes: Any, inputs: int, seeds: int) -> None:
    """Refuse outcomes whose types or shapes are not those of `contracts.Outcomes`, while the program is traced."""
    if not isinstance(outcomes, Outcomes):
        raise broken(trial.task, "outcomes", f"type {type(outcomes).__name__}", "contracts.Outcomes")
    of_input: dict[str, int | None] = {"input": inputs}
    of_pair = of_input | {"seed": seeds}
    checks: list[tuple[str, Any, type, dict[str, int | None]]] = [
        ("correct", outcomes.correct, np.bool_, of_pair),
        ("loss", outcomes.loss, np.floating, of_pair),
        ("sampled", outcomes.sampled, np.floating, of_pair),
        ("answers", outcomes.answers, np.integer, of_pair | {"part": None}),
        ("variance", outcomes.variance, np.floating, of_input),
        *((f"measures[{name!r}]", values, np.number, of_pair) for name, values in outcomes.measures.items()),
        *((f"kept[{name!r}]", values, np.number, of_input) for name, values in outcomes.kept.items()),
    ]
    for what, value, kind, axes in checks:
        if value is not None or what in ("correct", "loss"):
            check_array(trial.task, "outcomes", what, value, kind, **axes)
    quantities = trial.task.abilities().quantities
    if outcomes.measures.keys() != quantities.keys():
        known = ", ".join(quantities) or "none"
        gives = ", ".join(outcomes.measures) or "none"
        raise broken(trial.task, "outcomes", f"the measures {gives}", f"those of abilities: {known}")


def _add_votes(measured: Measured, trial: TrialSpec, inputs: Any, outcomes: Outcomes) -> None:
    """Add the columns of votes, for a task with answers."""
    rules = trial.task.abilities().voting
    if rules is None or outcomes.answers is None:
        return
    seeds, named = trial.evaluation.seeds, trial.evaluation.votes
    sizes = voting.sizes_of(seeds, named)
    groups = voting.random_groups(seeds, sizes)
    ballots = voting.count_ballots(outcomes.correct, outcomes.answers, groups)
    estimates = {"joint": ballots.estimates}
    measured.columns.update(margin=ballots.margin, wrong_entropy=ballots.wrong_entropy)
    if "partwise" in rules.rules.values():
        right = rules.right_parts(inputs, outcomes.answers)
        measured.columns["part_margin"] = voting.part_margin(right)
        estimates["partwise"] = voting.partwise_estimates(right, groups)
    for name, rule in rules.rules.items():
        for group in named:
            votes = voting.vote_success(rules, inputs, outcomes.answers, group, rule)
            measured.columns[Metric(name, number=group).name] = votes
        for size in sizes:
            estimate = voting.single_votes(outcomes.correct) if size == 1 else estimates[rule][size]
            column = Metric(estimate_of(name), number=size).name
            (measured.columns if size in named else measured.only_metrics)[column] = estimate.by_input
            measured.groups[column] = estimate.by_group


def best_seed(
    correct: Bool[Array, "input seed"], loss: Float[Array, "input seed"]
) -> dict[str, Share | Float[Array, " judged"]]:
    """Success and loss of the best seed r, a deterministic algorithm that comes from a randomised training.

    By Yao's principle the best of the algorithms that fixed seeds make is on average over the inputs at least as good
    as the randomised model; on the worst input it may be far worse. The best seed is right on the most inputs; of
    several such seeds the best has the lowest average loss. It is chosen on a random half of the inputs, the same half
    for all trials of a task, and judged on the other half: on the inputs of the choice the best of many seeds looks
    better than it is.

    The columns are `best_seed`, 1 or 0 for each judging input, and `best_seed_loss`; none of fewer than two inputs.
    """
    inputs = len(correct)
    if inputs < 2:
        return {}
    judges = np.sort(np.random.default_rng(0).permutation(inputs)[inputs // 2 :])
    chooses = ~np.isin(np.arange(inputs), judges)[:, None]
    right = (correct & chooses).sum(axis=0)
    cost = jnp.where(chooses, loss, 0).sum(axis=0)
    seed = jnp.argmin(jnp.where(right == right.max(), cost, jnp.inf))
    return {
        "best_seed": Share(correct[:, seed][judges].astype(jnp.int32), jnp.asarray(1)),
        "best_seed_loss": loss[:, seed][judges],
    }
