"""What other tools write for an open value, in the words of this language, with the author's own values.

Nothing is read in another tool's language. Where a space is refused, the message asks here what the author may have
meant. The words are those of SEML, W&B, Hydra, Optuna, Ray Tune, Determined, NNI, Guild, DVC and numpy.
"""

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sweeper.space.yaml_tree import SCALARS, Node, plain

_MOST = 200
"""Longest text of values in a message."""


def advice(node: Node) -> str | None:
    """How this language writes a value that another tool's language seems to have; None for any other value."""
    words = _words(node.value if not isinstance(node.value, dict | list) else plain(node))
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
    if words := _words(value):
        return f"; write {words}"
    if isinstance(value, str) and kind in ("choice", "each") and "," in value and not re.search(r"[(\[{]", value):
        return f"; write {{{kind}: {_flow([part.strip() for part in value.split(',')])}}}"
    if isinstance(value, dict) and (ends := _ends(value)):
        return f"; write {{{kind}: {_flow(list(ends))}}}"
    return ""


def key(name: Any, value: Node, path: str) -> str | None:
    """What to write for a key that a record does not know.

    Args:
        name: The key.
        value: What it holds.
        path: Path of the mapping that has the key; empty at the top.
    """
    if not path:
        if words := _TOP.get(name):
            return words
        if name == "method" and isinstance(value.value, str):
            return f"belongs under search: {{method: {_METHODS.get(_folded(value.value), value.value)}}}"
        if name == "metric" and (words := metric(value)):
            return words
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


def condition(value: Node) -> str:
    """The end of a message on what is no condition."""
    if not isinstance(value.value, dict):
        return ""
    parts = [f"{path} == {_flow(entry)}" for path, entry in _leaves(plain(value), "trial")]
    return f"; write {' and '.join(parts)}"


def _leaves(value: Mapping[Any, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, entry in value.items():
        below = str(key) if str(key).startswith("trial") and path == "trial" else f"{path}.{key}"
        if isinstance(entry, dict):
            yield from _leaves(entry, below)
        else:
            yield below, entry


def conditions(node: Node) -> str:
    """The end of a message on conditions that are no list."""
    return f"; write [{_flow(node.value)}]" if isinstance(node.value, str) else condition(node)


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
    "zip": "values that change together are variants: a list of partial trials, variants: [{…}, {…}]",
    "constraints": "conditions that leave settings out are a list, exclude: ['trial.model.width > 64']",
    "early_terminate": "belongs under search: {early_stopping: {grace_steps: …}}",
    "seml": "how packs are executed stands under resources",
    "slurm": "how packs are executed stands under resources; clusters/slurm.sh makes a job of a sweep",
    "run_cap": "the number of settings is search: {trials: …}",
    "goal": "belongs under search: {metric: …, mode: …}",
}
_METHODS = {
    **dict.fromkeys(("bayes", "bayesian", "tpe", "bo", "bohb", "hyperopt", "gp", "adaptive", "cmaes"), "optuna"),
    **dict.fromkeys(("gridsearch", "exhaustive", "all", "basicvariant", "product"), "grid"),
    **dict.fromkeys(("randomsearch", "sample"), "random"),
    **dict.fromkeys(("sh", "successivehalving", "hyperband"), "halving"),
}
_SAMPLERS = {
    **dict.fromkeys(("tpesampler", "bayes", "bayesian"), "tpe"),
    **dict.fromkeys(("gpsampler", "gaussianprocess", "botorch"), "gp"),
    **dict.fromkeys(("cmaes", "cma", "cmaessampler"), "cma_es"),
    **dict.fromkeys(("nsgaii", "nsgaiisampler", "nsga", "genetic", "nsgaiii"), "nsga2"),
    **dict.fromkeys(("qmcsampler", "quasirandom", "sobol", "halton"), "qmc"),
}
_MODES = {
    **dict.fromkeys(("min", "minimize", "minimise", "minimum", "lower", "smaller"), "min"),
    **dict.fromkeys(("max", "maximize", "maximise", "maximum", "higher", "larger"), "max"),
}


def _folded(name: Any) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower()) if isinstance(name, str) else ""


# --------------------------------------------------------------------------------------------------------------------
# Values
# --------------------------------------------------------------------------------------------------------------------


def _words(value: Any) -> str | None:
    if isinstance(value, str):
        return _of_text(value)
    if not isinstance(value, dict) or not value:
        return None
    keys = {str(key).lower() for key in value}
    content = {str(key).lower(): entry for key, entry in value.items()}
    for name in ("values", "grid_search", "options", "choices", "vals", "categorical"):
        if name in keys and isinstance(content[name], list) and keys <= _KEYS:
            unequal = ", whose entries are equally likely" if "probabilities" in keys else ""
            full = f", or {_flow({'each': content[name]})} for every draw" if name == "grid_search" else ""
            return _flow({"choice": content[name]}) + unequal + full
    if keys in ({"value"}, {"val"}, {"type", "val"}):
        return _flow(content.get("value", content.get("val")))
    for name in ("distribution", "type", "_type", "sampler"):
        kind = content.get(name)
        if isinstance(kind, str) and keys <= _KEYS:
            values = content.get("_value")
            if isinstance(values, list):
                return _hole(kind, values, exclusive=True)
            if ends := _ends(content):
                base = content.get("base", 10) if "minval" in keys else math.e
                exponents = kind == "log" or (name == "distribution" and kind in ("log_uniform", "q_log_uniform"))
                if exponents and isinstance(base, int | float):
                    ends = tuple(float(f"{base**end:.6g}") for end in ends if abs(end) < 100)
                arguments = [*ends, *(content[key] for key in ("step", "q", "num", "count") if key in keys)]
                logs = "log" if content.get("log") is True and kind not in ("log", "log_uniform") else ""
                if keys & {"num", "count"} and _NAMES.get(_folded(kind)) in ("uniform", "log_uniform"):
                    logs, kind = "", "geomspace" if "log" in logs + kind else "linspace"
                return _hole(logs + kind, arguments, exclusive="min" in keys and name == "type")
            if {"mu", "sigma"} <= keys:
                return _hole(kind, [content["mu"], content["sigma"]], exclusive=False)
    if keys >= {"of"} and isinstance(content["of"], str) and keys <= {"of", "times", "plus"}:
        times = f"{_flow(content['times'])} * " if "times" in keys else ""
        return f"{{formula: {times}{content['of']}{f' + {plus}' if (plus := content.get('plus')) else ''}}}"
    if keys <= {"eval", "expr", "expression", "lambda", "derived"}:
        return _EXAMPLE
    for name in ("range", "interval", "randint", "quniform", "loguniform", "q_uniform", "sample_from"):
        if keys == {name}:
            content_of = content[name]
            return _hole(name, content_of if isinstance(content_of, list) else [content_of], exclusive=True)
    if ends := _ends(content) if keys <= _KEYS - {"type"} and keys & {"step", "q", "log", "num"} else None:
        arguments = [*ends, *(content[key] for key in ("step", "q", "num") if key in keys)]
        whole = all(isinstance(end, int) for end in ends)
        return _hole(("log" if content.get("log") is True else "") + ("int" if whole else "uniform"), arguments, False)
    return None


_KEYS = {
    *("type", "_type", "_value", "distribution", "sampler", "values", "value", "val", "vals", "options", "choices"),
    *("min", "max", "low", "high", "lower", "upper", "minval", "maxval", "base", "count", "num", "step", "q", "log"),
    *("mu", "sigma", "seed", "probabilities", "grid_search", "ordered", "categorical", "samples"),
}


def _ends(content: Mapping[str, Any]) -> tuple[Any, ...] | None:
    for low, high in (("min", "max"), ("low", "high"), ("lower", "upper"), ("minval", "maxval")):
        ends = content.get(low), content.get(high)
        if all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends):
            return ends
    return None


_EXAMPLE = "{formula: 4 * trial.model.width}, with the entries that it needs"

_CALL = re.compile(r"\s*(?:[a-z]+\.)*([A-Za-z_]\w*)\s*[(\[](.*)[)\]]\s*", re.DOTALL)


def _of_text(text: str) -> str | None:
    if match := re.fullmatch(r"\$\{\s*(?:eval:\s*)?['\"]?([^{}'\"]+?)['\"]?\s*\}", text):
        entry = re.fullmatch(r"[\w.]+", match[1])
        path = match[1] if not entry or match[1].startswith("trial.") else f"trial.{match[1]}"
        return f"{{formula: {path if entry else '4 * trial.model.width'}}}"
    if "${" in text or text.startswith("lambda "):
        return _EXAMPLE
    match = _CALL.fullmatch(text)
    if match is None:
        return None
    name, inside = match[1], match[2].strip().strip("[]()")
    if _folded(name) in ("log", "tag") and (inner := _CALL.search(inside + ")" if "(" in inside else inside)):
        words = _of_text(re.sub(r"^\s*log\s*,", "", inside) + (")" if inside.count("(") > inside.count(")") else ""))
        if inner and words:
            return words.replace("{uniform:", "{log_uniform:")
        return None
    if _folded(name) not in _NAMES or "(" in inside:
        return None
    arguments = [_scalar(part) for part in re.split(r"[,:]", inside) if part.strip()]
    return _hole(name, arguments, exclusive=True)


def _scalar(text: str) -> Any:
    text = text.rpartition("=")[2].strip().strip("'\"")
    if re.fullmatch(SCALARS["int"], text) and len(text) < 20:
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    return float(text) if re.fullmatch(r"[-+.\deE]+", text) and re.fullmatch(SCALARS["float"], text) else text


_NAMES = {
    **dict.fromkeys(("choice", "categorical", "gridsearch", "choicewithindex"), "choice"),
    **dict.fromkeys(("uniform", "float", "double", "interval", "quniform", "suggestfloat"), "uniform"),
    **dict.fromkeys(
        ("loguniform", "log", "loguniformvalues", "logfloat", "logdouble", "qloguniform", "qloguniformvalues"),
        "log_uniform",
    ),
    **dict.fromkeys(("int", "intuniform", "suggestint"), "int"),
    **dict.fromkeys(("randint", "range", "qrandint"), "range"),
    **dict.fromkeys(("lograndint", "qlograndint", "logint", "logintuniform"), "logint"),
    **dict.fromkeys(("normal", "randn", "qnormal", "qrandn"), "normal"),
    **dict.fromkeys(("lognormal", "qlognormal"), "log_normal"),
    "linspace": "linspace",
    "logspace": "logspace",
    "geomspace": "logspace",
    "samplefrom": "formula",
}


def _hole(name: str, arguments: Sequence[Any], exclusive: bool) -> str | None:
    """The hole of this language for a distribution that another tool calls `name`.

    Args:
        name: Its name there.
        arguments: Its arguments there, in order: two ends, then a step or a number.
        exclusive: Whether the upper end of integers is not one of them.
    """
    kind = _NAMES.get(_folded(name))
    numbers = [each for each in arguments if isinstance(each, int | float) and not isinstance(each, bool)]
    if kind is None:
        return None
    if kind == "choice":
        return _flow({"choice": list(arguments)})
    if kind == "formula":
        return _EXAMPLE
    if len(numbers) != len(arguments):
        return None
    if len(numbers) == 1 and kind == "range":
        numbers = [0, *numbers]
    if len(numbers) < 2:
        return None
    low, high, *rest = numbers
    if kind == "range" and all(isinstance(number, int) for number in numbers):
        last = high - 1 if exclusive else high
        if _folded(name) == "range":
            step = rest[0] if rest else 1
            last = low + (last - low) // step * step if step else last
            return _flow({"int": [low, last], "step": step})
        return _flow({"int": [low, last], **({"step": rest[0]} if rest else {})})
    if kind == "range":
        return _flow({"uniform": [low, high], **({"step": rest[0]} if rest else {})})
    if kind == "logint":
        return _flow({"int": [low, high], "log": True})
    if kind == "logspace" and _folded(name) == "logspace":
        low, high = (float(f"{10.0**end:.6g}") if abs(end) < 100 else end for end in (low, high))
    if kind in ("linspace", "logspace"):
        return _flow({kind: [low, high, *(rest or [5])[:1]]})
    step = {"step": rest[0]} if rest and kind in ("uniform", "int") else {}
    return _flow({kind: [low, high]} | step)


def _flow(value: Any) -> str:
    """The value as YAML on one line."""
    match value:
        case None:
            text = "~"
        case bool():
            text = str(value).lower()
        case dict():
            text = "{" + ", ".join(f"{key}: {_flow(entry)}" for key, entry in value.items()) + "}"
        case list():
            text = "[" + ", ".join(map(_flow, value)) + "]"
        case float():
            text = f"{value:g}" if float(f"{value:g}") == value else repr(value)
            text = text.replace("inf", ".inf").replace("nan", ".nan")
        case str() if not re.fullmatch(r"[\w][\w ./-]*", value) or any(
            re.fullmatch(pattern, value) for pattern in SCALARS.values()
        ):
            text = "'" + value.replace("'", "''") + "'"
        case _:
            text = str(value)
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"
