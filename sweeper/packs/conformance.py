"""Whether tasks, models and objectives keep their contracts, by shapes and by a few values.

`check_shapes` traces every method by shapes: nothing is computed, and no device is needed. Planning does that.
`check_values` sees what shapes do not show, with a fresh network and a few pairs. A start does that before the first
pack of a task, and two fresh processes say whether the programs of the task are the same there: at the first trace and
later, and with other orders of sets. `sweeper check` and the tests do both. A mistake is a `ContractError`, with the
same message everywhere.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sweeper.store.trial_file import check_network
from sweeper.training import compilation, evaluation, experiments, trainers
from sweeper.training.objective import drawn_pairs, next_state
from sweeper.trial import jax_settings, plugins, vectorisation
from sweeper.trial.columns import METRICS
from sweeper.trial.contract_checks import (
    ROUNDING,
    ContractError,
    attributed,
    broken,
    check_array,
    check_batch,
    check_name,
    place,
    shapes,
)
from sweeper.trial.contracts import (
    Abilities,
    EmbeddingNetwork,
    Model,
    Network,
    Outcomes,
    PolynomialNetwork,
    StepwiseNetwork,
    Task,
)
from sweeper.trial.experiment_trial import ExperimentTrial
from sweeper.trial.fingerprint import Code
from sweeper.trial.metrics import Metric
from sweeper.trial.objective_contract import Batch, Objective
from sweeper.trial.private_folder import private_folder
from sweeper.trial.record import canonical
from sweeper.trial.trial import Trial, trial_of
from sweeper.trial.trial_spec import TrialSpec

INPUTS, SEEDS = 4, 3
"""Inputs and seeds r of the pairs whose losses are computed."""

# Shapes


def check_shapes(trials: Iterable[Trial], to_keep: bool = False) -> None:
    """Hold the task, the model and the objective of every trial against their contracts, by shapes.

    Each pair of a task and a model is traced once, with the sizes of its first trial, and so is each objective. A
    method that gives what its contract excludes, or raises, is a `ContractError`. So is a network that no store keeps,
    if networks are `to_keep`.
    """
    seen: set[tuple[str, ...]] = set()
    with vectorisation.built_for("cpu"), jax_settings.one_thread():  # to ask for the platform would start JAX
        for trial in trials:
            if isinstance(trial, ExperimentTrial):
                _check_kept(experiments.form_of(trial), trial) if to_keep else experiments.form_of(trial)
                continue
            assert isinstance(trial, TrialSpec)
            task, objective = trial.task, trial.objective
            if (networks := (task.name, trial.model.name)) not in seen:
                _check_sizes(task)
                _check_abilities(task)
                jax.eval_shape(functools.partial(_trace_task, to_keep), trial)
                evaluation.names(trial)
            if (objectives := ("objective", objective.name, task.name)) not in seen:
                jax.eval_shape(_trace_objective, trial)
            seen |= {networks, objectives}


def _check_kept(form: experiments.Form, trial: ExperimentTrial) -> None:
    try:
        check_network(jax.tree.leaves(form.kept))
    except ValueError as error:
        raise ContractError(f"{place(trial.experiment, 'network')}: {error}") from None


def _given(plugin: Any, method: str, *arguments: Any) -> Any:
    """The result of a method of a plug-in. An error that the method raises becomes a `ContractError`."""
    with attributed(plugin, method):
        return getattr(plugin, method)(*arguments)


def _check_sizes(task: Task) -> None:
    for method in ("token_size", "output_size", "context_size"):
        size = _given(task, method)
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise broken(task, method, repr(size), "a whole number, at least 1")


def _check_abilities(task: Task) -> None:
    abilities = _given(task, "abilities")
    if not isinstance(abilities, Abilities):
        raise broken(task, "abilities", f"type {type(abilities).__name__}", "contracts.Abilities")
    if strange := [measure for measure in abilities.measures if not isinstance(measure, Metric)]:
        raise broken(task, "abilities", f"{strange[0]!r} among its measures", "a contracts.Metric")
    if abilities.tail not in (known := ["success", *abilities.quantities]):
        raise broken(task, "abilities", f"{abilities.tail!r} as tail", " or ".join(known))
    voting, groups = abilities.voting, abilities.groups
    if voting is not None and voting.wrong_answers < 1:
        raise broken(task, "abilities", f"{voting.wrong_answers} as voting.wrong_answers", "at least 1")
    if voting is not None and (rules := set(voting.rules.values()) - {"joint", "partwise"}):
        raise broken(task, "abilities", f"{min(rules)!r} among voting.rules", "joint or partwise")
    for name in (*abilities.quantities, *abilities.curves):
        check_name(task, "abilities", name)
    if taken := {*METRICS, *trainers.CURVES} & abilities.curves.keys():
        raise broken(task, "abilities", f"{min(taken)!r} among curves", "another name: trainers have that curve")
    if groups is not None and groups.count < 1:
        raise broken(task, "abilities", f"{groups.count} as groups.count", "at least 1")


def _trace_task(to_keep: bool, trial: TrialSpec) -> None:
    """Every method of a task, its model and the network, while it is traced."""
    task, model, key = trial.task, trial.model, jax.random.key(0)
    network = _given(model, "build", task, key)
    if not isinstance(network, Network):
        raise broken(model, "build", f"type {type(network).__name__}", "a contracts.Network")
    weights = jax.tree.leaves(network)
    if not weights or weights == [network]:
        raise broken(model, "build", "a network without weights", "a pytree of arrays")
    for weight in weights:
        if not jnp.issubdtype(jnp.result_type(weight), jnp.floating):
            raise broken(model, "build", f"a weight of type {jnp.result_type(weight)}", "floating")
    if to_keep:
        try:
            check_network(weights)
        except ValueError as error:
            raise ContractError(f"{place(model, 'build')}: {error}") from None
    _check_needs(task, model, network)
    _trace_network(task, network)

    inputs = _given(task, "sample_inputs", key, trial.batch_size)
    check_batch(task, "sample_inputs", inputs, trial.batch_size)
    # Fewer or more seeds than inputs: a transposed matrix has another shape.
    count = _another(trial.objective.m, trial.batch_size)
    seeds = _given(task, "sample_seeds", key, count)
    check_batch(task, "sample_seeds", seeds, count)
    pair = jax.tree.map(lambda leaf: leaf[0], (inputs, seeds))
    check_array(task, "loss", "", _given(task, "loss", _watched(network, task, "loss"), *pair), np.floating)
    if type(task).losses is not Task.losses:
        losses = _given(task, "losses", _watched(network, task, "losses"), inputs, seeds)
        check_array(task, "losses", "", losses, np.floating, input=trial.batch_size, seed=count)
    for name, curve in task.abilities().curves.items():
        with attributed(task, "abilities"):
            value = curve(_watched(network, task, "abilities"), inputs, seeds)
        check_array(task, "abilities", f"curves[{name!r}]", value, np.number)
    _trace_outcomes(trial, network)


def _check_needs(task: Task, model: Model, network: Network) -> None:
    """Refuse a network that lacks what its task needs."""
    for need in task.NEEDS:
        if not isinstance(network, need):
            missing = sorted(name for name in need.__abstractmethods__ if not hasattr(network, name))
            lacks = f": it lacks {', '.join(missing)}" if missing else ""
            raise ContractError(
                f"{place(model, 'build')}: the task {task.name} needs a contracts.{need.__name__}, and the network of "
                f"the model {model.name} is none{lacks}"
            )


def _trace_outcomes(trial: TrialSpec, network: Network) -> None:
    task, abilities = trial.task, trial.task.abilities()
    inputs = _given(task, "evaluation_inputs")
    inputs_count = check_batch(task, "evaluation_inputs", inputs)
    count = _another(trial.evaluation.seeds, inputs_count)
    with attributed(task, "outcomes"):
        seeds = task.sample_seeds(jax.random.key(0), count)
        outcomes = task.outcomes(_watched(network, task, "outcomes"), inputs, seeds)
    evaluation.check_outcomes(trial, outcomes, inputs_count, count)
    if (voting := abilities.voting) is None:
        if outcomes.answers is not None:
            raise broken(task, "outcomes", "answers", "None, as abilities has no voting")
    else:
        of_answers = {"input": inputs_count, "seed": count, "part": voting.parts}
        check_array(task, "outcomes", "answers", outcomes.answers, np.integer, **of_answers)
        with attributed(task, "abilities"):
            right = voting.right_parts(inputs, outcomes.answers)  # type: ignore[arg-type]  # checked
        check_array(task, "abilities", "voting.right_parts", right, np.bool_, **of_answers)
    if abilities.groups is not None:
        with attributed(task, "abilities"):
            groups = abilities.groups.of(inputs)
        check_array(task, "abilities", "groups", groups, np.integer, input=inputs_count)


def _trace_network(task: Task, network: Network) -> None:
    """Every method of a network, on one sequence of a task."""
    count, outputs = task.context_size(), task.output_size()
    tokens, positions = jnp.zeros((count, task.token_size())), jnp.arange(count)
    if isinstance(network, EmbeddingNetwork):
        if not isinstance(network.depth, int):
            raise broken(network, "depth", f"type {type(network.depth).__name__}", "a whole number")
        with _pure(network, "content"):
            content = network.content(tokens)
        check_array(network, "content", "", content, np.floating, token=count, feature=None)
        sums = {"placed": lambda: network.placed(positions), "embed": lambda: network.embed(tokens)}
        for method, part in sums.items():
            with _pure(network, method):
                check_array(network, method, "", part(), np.floating, token=count, feature=content.shape[1])
        if isinstance(network, StepwiseNetwork):
            _trace_steps(network, content, outputs)
        if isinstance(network, PolynomialNetwork):
            with _pure(network, "polynomial"):
                network.polynomial()
    with _pure(network, "__call__"):
        logits = network(tokens, jnp.ones((count, count), bool))
        check_array(network, "__call__", "", logits, np.floating, token=count, output=outputs)


def _trace_steps(network: StepwiseNetwork, embedded: Any, outputs: int) -> None:
    """The methods of a network that reads step by step, on embedded tokens."""
    count = len(embedded)
    with _pure(network, "empty_memory"):
        memory, one = network.empty_memory(count), network.empty_memory(1)
    with _pure(network, "step"):
        logits, own = network.step(embedded[0], [(memory, jnp.ones(count, bool))])
        check_array(network, "step", "logits", logits, np.floating, output=outputs)
        if shapes(own) != shapes(one):
            raise broken(network, "step", f"a memory of {shapes(own)}", f"that of one token, {shapes(one)}")


@contextlib.contextmanager
def _pure(network: Network, method: str) -> Iterator[None]:
    """Refuse a method of a network that raises, or that changes the network.

    Training would lose what the method leaves in the network, such as the statistics of a batch.
    """
    structure, before = _held(network)
    with attributed(network, method):
        yield
    now, after = _held(network)
    if now != structure or any(new is not old for old, new in zip(before, after, strict=True)):
        gives = "its result and changes the network"
        raise broken(network, method, gives, "pure: statistics of batches and other state belong to an experiment")


def _held(network: Network) -> tuple[Any, list[Any]]:
    """What a network holds: the structure, and the leaves with the attributes, which need not be leaves."""
    leaves, structure = jax.tree.flatten(network)
    attributes = dict(vars(network))
    return (structure, list(attributes)), [*leaves, *attributes.values()]


def _trace_objective(trial: TrialSpec) -> None:
    """Every method of an objective, while it is traced."""
    objective: Objective = trial.objective
    with attributed(objective, "initial_state"):
        state = jax.tree.map(jnp.asarray, objective.initial_state(trial.task))
    groups = jnp.zeros(trial.batch_size, jnp.int32) if objective.needs_groups else None
    batch = Batch(jnp.zeros(trial.batch_size), groups, jnp.float32(0))
    after = _given(objective, "next_state", batch, state)
    if shapes(after) != shapes(state):
        raise broken(objective, "next_state", shapes(after), f"like initial_state, {shapes(state)}")
    check_array(objective, "value", "", _given(objective, "value", batch, after), np.floating)
    for name, curve in objective.curves().items():
        with attributed(objective, "curves"):
            value = curve(batch, after)
        check_array(objective, "curves", f"{name!r}", value, np.number)


def _another(count: int, other: int) -> int:
    return count if count != other else count + 1


def _watched(network: Network, task: Task, method: str) -> Any:
    return _watched_with(type(network))(network, task.token_size(), place(task, method))


@dataclasses.dataclass(frozen=True, eq=False)
class _Watched(Network):
    """A network that holds what a task gives it against the sizes that the task has named."""

    _network: Any
    _size: int = dataclasses.field(metadata={"static": True})
    _place: str = dataclasses.field(metadata={"static": True})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_network"], name)

    def content(self, tokens: Any) -> Any:
        self._require(tokens)
        return self._network.content(tokens)

    def embed(self, tokens: Any, *positions: Any, **named: Any) -> Any:
        self._require(tokens)
        return self._network.embed(tokens, *positions, **named)

    def __call__(self, tokens: Any, mask: Any, *positions: Any, **named: Any) -> Any:
        count = self._require(tokens)
        if np.shape(mask) != (count, count):
            raise self._broken("a mask", mask, f"[{count} tokens, {count} tokens]")
        return self._network(tokens, mask, *positions, **named)

    def _require(self, tokens: Any) -> int:
        shape = np.shape(tokens)
        if len(shape) != 2 or shape[1] != self._size:
            raise self._broken("tokens", tokens, f"[tokens, {self._size} features], as token_size says")
        return shape[0]

    def _broken(self, what: str, value: Any, must: str) -> ContractError:
        return ContractError(f"{self._place} gives the network {what} of shape {list(np.shape(value))}, must be {must}")


@functools.cache
def _watched_with(network: type[Network]) -> type[_Watched]:
    """`_Watched`, with the abilities of a class of networks."""
    watched = jax.tree_util.register_dataclass(type("_Watched", (_Watched,), {}))
    for ability in network.__mro__:
        if issubclass(ability, Network):
            ability.register(watched)
    return watched


# Values


def check_values(trials: Iterable[Trial]) -> None:
    """Hold what plug-ins compute with a fresh network against their contracts, on a few pairs.

    The methods of the trials have the shapes of their contracts. A value that no contract allows, or a program that
    differs in another process, is a `ContractError`.
    """
    for mistake in value_mistakes(list(trials)):
        if mistake is not None:
            raise mistake


def value_mistakes(
    trials: Sequence[Trial], tell: Callable[[str], None] = lambda step: None
) -> list[ContractError | None]:
    """The first mistake of each trial that `check_values` sees, None where there is none.

    A program is compiled for each pair of a task and a model, and one for each objective. `tell` hears of each step
    as it begins.
    """
    values: list[ContractError | None] = []
    seen: set[Any] = set()
    with contextlib.ExitStack() as ended:
        elsewhere = [ended.enter_context(_tracing_elsewhere(trials, *each)) for each in FRESH]
        try:
            for trial in trials:
                mistake = None
                if not isinstance(trial, TrialSpec):
                    values.append(mistake)
                    continue
                tell(f"values of {trial.task.name} with {trial.model.name}")
                try:
                    if (network := (trial.task.name, trial.model.name)) not in seen:
                        check_pairs(trial)
                    if trial.objective.name not in seen:
                        check_objective(trial)
                    seen |= {network, trial.objective.name}
                except ContractError as error:
                    mistake = error
                values.append(mistake)
            programs = _program_mistakes(trials, elsewhere, tell)
        finally:
            for process in elsewhere:
                process.kill()
    # A program that differs explains numbers that disagree.
    return [of_program or of_values for of_program, of_values in zip(programs, values, strict=True)]


def quick_program(
    function: Callable[..., Any], trial: TrialSpec, *arguments: Any, platform: str = "cpu"
) -> Callable[..., Any]:
    """A program of a trial and more arguments, in the form for a platform, that a CPU runs; results are on the host.

    It is compiled quickly and computes slowly, as it runs on little, and hardly more than once.
    """
    options: dict[str, Any] = {"xla_backend_optimization_level": 0} | dict.fromkeys(compilation.EMITTERS, False)
    seen = trial.for_programs()
    with vectorisation.built_for(platform), jax_settings.one_thread():
        program = compilation.traced(function, seen, *arguments).lower().compile(compiler_options=options)

    def run(*arguments: Any) -> Any:
        with jax_settings.one_thread():
            return jax.device_get(program(seen, *arguments))

    return run


def check_pairs(trial: TrialSpec, rtol: float = 1e-3, atol: float = 1e-4, platform: str = "cpu") -> None:
    """As `check_values`, of a task and a model, in the form of a program for a platform.

    Two ways to compute a number may differ by the tolerances.
    """
    task = trial.task
    with attributed(task, "outcomes"):
        program = quick_program(_few_pairs, trial, platform=platform)
    found = program()

    def require(method: str, what: str, values: np.ndarray, must: str, holds: np.ndarray) -> None:
        if not np.all(holds):
            worst = values[~np.broadcast_to(holds, values.shape)][0]
            raise broken(task, method, f"{worst:.4g}{what}", must)

    def agree(method: str, what: str, values: np.ndarray, defined: np.ndarray) -> None:
        holds = np.isclose(values, defined, rtol=rtol, atol=atol)
        if not holds.all():
            first = tuple(np.argwhere(~holds)[0])
            pair = f"{what} for a pair (input {first[0]}, seed {first[1]})"
            raise broken(task, method, f"{values[first]:.6g}{pair}", f"{defined[first]:.6g}, as loss gives")

    outcomes = found["outcomes"]
    for plain in (found["loss"], found["evaluated"]):
        require("loss", " with a fresh network", plain, "finite", np.isfinite(plain))
        require("loss", " with a fresh network", plain, "at least 0", plain >= -ROUNDING)
    agree("losses", "", found["losses"], found["loss"])
    agree("outcomes", " as loss", outcomes.loss, found["evaluated"])
    for what, values in {"sampled": outcomes.sampled, "variance": outcomes.variance, **outcomes.measures}.items():
        if values is not None:
            require("outcomes", f" as {what}", values, "finite", np.isfinite(values))
            if what in ("sampled", "variance"):
                require("outcomes", f" as {what}", values, "at least 0", values >= -ROUNDING)
            if what == "sampled":
                require("outcomes", " as sampled", values, "at most 1", values <= 1 + ROUNDING)
    if "right" in found and (found["right"] != outcomes.correct).any():
        gives = "correct that differs from what abilities().voting says of its answers"
        raise broken(task, "outcomes", gives, "the same")
    if "groups" in found:
        division = task.abilities().groups
        assert division is not None
        inside = (found["groups"] >= 0) & (found["groups"] < division.count)
        require("abilities", " as a group", found["groups"], f"from 0 to {division.count - 1}", inside)


def check_objective(trial: TrialSpec) -> None:
    """As `check_values`, of an objective."""
    objective = trial.objective
    count = trial.batch_size
    losses = np.stack([np.zeros(count), np.ones(count), np.arange(count) / 7]).astype(np.float32)
    found = quick_program(jax.vmap(_objective, (None, 0)), trial, losses)(losses)
    for gives, values in zip(("", " as its gradient"), map(np.asarray, found), strict=True):
        if not np.isfinite(values).all():
            raise broken(objective, "value", f"{values[~np.isfinite(values)][0]}{gives}", "finite")


def _objective(trial: TrialSpec, losses: Any) -> tuple[Any, Any]:
    """The value of an objective in the first step, and its gradient by the losses."""
    objective = trial.objective
    batch = Batch(losses, jnp.zeros(losses.shape, jnp.int32) if objective.needs_groups else None, jnp.float32(0))
    state = next_state(trial, batch, objective.initial_state(trial.task))
    return jax.value_and_grad(lambda losses: objective.value(batch._replace(losses=losses), state))(losses)


def _few_pairs(trial: TrialSpec) -> dict[str, Any]:
    """Losses by their definition and as the task gives them, and outcomes."""
    task, keys = trial.task, trial.keys()
    network = trial.model.build(task, keys.weights)
    # As many as in training are drawn: a task may count on that.
    inputs, seeds = drawn_pairs(trial, *jax.random.split(keys.training))
    inputs, seeds = (jax.tree.map(lambda leaf, n=n: leaf[:n], of) for of, n in ((inputs, INPUTS), (seeds, SEEDS)))
    evaluated = jax.tree.map(lambda leaf: leaf[:INPUTS], task.evaluation_inputs())
    outcomes: Outcomes = task.outcomes(network, evaluated, seeds)
    plain = Task.losses(task, network, inputs, seeds)
    found = {
        "loss": plain,
        "losses": plain if type(task).losses is Task.losses else task.losses(network, inputs, seeds),
        "evaluated": Task.losses(task, network, evaluated, seeds),
        "outcomes": outcomes._replace(measures=dict(outcomes.measures), kept={}),
    }
    abilities = task.abilities()
    if abilities.voting is not None and outcomes.answers is not None:
        found["right"] = abilities.voting.right(evaluated, outcomes.answers)
    if abilities.groups is not None:
        found["groups"] = abilities.groups.of(inputs)
    return found


# Programs


def _digests(trial: Trial) -> dict[str, str]:
    """A digest of the program of every method of the plug-ins of a trial, constants included, by method."""
    programs: dict[str, str] = {}

    def traced(method: str, function: Any, *arguments: Any) -> Any:
        with vectorisation.built_for("cpu"), jax_settings.one_thread():
            program = compilation.traced(function, trial.for_programs(), *arguments)
            text = program.lower(lowering_platforms=("cpu",)).as_text()
        programs[method] = hashlib.sha256(text.encode()).hexdigest()
        return program.out_info

    if isinstance(trial, ExperimentTrial):
        experiments.trace_programs(trial, traced)
        return programs
    assert isinstance(trial, TrialSpec)
    seeds = _another(trial.objective.m, trial.batch_size)
    key = jax.eval_shape(lambda: jax.random.key(0))
    network = traced("build", lambda trial, key: trial.model.build(trial.task, key), key)
    inputs = traced("sample_inputs", lambda trial, key: trial.task.sample_inputs(key, trial.batch_size), key)
    drawn = traced("sample_seeds", lambda trial, key: trial.task.sample_seeds(key, seeds), key)
    traced("losses", lambda trial, *arguments: trial.task.losses(*arguments), network, inputs, drawn)
    inputs = traced("evaluation_inputs", lambda trial: trial.task.evaluation_inputs())
    traced("outcomes", lambda trial, *arguments: tuple(trial.task.outcomes(*arguments)), network, inputs, drawn)
    traced("value", _objective, jax.ShapeDtypeStruct((trial.batch_size,), jnp.float32))
    return programs


def _program_mistakes(
    trials: Sequence[Trial], elsewhere: Iterable["subprocess.Popen[bytes]"], tell: Callable[[str], None]
) -> list[ContractError | None]:
    """What is wrong with programs that differ from trace to trace, as those with numpy's random numbers do."""
    here = []
    for trial in trials:
        tell(f"programs of {' '.join(trial.plugin_names)}")
        here.append(_digests(trial))
    tell("programs in another process")
    traces: list[list[dict[str, str]]] = []
    for process in elsewhere:
        assert process.stdout is not None
        printed = process.stdout.read()
        if process.wait() != 0:  # what cannot be traced there, a worker cannot trace either, and says why
            return [None] * len(here)
        traces += json.loads(printed)
    mistakes: list[ContractError | None] = []
    for trial, mine, *others in zip(trials, here, *traces, strict=True):
        different = [method for method in mine if any(other[method] != mine[method] for other in others)]
        same = (
            "the same: all randomness comes through keys and seeds r, none from numpy.random, random or time; it "
            "counts no calls, and takes no order from a set"
        )
        mistake = None
        if different:
            of_trial: dict[str, Any] = {str(kind): record for kind, record in trial.plug_ins}
            kind = {"build": "model", "value": "objective"}.get(different[0], next(iter(of_trial)))
            mistake = broken(of_trial[kind], different[0], "another program each time it is traced", same)
        mistakes.append(mistake)
    return mistakes


FRESH = ((jax_settings.HASH_SEED, 2), ("1", 1))
"""Of each fresh process its hash seed, which orders sets of texts, and how often it traces a program."""


def _tracing_elsewhere(trials: Iterable[Trial], hash_seed: str, times: int) -> "subprocess.Popen[bytes]":
    """A process of the same project that traces the programs of trials so often, and prints the digests each time."""
    paths = os.pathsep.join([str(plugins.ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    own = {"JAX_PLATFORMS": "cpu", plugins.PROJECT_VARIABLE: str(plugins.PROJECT), "PYTHONPATH": paths}
    own["PYTHONHASHSEED"] = hash_seed
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "sweeper.packs.conformance", str(times)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | own | jax_settings.ONE_THREAD,
    )
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # it has ended
        process.stdin.write(json.dumps(list(map(canonical, trials))).encode())
        process.stdin.close()
    return process


def _trace(times: int) -> None:
    with contextlib.redirect_stdout(sys.stderr):  # a task may print
        trials = list(map(trial_of, json.load(sys.stdin)))
        traces = []
        for _ in range(times):
            traces.append(list(map(_digests, trials)))
            jax.clear_caches()  # with the traces of functions that a task itself compiles
    print(json.dumps(traces))


# Once


def probe(trials: Iterable[Trial], code: Code) -> None:
    """`check_values`, once on this machine for the code of every task, model and objective."""
    folder = private_folder("conforming")
    kinds = {each.plugin_names: each for each in trials}.values()
    marks = {} if folder is None else {folder / code.fingerprint(trial): trial for trial in kinds}
    new = list(kinds) if folder is None else [trial for mark, trial in marks.items() if not mark.exists()]
    if new:
        check_values(new)
        for mark in marks:
            mark.touch()


if __name__ == "__main__":
    _trace(int(sys.argv[1]))
