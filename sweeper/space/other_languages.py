"""What other tools write for an open value, in the words of this language, with the author's own values.

Nothing is read in another tool's language. Where a space is refused, the message asks here what the author may have
meant. The words are those of SEML, W&B, Hydra, Optuna, Ray Tune, Determined, NNI, Guild, DVC and numpy.
"""

import itertools
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sweeper.space.problems import Refused
from sweeper.space.yaml_tree import Node, document_tree, is_number, on_one_line, plain
from sweeper.trial.trial import leaf_values

_MOST = 200
"""Longest text of values in a message."""


def advice(node: Node) -> str | None:
    """How this language writes a value that another tool's language seems to have; None for any other value."""
    value = plain(node)
    if isinstance(value, str) and "[" not in node.path:  # a path of Hydra's may begin beside the value
        value = re.sub(r"^\$\{\.(?=\w)", f"${{{node.path.rpartition('.')[0]}.", value)
    words = _words(value)
    return f"here this is written {words}" if words else None


def beside(kind: str, node: Node, key: Any) -> str | None:
    """What to write for a hole with another tool's key beside it."""
    values = plain(node)
    match kind, key:
        case "choice", "probabilities" | "weights" | "probs" | "p":
            return f"the entries of a choice are equally likely: leave '{key}' out, or nest choices"
        case (("uniform" | "int"), "q" | "quantum" | "quantization"):
            return f"a step is written {_flow({kind: values[kind], 'step': values[key]})}"
        case "uniform", "log":
            return f"a logarithmic range is written {_flow({'log_uniform': values[kind]})}"
        case (("log_uniform" | "log_normal" | "normal"), "step" | "q"):
            return f"'{kind}' has no step; for numbers at equal distances write {{linspace: […]}} or {{logspace: […]}}"
        case (("uniform" | "log_uniform" | "int"), "num" | "count" | "n" | "samples"):
            spaced = "logspace" if kind == "log_uniform" else "linspace"
            if isinstance(values[kind], list):
                return f"a number of values is written {_flow({spaced: [*values[kind], values[key]]})}"
    return None


def listed(content: Node, kind: str) -> str:
    """The end of a message on a hole that holds no list."""
    value = plain(content)
    numbers = _numbers(value) if isinstance(value, dict) else None
    if numbers and kind not in ("choice", "each"):
        words = _hole("geomspace" if kind == "logspace" else kind, numbers)
    else:
        words = _words(value)
    if words:
        return f"; write {words}"
    if isinstance(value, str) and kind in ("choice", "each") and "," in value and not re.search(r"[(\[{]", value):
        return f"; write {{{kind}: {_flow([part.strip() for part in value.split(',')])}}}"
    return f"; write {{{kind}: {_flow(numbers[:2])}}}" if numbers else ""


def key(name: Any, value: Node, path: str) -> str | None:
    """What to write for a key that a record does not know; `path` is that of the record, empty at the top."""
    if not path:
        if words := _TOP.get(name):
            return words
        if name == "metric" and (words := metric(value)):
            return words
    if path in ("", "search") and (instead := _SEARCH.get(_folded(name))):
        return f"is written search: {_flow(_searched(instead, plain(value)))}"
    if isinstance(name, str) and re.fullmatch(r"\w+(\.\w+)+", name):
        first, *rest = name.split(".")
        nested: Any = plain(value)
        for part in reversed(rest):
            nested = {part: nested}
        return f"a key has no dots: write {first}: {_flow(nested)}"
    if name in ("zip", "paired", "together"):
        return "values that change together are variants: a list of partial trials, variants: [{…}, {…}]"
    return None


def metric(node: Node) -> str | None:
    """What to write for a metric, or a list of metrics, that is a mapping with its name and its goal."""
    goals = plain(node) if isinstance(node.value, list) else [plain(node)]
    if not goals or not all(isinstance(goal, dict) and isinstance(goal.get("name"), str) for goal in goals):
        return None
    names = [goal["name"] for goal in goals]
    modes = [_MODES.get(_folded(goal.get("goal", goal.get("mode")))) for goal in goals]
    one = not isinstance(node.value, list)
    written = {"metric": names[0] if one else names} | ({} if None in modes else {"mode": modes[0] if one else modes})
    return f"is written search: {_flow(written)}"


def name_instead(name: Any, known: Collection[str]) -> str | None:
    """The known name of a search method, a sampler or a direction that other tools call differently."""
    folded = _folded(name)
    meant = (table.get(folded) for table in (_METHODS, _SAMPLERS, _MODES))
    return next((each for each in meant if each in known), None)


def method_instead(name: Any) -> str:
    """The end of a message on a search method that is another entry of the search here."""
    searched = _searched("method", name)
    return f"; write search: {_flow(searched)}" if len(searched) > 1 else ""


def condition(value: Node) -> str:
    """The end of a message on what is no condition."""
    if not isinstance(value.value, dict):
        return ""
    leaves = [(f"trial.{path}".replace("trial.trial", "trial"), leaf) for path, leaf in leaf_values(plain(value))]
    parts = [f"{path} {'in' if isinstance(leaf, list) else '=='} {_flow(leaf)}" for path, leaf in leaves]
    return f"; write {' and '.join(parts)}"


def conditions(node: Node) -> str:
    """The end of a message on conditions that are no list."""
    return f"; write ['{node.value}']" if isinstance(node.value, str) else condition(node)


def variants_instead(node: Node) -> str:
    """The end of a message on variants that are no list."""
    if not isinstance(node.value, dict) or not node.value:
        return ""
    return f"; variants have no names: write {_flow([plain(entry) for entry in node.value.values()])}"


_PARAMETERS = "parameters stand in place: under trial each open value is a hole, such as steps: {choice: [100, 200]}"
_TOP: Mapping[Any, str] = {
    **dict.fromkeys(("parameters", "params", "hyperparameters", "searchSpace", "param_space"), _PARAMETERS),
    "grid": "a grid is trial with {choice: […]} for its values",
    "random": "values that are drawn stand in trial, with search: {method: random, trials: …}",
    "fixed": "values that are fixed stand in trial",
    "constraints": "conditions that leave settings out are a list, exclude: ['trial.model.width > 64']",
    "seml": "how packs are executed stands under resources",
    "slurm": "how packs are executed stands under resources; clusters/slurm.sh makes a job of a sweep",
}
_SEARCH = {
    **dict.fromkeys(("trials", "ntrials", "samples", "numsamples", "maxtrials", "numtrials", "runcap"), "trials"),
    **dict.fromkeys(("mode", "goal", "direction", "directions"), "mode"),
    **dict.fromkeys(("pruner", "scheduler", "earlyterminate"), "early_stopping"),
    **dict.fromkeys(("method", "algorithm", "algo", "searchalg", "strategy"), "method"),
}
"""Other tools' keys of a search, folded, with the key that each of them is here."""
_METHODS = {
    **dict.fromkeys(("bayes", "bayesian", "bo", "bohb", "hyperopt", "adaptive"), "optuna"),
    **dict.fromkeys(("gridsearch", "exhaustive", "all", "basicvariant", "product"), "grid"),
    **dict.fromkeys(("randomsearch", "sample"), "random"),
    **dict.fromkeys(("sh", "successivehalving", "hyperband"), "halving"),
}
_SAMPLERS = {
    **dict.fromkeys(("tpe", "bayes", "bayesian"), "tpe"),
    **dict.fromkeys(("gp", "gaussianprocess", "botorch"), "gp"),
    **dict.fromkeys(("cmaes", "cma"), "cma_es"),
    **dict.fromkeys(("nsga2", "nsgaii", "nsga", "genetic", "nsgaiii"), "nsga2"),
    **dict.fromkeys(("qmc", "quasirandom", "sobol", "halton"), "qmc"),
}
_MODES = {
    **dict.fromkeys(("min", "minimize", "minimise", "minimum", "lower", "smaller"), "min"),
    **dict.fromkeys(("max", "maximize", "maximise", "maximum", "higher", "larger"), "max"),
}


def _folded(name: Any) -> str:
    """A name in small letters, without what Optuna and Ray Tune put before or behind it."""
    letters = re.sub(r"[^a-z0-9]", "", name.lower()) if isinstance(name, str) else ""
    return re.sub(r"^suggest(?=.)|(?<=.)(sampler|pruner|scheduler|distribution)$", "", letters)


def _searched(key: str, value: Any) -> dict[str, Any]:
    """The entries under `search` that another tool's value of a key means."""
    folded = _folded(value)
    match key:
        case "mode":
            modes = [_MODES.get(_folded(each), each) for each in (value if isinstance(value, list) else [value])]
            return {key: modes if isinstance(value, list) else modes[0]}
        case "early_stopping" if folded in ("median", "percentile", "threshold"):
            return {key: {"name": folded, "every": "…"}}
        case "early_stopping":
            return {key: {"grace_steps": "…"}}
        case "method" if folded == "asha":
            return {key: "random", "early_stopping": {"grace_steps": "…"}}
        case "method" if folded in _SAMPLERS and folded not in _METHODS:
            return {key: "optuna", "sampler": {"name": _SAMPLERS[folded]}}
        case "method":
            return {key: _METHODS.get(folded, value if isinstance(value, str) else "…")}
    return {key: value}


# Values

_KINDS = ("distribution", "type", "_type", "sampler")
"""Keys under which a mapping names its distribution."""

_LISTS = ("values", "grid_search", "options", "choices", "vals", "categorical")
"""Keys under which a mapping lists its values."""

_PAIRS = (
    *(("min", "max"), ("low", "high"), ("lower", "upper"), ("minval", "maxval"), ("start", "stop"), ("start", "end")),
    *(("mu", "sigma"), ("mean", "std"), ("loc", "scale")),
)
"""Keys of the two ends of a range, or of mean and standard deviation."""

_KEYS = {
    *(*_KINDS, *_LISTS, "_value", "base", "count", "num", "step", "q", "log", "seed"),
    *("probabilities", "ordered", "samples", *itertools.chain(*_PAIRS)),
}

_EXAMPLE = "{formula: 4 * trial.model.width}, with the entries that it needs"


def _words(value: Any) -> str | None:
    """The hole of this language that another tool's value means."""
    if isinstance(value, str):
        return _of_text(value)
    if not isinstance(value, dict) or not value:
        return None
    content = {str(key).lower(): entry for key, entry in value.items()}
    keys = content.keys()
    if keys & {"value", "val"} and keys <= {"value", "val", *_KINDS}:
        return _flow(content.get("value", content.get("val")))
    if isinstance(content.get("of"), str) and keys <= {"of", "times", "plus"}:
        times = f"{_flow(content['times'])} * " if "times" in keys else ""
        return f"{{formula: {times}{content['of']}{f' + {plus}' if (plus := content.get('plus')) else ''}}}"
    if keys <= {"eval", "expr", "expression", "lambda", "derived"}:
        return _EXAMPLE
    if len(keys) == 1 and (name := next(iter(keys))) not in _LISTS:
        arguments = content[name]
        arguments = _numbers(arguments) if isinstance(arguments, dict) else arguments
        return _hole(name, arguments if isinstance(arguments, list) else [arguments])
    if not keys <= _KEYS:
        return None
    for name in _LISTS:
        if isinstance(values := content.get(name), list):
            unequal = ", whose entries are equally likely" if "probabilities" in keys else ""
            full = f", or {_flow({'each': values})} for every draw" if name == "grid_search" else ""
            return _flow({"choice": values}) + unequal + full
    return _distribution(content)


def _distribution(content: Mapping[str, Any]) -> str | None:
    """The hole that means a mapping with two ends, or with a mean and a deviation, and the name of a distribution."""
    keys = content.keys()
    key, kind = next(((key, content[key]) for key in _KINDS if isinstance(content.get(key), str)), ("", ""))
    if isinstance(arguments := content.get("_value"), list):
        return _hole(kind, arguments)
    numbers = _numbers(content)
    if numbers is None or not (kind or keys & {"step", "q", "log", "num"}):
        return None
    ends, further = numbers[:2], numbers[2:]
    kind = kind or ("int" if all(isinstance(end, int) for end in ends) else "uniform")
    base = content.get("base", 10) if "minval" in keys else math.e
    if (kind == "log" or (key == "distribution" and kind in ("log_uniform", "q_log_uniform"))) and is_number(base):
        ends = [float(f"{base**end:.6g}") for end in ends if abs(end) < 100]  # they were exponents
    logarithmic = content.get("log") is True
    if keys & {"num", "count"} and _NAMES.get(_folded(kind)) in ("uniform", "log_uniform", "int"):
        kind = "geomspace" if logarithmic or "log" in kind else "linspace"
    elif logarithmic and kind not in ("log", "log_uniform"):
        kind = f"log{kind}"
    return _hole(kind, [*ends, *further])


def _numbers(content: Mapping[Any, Any]) -> list[Any] | None:
    """Two ends, or a mean and a deviation, then the step or the number of values if there is one."""
    further = [content[key] for key in ("step", "q", "num", "count") if key in content]
    pairs = ([content.get(low), content.get(high)] for low, high in _PAIRS)
    return next(([*pair, *further] for pair in pairs if all(map(is_number, pair))), None)


_CALL = re.compile(r"\s*(?:[a-z]+\.)*([A-Za-z_]\w*)\s*[(\[](.*)[)\]]\s*", re.DOTALL)
_WRAPPED = re.compile(r"\s*(shuffle|sort|int|float|log|tag)\s*\(\s*(log\s*,)?(.*\(.*\))\s*\)\s*", re.DOTALL)
"""A call in a call of Hydra's, such as `tag(log, interval(1, 2))`."""


def _of_text(text: str) -> str | None:
    """The hole that means a call such as `tune.uniform(1, 2)`, or the formula that means `${path}`."""
    if match := re.fullmatch(r"\$\{\s*(?:eval:\s*)?['\"]?([^{}'\"]+?)['\"]?\s*\}", text):
        if not re.fullmatch(r"\w[\w.]*", match[1]):
            return "{formula: 4 * trial.model.width}"
        return f"{{formula: {match[1] if match[1].startswith('trial.') else f'trial.{match[1]}'}}}"
    if "${" in text or text.startswith("lambda "):
        return _EXAMPLE
    if match := _WRAPPED.fullmatch(text):
        words = _of_text(match[3]) or ""
        words = words.replace("{uniform:", "{int:") if match[1] == "int" else words
        if match[1] == "log" or match[2]:
            whole = words.startswith("{int:")
            words = f"{words[:-1]}, log: true}}" if whole else words.replace("{uniform:", "{log_uniform:")
        return words or None
    match = _CALL.fullmatch(text)
    return _of_call(match[1], match[2]) if match and "(" not in match[2] else None


def _of_call(name: str, inside: str) -> str | None:
    """The hole that means a call; a name of the value before its list or its ends is passed over."""
    with_colons = re.sub(r"([A-Za-z_]+) *= *", r"\1: ", inside)
    try:
        items = plain(document_tree(f"[{with_colons}]"))
    except Refused:
        return None
    named = {key: value for item in items if isinstance(item, dict) for key, value in item.items()}
    arguments = [item for item in items if not isinstance(item, dict)]
    if len(arguments) == 1 and re.fullmatch(r"[^:\s]+(:[^:\s]+)+", str(arguments[0])):
        arguments = [document_tree(part).value for part in arguments[0].split(":")]
    if arguments and isinstance(arguments[-1], list):
        arguments = arguments[-1]
    elif arguments and isinstance(arguments[0], str) and _NAMES.get(_folded(name)) != "choice":
        del arguments[0]
    if named:
        return _words({"type": _folded(name), **dict(zip(("low", "high", "step"), arguments, strict=False)), **named})
    return _hole(name, arguments)


_NAMES = {
    **dict.fromkeys(("choice", "categorical", "gridsearch", "choicewithindex"), "choice"),
    **dict.fromkeys(("uniform", "float", "double", "interval", "quniform", "discreteuniform"), "uniform"),
    **dict.fromkeys(
        ("loguniform", "log", "loguniformvalues", "logfloat", "logdouble", "qloguniform", "qloguniformvalues"),
        "log_uniform",
    ),
    **dict.fromkeys(("int", "intuniform"), "int"),
    **dict.fromkeys(("randint", "range", "qrandint"), "range"),
    **dict.fromkeys(("lograndint", "qlograndint", "logint", "logintuniform", "intloguniform"), "logint"),
    **dict.fromkeys(("normal", "randn", "qnormal", "qrandn"), "normal"),
    **dict.fromkeys(("lognormal", "qlognormal"), "log_normal"),
    "linspace": "linspace",
    **dict.fromkeys(("logspace", "geomspace"), "logspace"),
    "samplefrom": "formula",
}
"""Other tools' names of distributions, folded, with the hole that each of them is here."""


def _hole(name: str, arguments: Sequence[Any]) -> str | None:
    """The hole of this language for a distribution that another tool calls `name`.

    `arguments` are those there: two ends, then a step or a number of values.
    """
    folded = _folded(name)
    kind = _NAMES.get(folded)
    if kind == "choice":
        return _flow({"choice": list(arguments)})
    if kind == "formula":
        return _EXAMPLE
    arguments = [0, *arguments] if kind == "range" and len(arguments) == 1 else arguments
    if kind is None or len(arguments) < 2 or not all(map(is_number, arguments)):
        return None
    low, high, *rest = arguments
    step = {"step": rest[0]} if rest else {}
    # The upper end of integers is left out there, by Ray Tune's quantised ones only without a step.
    quantised = folded in ("qrandint", "qlograndint") and rest not in ([], [1])
    last = high - 1 if (kind == "range" or "randint" in folded) and not quantised else high
    match kind:
        case "range" if not all(isinstance(number, int) for number in arguments):
            return _flow({"uniform": [low, high], **step})
        case "range":
            if folded == "range":  # a range of Python's, which ends at its last step
                step = {"step": rest[0] if rest else 1}
                last = low + (last - low) // step["step"] * step["step"] if step["step"] else last
            return _flow({"int": [low, last], **step})
        case "logint":
            return _flow({"int": [low, last], "log": True})
        case "linspace" | "logspace":
            if folded == "logspace":  # numpy's, of exponents
                low, high = (float(f"{10.0**end:.6g}") if abs(end) < 100 else end for end in (low, high))
            return _flow({kind: [low, high, *(rest or [5])[:1]]})
        case _:
            return _flow({kind: [low, high], **(step if kind in ("uniform", "int") else {})})


def _flow(value: Any) -> str:
    text = on_one_line(value)
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"
