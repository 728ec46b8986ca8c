"""`python -m docs.mixtures STORE FIGURE.png`: random choices among trained networks, at equal CPU seconds.

The trivial randomised algorithm draws one of K deterministic networks A_{r0} for each input. Here it stands beside one
A^q_R and beside draws among several: a table is printed, and a figure written. The store has the sweeps
`mixtures_coloring` and `mixtures_recall`, or one of them; answers are computed from the networks of their trials.

- **Shares** are equal, or the best: those with the greatest success of the worst input, by a linear programme. The
  inputs of colouring are all there are. Those of recall are a sample, so one half of them chooses the shares and the
  other half judges them, and the other way round.
- **The worst input** of networks with seeds r is chosen by half of the seeds and judged by the other half, as
  `success_worst_heldout` is, and so looks too good. That of a mixture of deterministic networks is exact.
- **Votes** are those of k draws of a network and a seed r, as `majority_<k>` has them, on 2,000 inputs.
- **Errors** are over trainings. A number of a mixture of K is the mean over choices of K of the n trainings, and its
  error the jackknife's: how that mean moves if one training is left out. For K = n it is the bootstrap's: how the
  number moves if n trainings are drawn from the n with replacement. The success on bad inputs moves in steps of 1 / K,
  which leaving one out may not show. Votes have the jackknife's, from the mixtures of n - 1.
- **CPU seconds** are those of training, without compilation and evaluation. Only rows of the newest commit say what a
  step costs, so that one machine has measured it for both.
"""

import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.optimize import linprog

import sweeper
from sweeper.analysis.figures import DOTS_PER_INCH, style
from sweeper.analysis.table import markdown
from sweeper.learned_algorithms import voting
from sweeper.learned_algorithms.contracts import Task
from sweeper.panels.axes import Color
from sweeper.store.store import Store
from sweeper.tables import titled
from sweeper.trial.metrics import Metric
from tasks import coloring, recall

SUCCESS = Metric("success")
STATISTICS = {
    "success": SUCCESS, "tail": SUCCESS.tail, "worst 5 %": SUCCESS._replace(statistic="worst5"),
    "worst input": SUCCESS._replace(statistic="heldout"),
}  # fmt: skip

SIZES = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20)
CHOICES, PROGRAMMES = 200, 20
"""At most so many choices of K trainings with equal shares, and with the best shares or votes."""

SEEDS = 300
"""Seeds r of a network that takes any, or permutations of one that does not."""

DETERMINISTIC, PERMUTED, LEARNED = "A_r0", "permuted", "A^q_R"
LABELS = {DETERMINISTIC: "$A_{r_0}$", PERMUTED: "$A_{r_0}$ permuted", LEARNED: "$A^q_R$"}
COLORS: dict[str, Color] = {DETERMINISTIC: "red", PERMUTED: "orange", LEARNED: "blue"}

DRAWS, VOTES, VOTING_INPUTS = 1500, (5, 30), 2000


class Group(NamedTuple):
    """Trainings that differ in the training seed alone, and their answers to the evaluation inputs."""

    name: str
    task: Task
    seconds: float  # of CPU, for one training
    halves: np.ndarray  # success by each half of the seeds r, `[training, half, input]`; of a single seed twice it
    answers: np.ndarray  # to the inputs of votes, integers `[training, input, seed, part]`
    inputs: Any  # of votes


def statistics(halves: np.ndarray) -> np.ndarray:
    """`STATISTICS` of a success by halves of the seeds r, `[half, input]`."""
    halves = halves.astype(np.float64)
    success = halves.mean(axis=0)
    return np.array([
        each.held_out(halves) if each.statistic == "heldout" else each.over_inputs(success)
        for each in STATISTICS.values()
    ])  # fmt: skip


def best_shares(success: np.ndarray) -> np.ndarray:
    """The shares of networks with the greatest success of the worst input, of `success[input, network]`.

    The linear programme begins with the inputs that are worst at equal shares. Those that are worse than it knows enter
    until there are none.
    """
    count = success.shape[1]
    shares, least, known = np.full(count, 1 / count), np.inf, np.zeros(len(success), bool)
    while (values := success @ shares).min() < least - 1e-7:
        known[np.argsort(values)[:200]] = True
        rows = np.unique(success[known], axis=0)
        # Of the shares and the least success of an input the latter is made large.
        found = linprog(
            np.r_[np.zeros(count), -1], A_ub=np.c_[-rows, np.ones(len(rows))], b_ub=np.zeros(len(rows)),
            A_eq=np.r_[np.ones(count), 0][None], b_eq=[1], bounds=[(0, 1)] * (count + 1),
        )  # fmt: skip
        shares, least = found.x[:-1], found.x[-1]
    return shares


def over_trainings(
    statistic: Callable[[list[int]], np.ndarray], count: int, size: int, most: int, resampled: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Mean of a statistic over choices of `size` of `count` trainings, at most so many, and its standard error.

    The error is the jackknife's, of all trainings the bootstrap's if `resampled`: then the statistic takes a training
    several times. The error of one training is not a number.
    """
    if resampled and size == count > 1:
        return statistic(list(range(count))), _resampled_error(statistic, count, most)
    drawn = min(size, count - 1)
    choices = [list(chosen) for chosen in _choices(count, drawn, most)]
    values = np.array([statistic(chosen) for chosen in choices if chosen])
    mean = statistic(list(range(count))) if size == count else values.mean(axis=0)
    if not drawn:
        return mean, np.full_like(mean, np.nan)
    without = (values[[left_out not in chosen for chosen in choices]] for left_out in range(count))
    means = np.array([some.mean(axis=0) for some in without if len(some)])
    return mean, np.sqrt((count - 1) * ((means - means.mean(axis=0)) ** 2).mean(axis=0))


def _resampled_error(statistic: Callable[[list[int]], np.ndarray], count: int, times: int) -> np.ndarray:
    random = np.random.default_rng(0)
    values = [statistic(random.integers(count, size=count).tolist()) for _ in range(times)]
    return np.std(values, axis=0) * math.sqrt(count / (count - 1))


def _choices(count: int, size: int, most: int) -> Iterator[Sequence[int]]:
    if math.comb(count, size) <= max(most, count):
        return itertools.combinations(range(count), size)
    random = np.random.default_rng(0)
    return (random.choice(count, size, replace=False).tolist() for _ in range(most))


def measured(group: Group, sizes: Sequence[int], every_input: bool) -> Iterator[dict[str, Any]]:
    """A row for each size of a mixture: of every statistic the mean over mixtures and its error.

    Mixtures of networks with permuted names would gain little, so there are none.
    """
    halves, count = group.halves, len(group.halves)
    success = halves.mean(axis=1).T  # [input, training]
    if every_input:
        sides = [(np.unique(success, axis=0), slice(None))]
    else:
        first, second = np.array_split(np.random.default_rng(0).permutation(len(success)), 2)
        sides = [(success[first], second), (success[second], first)]

    def equal(chosen: list[int]) -> np.ndarray:
        return statistics(halves[chosen].mean(axis=0))

    def best(chosen: list[int]) -> np.ndarray:
        shares = [best_shares(choosing[:, chosen]) for choosing, _ in sides]
        return np.mean([
            statistics(np.tensordot(share, halves[chosen][..., judging], 1))
            for share, (_, judging) in zip(shares, sides, strict=True)
        ], axis=0)  # fmt: skip

    voted = _votes(group)
    for size in sorted({size for size in {*sizes, *SIZES} if size <= (1 if group.name == PERMUTED else count)}):
        row = {"mixture of": group.name, "K": size, "CPU seconds": size * group.seconds}
        for prefix, names, statistic, most in (
            ("", STATISTICS, equal, CHOICES), ("best shares: ", STATISTICS, best, PROGRAMMES),
            ("", [f"{votes} votes" for votes in VOTES], voted, PROGRAMMES),
        ):  # fmt: skip
            # Votes count a training once, however often it is drawn.
            mean, error = over_trainings(statistic, count, size, most, resampled=statistic is not voted)
            row |= {prefix + name: pair for name, pair in zip(names, zip(mean, error, strict=True), strict=True)}
        yield row


def _votes(group: Group) -> Callable[[list[int]], np.ndarray]:
    """The success of `VOTES` draws with equal shares from some trainings of the group and their seeds r."""
    rules = group.task.abilities().voting
    assert rules is not None
    rule = next(iter(rules.rules.values()))
    random = np.random.default_rng(0)
    # A draw takes the first training of its own order that may be drawn. So choices that share most trainings share
    # most draws, or their differences would be noise.
    orders = random.permuted(np.tile(np.arange(len(group.answers)), (DRAWS, 1)), axis=1)
    seeds = random.integers(group.answers.shape[2], size=DRAWS)

    @jax.jit
    def success(answers: Any) -> list[Any]:
        return [voting.vote_success(rules, group.inputs, answers, size, rule).amount for size in VOTES]

    def of_mixture(chosen: list[int]) -> np.ndarray:
        drawn = orders[np.arange(DRAWS), np.isin(orders, chosen).argmax(axis=1)]
        won = success(np.moveaxis(group.answers[drawn, :, seeds], 0, 1))
        return np.array([np.mean(amount) / (DRAWS // size) for amount, size in zip(won, VOTES, strict=True)])

    return of_mixture


# From the store to the table and the figure


def rows(store: Store) -> Iterator[dict[str, Any]]:
    """The rows of all settings; `shown` marks those of the table.

    These are as many deterministic trainings as one A^q_R costs, all of them, one with permuted names, one A^q_R, and
    as many of these as all deterministic ones cost.
    """
    recorded = {record.name for record in store.sweeps()}
    for sweep, varied, label in (
        ("mixtures_coloring", "q", "q = {:g}"),
        ("mixtures_recall", "task_keys", "N = {:g}"),
    ):
        if sweep not in recorded:
            continue
        trials = sweeper.results(sweep, store.url)
        for value, of_setting in trials[trials.status == "finished"].groupby(varied):
            groups = _groups(of_setting, store)
            most, learned = len(groups[DETERMINISTIC].halves), len(groups[LEARNED].halves)
            ratio = groups[LEARNED].seconds / groups[DETERMINISTIC].seconds
            shown = {
                DETERMINISTIC: {min(most, max(1, int(ratio))), most},
                PERMUTED: {1},
                LEARNED: {1, min(learned, max(1, int(most / ratio)))},
            }
            for group in groups.values():
                for row in measured(group, sorted(shown[group.name]), every_input=varied == "q"):
                    yield {"task": label.format(value), **row, "shown": row["K"] in shown[group.name]}


def _groups(trials: pd.DataFrame, store: Store) -> dict[str, Group]:
    newest = trials.sort_values("finished").commit.iloc[-1]
    groups = {}
    for name, baseline in ((DETERMINISTIC, "Aq_r0"), (PERMUTED, "Aq_r0"), (LEARNED, "Aq_R")):
        part = trials[trials.baseline == baseline]
        timed, longest = part[part.commit == newest], part[part.steps == part.steps.max()]
        training = timed.train_seconds / (timed.train_seconds + timed.compile_seconds + timed.evaluation_seconds)
        seconds = (timed.cpu_seconds * training).sum() / timed.steps.sum() * longest.steps.iloc[0]
        loaded: list[Any] = [sweeper.load(trial, store.url) for trial in longest.trial_id]
        task = loaded[0].trial.task
        inputs = task.evaluation_inputs()
        voters = np.random.default_rng(0).permutation(len(jax.tree.leaves(inputs)[0]))[:VOTING_INPUTS]
        votes = jax.tree.map(lambda leaf, voters=voters: leaf[voters], inputs)
        # With other names of its vertices a cycle is any cycle, so that each has the average of all.
        average = name == PERMUTED and isinstance(task, coloring.Task)
        asked = _renamed(votes if average else inputs) if name == PERMUTED else inputs
        halves, answers = [], []
        for one in loaded:
            keys = one.trial.keys()
            seeds = task.sample_seeds(*((keys.evaluation, SEEDS) if name == LEARNED else (keys.fixed_seed, 1)))
            right, given = map(np.asarray, _outcomes(task, one.network, asked, seeds))
            if name == PERMUTED:
                right, given = (np.moveaxis(each.reshape(SEEDS, -1, *each.shape[2:]), 0, 1) for each in (right, given))
            if average:
                right = np.full((1, 1), np.mean(_outcomes(task, one.network, inputs, seeds)[0]))
            middle = right.shape[1] // 2
            cuts = (right[:, :middle], right[:, middle:]) if middle else (right, right)
            halves.append([cut.mean(axis=1, dtype=np.float32) for cut in cuts])
            answers.append(given if average else given[voters])
        groups[name] = Group(name, task, seconds, np.array(halves), np.array(answers), votes)
    return groups


@functools.partial(jax.jit, static_argnums=0)
def _outcomes(task: Task, network: Any, inputs: Any, seeds: Any) -> tuple[Any, Any]:
    outcomes = task.outcomes(network, inputs, seeds)
    return outcomes.correct, outcomes.answers


def _renamed(inputs: Any) -> Any:
    """The inputs `SEEDS` times, each time with other names of all keys or vertices, by a random permutation."""
    values = inputs.values if isinstance(inputs, recall.Inputs) else inputs
    names = np.random.default_rng(0).permuted(np.tile(np.arange(values.shape[1]), (SEEDS, 1)), axis=1)
    if isinstance(inputs, recall.Inputs):
        permuted = np.asarray(values)[:, np.argsort(names, axis=1)]  # [input, permutation, key]
        values = np.moveaxis(permuted, 1, 0).reshape(-1, values.shape[1])
        return recall.Inputs(jnp.asarray(values), jnp.asarray(names[:, inputs.query].reshape(-1)))
    return jnp.asarray(names[:, inputs].reshape(-1, values.shape[1]))


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows that are shown, in per cent with errors."""
    of_cells = {
        "success": "success", "tail": "tail", "worst 5 %": "worst 5 %", "worst input": "worst input",
        "best shares: worst input": "with best shares", "5 votes": "5 votes", "30 votes": "30 votes",
    }  # fmt: skip
    shown = frame[frame.shown]
    mixtures = shown.K.astype(str) + " " + shown["mixture of"]
    cells = {head: [_cell(*pair) for pair in shown[name]] for name, head in of_cells.items()}
    seconds = shown["CPU seconds"].round().astype(int)
    return pd.DataFrame({"task": shown.task, "K": mixtures, "CPU s": seconds, **cells})


def _cell(mean: float, error: float) -> str:
    return f"{100 * mean:.1f}" + ("" if math.isnan(error) else f" ± {100 * error:.1f}")


def figure(frame: pd.DataFrame) -> Figure:
    """Bad inputs above, averages and votes below, against the CPU seconds of all trainings; bands are two errors."""
    tasks = list(dict.fromkeys(frame.task))
    made = Figure(figsize=(2.1 * len(tasks) + 1.9, 4.4), layout="constrained")
    axes = made.subplots(2, len(tasks), sharex="col", sharey="row", squeeze=False)
    shades = style.PALETTES["paper"].shades
    curves = (
        ("tail", 0, "-", "o"), ("worst input", 0, ":", "v"), ("best shares: worst input", 0, "--", "s"),
        ("success", 1, "-", "o"), ("30 votes", 1, "-.", "^"),
    )  # fmt: skip
    for task, name in frame[["task", "mixture of"]].drop_duplicates().itertuples(index=False):
        part = frame[(frame.task == task) & (frame["mixture of"] == name)]
        color = shades[COLORS[name]]
        x = part["CPU seconds"]
        for metric, place, line, marker in curves:
            if name == PERMUTED and metric.startswith("best"):
                continue
            axis = axes[place, tasks.index(task)]
            mean, error = 100 * np.array([*part[metric]], float).T
            label = f"{LABELS[name]}: {metric.replace(': ', ', ')}"
            axis.plot(x, mean, line, color=color, marker=marker, markersize=2.5, label=label)
            band = np.clip([mean - 2 * error, mean + 2 * error], 0, 100)
            axis.fill_between(x, *band, color=color, alpha=0.1, linewidth=0)
    for task, (upper, lower) in zip(tasks, axes.T, strict=True):
        upper.set(title=f"{'colouring' if task[0] == 'q' else 'recall'}, {task}", xscale="log")
        lower.set(xlabel="CPU seconds")
    axes[0, 0].set_ylabel("Success on bad inputs (%)")
    axes[1, 0].set_ylabel("Success (%)")
    for line in axes:
        line[-1].legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
    return made


if __name__ == "__main__":
    everything = pd.DataFrame(rows(Store.existing(sys.argv[1])))
    print(markdown(titled(table(everything))))
    with style.settings():
        figure(everything).savefig(Path(sys.argv[2]), dpi=DOTS_PER_INCH)
