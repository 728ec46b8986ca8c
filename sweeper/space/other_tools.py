"""Words of other tools, and what they are here.

A space is never read in another tool's language. Where it is refused, the message says what this language writes
instead, and names the page on holes. The words are those of SEML, W&B, Hydra, Optuna, Ray Tune, Hyperopt, NNI,
Determined, Guild, DVC and numpy.
"""

import re
from collections.abc import Collection
from typing import Any

PAGE = "docs/search-space.md#holes"

_THERE = {
    "weights: [1, 2, 3] beside {choice: […]}": "probabilities, weights, probs, p",
    "{choice: […]}": "values, options, choices, vals, categorical, grid, choice, choice_with_index",
    "{linspace: […]} or {logspace: […]}": "num, count, base",
    "{uniform: [a, b], step: s}": "q, quantization, quantum, quniform, discrete_uniform",
    "{uniform: [a, b]}, {log_uniform: [a, b]} or {int: [a, b]}": "min, max, low, high, lower, upper, minval, maxval, "
    "start, stop, end, range, interval, uniform, float, double",
    "{log_uniform: [a, b]}, or {int: [a, b], log: true}": "log, log_float, log_int, log_uniform, log_uniform_values, "
    "q_log_uniform, log_randint",
    "{int: [a, b]}, which has both ends": "int, randint, int_uniform, qrandint",
    "{normal: [m, s]}": "mu, sigma, mean, std, normal, randn, qnormal",
    "{log_normal: [m, s]}": "log_normal",
    "{linspace: [a, b, n]}": "linspace",
    "{logspace: [a, b, n]}, with the ends themselves": "logspace, geomspace",
    "{formula: 4 * trial.model.width}": "formula, eval, expr, expression, lambda, sample_from, of",
    "a mapping with the key of a hole, such as {uniform: [a, b]}": "distribution, type, _type",
    "the value alone": "value, val, const",
    "a hole in place of each value under trial": "parameters, params, hyperparameters, search_space, param_space, "
    "fixed",
    "exclude: [trial.model.width > 64]": "constraints, conditions",
    "variants: [{…}, {…}]": "zip, paired, together",
    "resources": "seml, slurm",
    "search.method": "algorithm, algo, search_alg, strategy, method",
    "search: {method: optuna, sampler: {name: …}}": "tpe, gp, cma_es, nsga2, qmc",
    "search.trials": "trials, n_trials, num_samples, samples, max_trials, num_trials, run_cap",
    "search.metric": "metric",
    "search.mode": "goal, direction, directions, mode",
    "search.early_stopping": "asha, pruner, scheduler, early_terminate",
    "optuna": "bayes, bayesian, bo, bohb, hyperopt",
    "grid": "exhaustive, basic_variant, product",
    "random": "sample",
    "halving": "successive_halving, hyperband, sh",
    "nsga2": "nsgaii, genetic",
    "qmc": "sobol, halton, quasi_random",
    "min": "minimize, minimise, minimum",
    "max": "maximize, maximise, maximum",
}
"""What is written here, and the words of other tools for it."""


def _folded(word: Any) -> str:
    """A word in small letters and digits, without what Optuna and Ray Tune put before or behind it."""
    letters = re.sub(r"[^a-z0-9]", "", word.lower()) if isinstance(word, str) else ""
    return re.sub(r"^suggest(?=.)|(?<=.)(sampler|pruner|scheduler|distribution|search)$", "", letters)


_HERE = {_folded(word): here for here, words in _THERE.items() for word in words.split(", ")}
"""What is written here, by the folded word of another tool."""


def name_for(word: Any, known: Collection[str]) -> str | None:
    """The known name that another tool's word means."""
    folded = _folded(word)
    return next((name for name in known if folded and (folded == _folded(name) or _HERE.get(folded) == name)), None)


def hint(written: Any) -> str:
    """The end of a message on a key, a mapping or a call such as `tune.uniform(1, 2)`; empty if no tool writes so.

    A key is given as a mapping that has this key.
    """
    if isinstance(written, dict):
        words = set(map(_folded, written))
    elif isinstance(written, str) and (call := re.match(r"\W*(?:\w+\.)*(\w+)\s*[(\[]|\$(\{)", written)):
        words = {_folded(call[1]) if call[1] else "formula"}
    else:
        return ""
    here = next((here for word, here in _HERE.items() if word in words), None)
    return f"; write {here} ({PAGE})" if here else ""
