"""The evaluation protocol: what one trained network does on the whole evaluation set.

Every input gets its share of right answers over the evaluation seeds, and the metrics of a trial are averages over
inputs and the bad tail: the 5th percentile of a success, the 95th of a loss. Votes are taken in disjoint groups of
seeds. A single-seed model is evaluated with its own r_0; it has no voters, hence no vote metrics. A task may measure
more than success and loss, or have no answers to vote on.

All that is random comes from the trial's own evaluation stream, so a trial is evaluated alike wherever it was trained.
"""

from collections.abc import Mapping
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Integer, PyTree

from sweeper.training import compilation
from sweeper.trial.contracts import Network, Voting, VotingRule
from sweeper.trial.trial_spec import TrialSpec


def evaluate(trial: TrialSpec, network: Network) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Metrics of a trained model and the outcome of every input.

    Args:
        trial: What was trained, without a lane axis.
        network: The trained network.

    Returns:
        The metrics by name, and float32 columns by name with one entry per evaluation input: `success`, `any_seed`,
        `loss` and the task's own measures and kept columns; of a task with answers `sampled` and `variance`, and of a
        model with voters `margin`, `wrong_entropy`, `part_margin` if parts are voted on one by one, and one per vote
        and group size such as `majority_5`.
    """
    program = compilation.kept(_per_input, trial, network)
    columns, kept = jax.tree.map(np.asarray, program(trial, network))
    abilities = trial.task.abilities()
    protocol = metrics(columns, abilities.measures)
    return protocol | abilities.own_metrics(protocol), columns | kept


def metric_names(trial: TrialSpec) -> list[str]:
    """Names of all metrics that `evaluate` can report of a trial; nothing is trained, compiled or run."""

    def columns(trial: TrialSpec) -> dict[str, Float[Array, " input"]]:
        return _per_input(trial, trial.model.build(trial.task, trial.keys().weights))[0]

    # No input solved and every answer wrong: then no metric is left out.
    nothing = {name: np.zeros(1) for name in jax.eval_shape(columns, trial)}
    abilities = trial.task.abilities()
    protocol = metrics(nothing, abilities.measures)
    return [*protocol, *abilities.own_metrics(protocol)]


def outcome_names(trial: TrialSpec) -> list[str]:
    """Names of all columns that `evaluate` returns of a trial's inputs; nothing is trained, compiled or run."""

    def columns(trial: TrialSpec) -> dict[str, Float[Array, " input"]]:
        per_input, kept = _per_input(trial, trial.model.build(trial.task, trial.keys().weights))
        return {**per_input, **kept}

    return list(jax.eval_shape(columns, trial))


def metrics(columns: dict[str, np.ndarray], measures: Mapping[str, Literal["low", "high"]] = {}) -> dict[str, float]:
    """Averages and bad tails of the per-input columns; `wrong_entropy` over the inputs on which some seed is wrong.

    Percentiles interpolate linearly. Beside the percentile, which jumps between 0 and 1 for a deterministic model,
    stand the share of inputs on which every seed fails and the mean over the worst 5 % of the inputs. Of the loss and
    of the task's own measures there is also the worst input, `loss_worst`: what q = inf trains.

    Args:
        columns: One entry per input.
        measures: Which of the columns are measures of the task, and whether their low or high values are bad.
    """
    bad = {"loss": "high", **measures}
    values_by_name: dict[str, float] = {}
    for name, column in columns.items():
        values = column.astype(np.float64)
        if name == "wrong_entropy":
            # Without a wrong answer there is nothing whose spread could be averaged, and no number is better than 0.
            if (wrong := columns["success"] < 1).any():
                values_by_name[name] = float(values[wrong].mean())
            continue
        values_by_name[name] = float(values.mean())
        if name in bad:
            high = bad[name] == "high"
            values_by_name[f"{name}_p95" if high else f"{name}_p5"] = float(np.percentile(values, 95 if high else 5))
            values_by_name[f"{name}_worst"] = float(values.max() if high else values.min())
        elif name != "variance":
            values_by_name[f"{name}_p5"] = float(np.percentile(values, 5))
    success = np.sort(columns["success"].astype(np.float64))
    values_by_name["success_worst5"] = float(success[: max(1, round(0.05 * len(success)))].mean())
    values_by_name["failed_inputs"] = float((success == 0).mean())
    return values_by_name


def _per_input(
    trial: TrialSpec, network: Network
) -> tuple[dict[str, Float[Array, " input"]], Mapping[str, Float[Array, " input"]]]:
    """The columns that metrics are made of, and those that are only kept."""
    task, keys = trial.task, trial.keys()
    if trial.single_seed:
        seeds = task.sample_seeds(keys.fixed_seed, 1)
    else:
        seeds = task.sample_seeds(keys.evaluation, trial.evaluation.seeds)
    inputs = task.evaluation_inputs()
    outcomes = task.outcomes(network, inputs, seeds)
    columns = {
        "success": outcomes.correct.mean(axis=1),
        "any_seed": outcomes.correct.any(axis=1).astype(jnp.float32),
        "loss": outcomes.loss.mean(axis=1),
        **{name: values.mean(axis=1) for name, values in outcomes.measures.items()},
    }
    if outcomes.sampled is not None:
        columns["sampled"] = outcomes.sampled.mean(axis=1)
    if outcomes.variance is not None:
        columns["variance"] = outcomes.variance
    voting = task.abilities().voting
    if voting is not None and outcomes.answers is not None and not trial.single_seed:
        columns |= ballot_statistics(outcomes.correct, outcomes.answers)
        if "partwise" in voting.rules.values():
            columns["part_margin"] = part_margin(voting.right_parts(inputs, outcomes.answers))
        for name, rule in voting.rules.items():
            for group in trial.evaluation.votes:
                columns[f"{name}_{group}"] = vote_success(voting, inputs, outcomes.answers, group, rule)
    return columns, outcomes.kept


def ballot_statistics(
    correct: Bool[Array, "input seed"], answers: Integer[Array, "input seed part"]
) -> dict[str, Float[Array, " input"]]:
    """How the seeds of each input are divided among whole answers: what decides whether a vote of them can win.

    Returns:
        `margin`, the share of seeds that give the most frequent right answer, less that of the most frequent wrong
        one: voting with ever more seeds ends right where it is positive (the paper's section 2). `wrong_entropy`, the
        entropy in bits of the wrong answers, 0 where none is wrong: a vote can be won by fewer right answers the more
        the wrong ones are spread. With n wrong answers the entropy is at most log2(n), so few seeds understate it.
    """
    seeds = correct.shape[1]

    def of_input(case: tuple[Bool[Array, " seed"], Integer[Array, "seed part"]]) -> dict[str, Float[Array, ""]]:
        right, cast = case
        equal = (cast[:, None] == cast).all(axis=-1).sum(axis=1)  # at least 1, as each equals itself
        wrong = (~right).sum()
        # Equal answers are equally wrong, so the mean of -log2(share) over wrong seeds is the entropy of their answers.
        entropy = jnp.where(right, 0.0, jnp.log2(wrong / equal)).sum() / jnp.maximum(wrong, 1)
        lead = jnp.where(right, equal, 0).max() - jnp.where(right, 0, equal).max()
        return {"margin": jnp.clip(lead / seeds, -1, 1), "wrong_entropy": entropy}

    return jax.lax.map(of_input, (correct, answers), batch_size=256)


def part_margin(right: Bool[Array, "input seed part"]) -> Float[Array, " input"]:
    """Share of seeds with the weakest part of their answer right, less the share with it wrong.

    A vote on each part by itself, with ever more seeds, ends right where it is positive.
    """
    # In single precision seven sevenths may be more than 1.
    return jnp.clip(2 * right.mean(axis=1) - 1, -1, 1).min(axis=-1)


def vote_success(
    voting: Voting, inputs: PyTree, answers: Integer[Array, "input seed part"], group: int, rule: VotingRule
) -> Float[Array, " input"]:
    """Share of the disjoint groups of `group` seeds whose vote is right.

    `joint` takes the most frequent whole answer, `partwise` the most frequent value of each part; among equally
    frequent ones the one cast first wins. Seeds left over after the last full group do not vote.
    """
    groups = answers.shape[1] // group

    def winners(ballots: Integer[Array, "seed part"]) -> Integer[Array, "group part"]:
        cast = ballots[: groups * group].reshape(groups, group, -1)
        agrees = cast[:, :, None] == cast[:, None]
        if rule == "joint":
            first = agrees.all(axis=-1).sum(axis=2).argmax(axis=1)
            return jnp.take_along_axis(cast, first[:, None, None], axis=1)[:, 0]
        first = agrees.sum(axis=2).argmax(axis=1)
        return jnp.take_along_axis(cast, first[:, None], axis=1)[:, 0]

    voted = jax.lax.map(winners, answers, batch_size=256)
    return voting.right(inputs, voted).mean(axis=1)
