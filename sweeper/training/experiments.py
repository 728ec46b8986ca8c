"""Training and evaluation of experiments: pure functions of the trial around those of the author.

`init` and `advance` take trials and states with a leading lane axis; every lane is one trial. Time enters only through
the step counter in the state, which is folded into the trial's key. So the numbers do not depend on where a training is
cut into strides, by a checkpoint or by the death of a machine.

Between two programs a state is its arrays alone, with keys as plain numbers, because a checkpoint is an array file.
What else a state has, such as functions and static fields, is its structure. A structure may hold values of the program
that made it: an optimiser of flax that was made with a traced learning rate does. So a structure that is not the same
in every trace is made anew in every program, by `init`.

A lane with a number that is not finite among those for the curves is frozen at that step, with the reason; the
other lanes go on.
"""

import contextlib
import dataclasses
import functools
import gc
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from sweeper.progress import doing
from sweeper.training import compilation
from sweeper.training.kind import Checks, Keep, Kind, Names, Results, Traced
from sweeper.training.named_weights import first_difference, named_leaves
from sweeper.training.trainer import Failure, Trainer, over_lanes
from sweeper.trial import jax_settings, plugins, vectorisation
from sweeper.trial.contract_checks import ContractError, attributed, broken, check_array, check_name, place
from sweeper.trial.experiment_contract import Evaluated, Experiment, Step
from sweeper.trial.experiment_trial import ExperimentTrial
from sweeper.trial.start_from import replaced, starts_in
from sweeper.trial.trained import Trained

STRIDE = 100
"""Largest number of steps of one program."""

POINTS = 200
"""A training curve has about so many points, unless the trial says otherwise."""

LARGE = 2**20
"""Bytes of an array of data from which on it is moved by parts; and numbers of a part."""

ALIGNED = 64
"""JAX uses memory on a CPU as it is if its address is a multiple of so many bytes."""


class ExperimentState(NamedTuple):
    """State of a training; outside of this module every leaf has a leading lane axis."""

    network: tuple[Array, ...]  # the arrays of the state of the experiment, in order, keys as plain numbers
    step: Int[Array, "*lane"]  # steps done
    failure: Int[Array, "*lane"]  # 0, or 1 + the position in `curve_names` of the number that was not finite


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class KeyData:
    """A key, or an array of keys, of a kept network as plain numbers."""

    data: Any
    implementation: str = dataclasses.field(metadata={"static": True})


def _plain(state: PyTree) -> PyTree:
    """A state, or a network, with arrays alone as leaves and keys as plain numbers."""

    def plain(path: Any, leaf: Any) -> Any:
        if callable(leaf):
            name = jax.tree_util.keystr(path, simple=True, separator=".") or "all of it"
            words = (
                "is a function, and a state has arrays: eqx.partition(model, eqx.is_array) of equinox takes them apart"
            )
            raise TypeError(f"{name} {words}, and eqx.combine puts them together")
        array = jnp.asarray(leaf)
        if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
            return KeyData(jax.random.key_data(array), str(jax.random.key_impl(array)))
        return jax.lax.convert_element_type(array, array.dtype)  # a number of Python has a weak type

    return jax.tree_util.tree_map_with_path(plain, state)


def _typed(state: PyTree) -> PyTree:
    """A state, or a network, as an experiment knows it, of what `_plain` gives."""
    return jax.tree.map(
        lambda node: jax.random.wrap_key_data(node.data, impl=node.implementation) if _is_key(node) else node,
        state,
        is_leaf=_is_key,
    )


def _is_key(node: Any) -> bool:
    return isinstance(node, KeyData)


def _leaves(tree: PyTree) -> tuple[Any, ...]:
    return tuple(jax.tree.leaves(tree))


# Networks of other trials, in fields of an experiment


def _trained(trial: ExperimentTrial) -> Iterator[tuple[str, Trained]]:
    return ((path, start) for path, start in starts_in(trial) if isinstance(start, Trained))


def _bare(trial: ExperimentTrial) -> ExperimentTrial:
    """The trial as programs see it, but for the networks that its fields name."""
    seen = trial.for_programs()
    for path, start in _trained(seen):
        seen = replaced(seen, path, start.model_copy(update={"kept": None}))
    return seen


def _by_shapes(trial: ExperimentTrial) -> ExperimentTrial:
    """The trial, or stacked trials, as programs see it, with shapes in place of the networks that its fields name.

    It is a `ContractError` if a plan has not found one of them.
    """
    seen, lanes = trial.for_programs(), np.shape(trial.seed)
    for path, start in _trained(seen):
        if start.experiment is None:
            field = path.removeprefix("experiment.")
            raise ContractError(
                f"{place(trial.experiment, 'init')}: the field {field} names a trial of a store, which a plan finds: "
                "sweeper run SPACE --dry-run checks this experiment"
            )
        kept = _beginning(start.as_trial.model_copy(update={"seed": trial.seed})).kept
        shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((*lanes, *leaf.shape), leaf.dtype), kept)
        seen = replaced(seen, path, start.model_copy(update={"kept": shapes}))
    return seen


def _own(trial: ExperimentTrial) -> Experiment:
    """The experiment of a trial in a program, with the networks that its fields name as their authors know them."""
    return _typed(trial.experiment)


# Data


class _OutOfReach:
    """Stands for the value of a traced field where no trial's value may be used: whatever is done with it fails."""

    def __init__(self, field: str):
        self._field = field

    def _refuse(self, *_: Any) -> Any:
        raise TypeError(
            f"data is shared by trials that differ in the traced field '{self._field}', so it cannot use it"
        )

    __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __truediv__ = __rtruediv__ = __pow__ = _refuse
    __float__ = __int__ = __bool__ = __index__ = __array__ = __neg__ = __lt__ = __gt__ = __le__ = __ge__ = _refuse


def _without_leaves(trial: ExperimentTrial) -> tuple[Any, Experiment]:
    """The structure of an experiment, and a record of that structure whose traced fields cannot be used."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(_bare(trial).experiment)
    out_of_reach = [_OutOfReach(jax.tree_util.keystr(path, simple=True, separator=".")) for path, _ in leaves]
    return structure, structure.unflatten(out_of_reach)


_made: dict[tuple[Any, bool], tuple[PyTree, str | None]] = {}
"""Shapes and digest of the data that this process has made, see `_key`."""

_arrays: dict[tuple[Any, bool], PyTree] = {}
"""The data that this process has; at most one, as those of finished cells would fill the memory."""


def data_of(trial: ExperimentTrial) -> PyTree:
    """The data of a trial, or of stacked trials, as arrays on the device; once for trials that follow one another."""
    if (key := _key(trial)) not in _arrays:
        _forget()  # before others are made: the memory may have no room for both
        _, experiment = _without_leaves(trial)
        one = jax_settings.one_thread if vectorisation.in_turns() else contextlib.nullcontext
        with doing(f"making the data of the experiment '{experiment.name}'"), attributed(experiment, "data"), one():
            leaves, structure = jax.tree.flatten(experiment.data())
            arrays = structure.unflatten([_placed(leaves) for _ in range(len(leaves))])
            _made[key] = jax.eval_shape(lambda: arrays), _digest(_plain(arrays))
        _arrays[key] = arrays
    return _arrays[key]


def _forget() -> None:
    _arrays.clear()
    gc.collect(0)  # at which JAX lets go of arrays of numpy that are its own


def _key(trial: ExperimentTrial) -> tuple[Any, bool]:
    """The structure of the experiment of a trial, and whether its data are on a CPU."""
    return _without_leaves(trial)[0], vectorisation.in_turns()


def _made_of(trial: ExperimentTrial) -> tuple[PyTree, str | None]:
    """Shapes and digest of the data of a trial on a CPU, which are made if they never were; no device is needed."""
    with vectorisation.built_for("cpu"):
        if _key(trial) not in _made:
            data_of(trial)
        return _made[_key(trial)]


def _placed(leaves: list[Any]) -> Array:
    """The first of the leaves, which leaves the list, as an array of JAX.

    A large array of numpy is moved, from its end on, to where JAX can use it: an array that nobody else has shrinks
    meanwhile, so that both together take little more than one.
    """
    leaf = leaves.pop(0)
    numbers = type(leaf) is np.ndarray and leaf.dtype.kind in "biuf" and leaf.dtype.isnative
    if not (vectorisation.in_turns() and numbers and leaf.flags.c_contiguous and leaf.nbytes >= LARGE):
        return jnp.asarray(leaf)
    shape, size, dtype = leaf.shape, leaf.size, jax.dtypes.canonicalize_dtype(leaf.dtype)
    if isinstance(whole := leaf.base, np.ndarray) and (whole.dtype, whole.size) == (leaf.dtype, size):
        leaf = whole  # as `numpy.load` gives it: the same bytes in another shape
    del whole
    memory = np.empty(size * dtype.itemsize + ALIGNED, np.uint8)
    begin = -memory.ctypes.data % ALIGNED
    moved = memory[begin : begin + size * dtype.itemsize].view(dtype)
    for start in reversed(range(0, size, LARGE)):
        moved[start : start + LARGE] = leaf.reshape(-1)[start : start + LARGE]
        with contextlib.suppress(ValueError):  # somebody else has the array
            leaf.resize(start)
    return jax.device_put(moved.reshape(shape))


def _digest(data: PyTree) -> str | None:
    """Ten digits of the bytes of all arrays, their types, shapes and names; None without an array."""
    digest, leaves = hashlib.blake2b(digest_size=5), jax.tree_util.tree_leaves_with_path(data)
    for path, leaf in leaves:
        array = np.asarray(leaf)
        digest.update(f"{jax.tree_util.keystr(path)} {array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest() if leaves else None


def _shapes_of_data(trial: ExperimentTrial) -> PyTree:
    """The data with shapes in place of arrays."""
    on_gpu = _made.get((_key(trial)[0], False))
    return (on_gpu or _made_of(trial))[0]


# Structures


class Beginning(NamedTuple):
    """What shapes say of the state before the first step, with shapes in place of arrays and keys as `KeyData`."""

    state: PyTree
    kept: PyTree  # what a store keeps of it
    lasts: bool  # whether its structure is the same in every trace


_beginnings: dict[Any, Beginning] = {}
"""By the structure of the trial."""


def _beginning(trial: ExperimentTrial) -> Beginning:
    """What shapes say of the first state of a trial, or of stacked trials."""
    structure = jax.tree.structure(_bare(trial))
    if structure not in _beginnings:
        one, data, experiment = _one_by_shapes(trial), _shapes_of_data(trial), trial.experiment
        with vectorisation.built_for("cpu"):  # to ask which platform this is would start JAX, also in a driver
            with attributed(experiment, "init"):
                state = jax.eval_shape(_first, one, data)
            if not jax.tree.leaves(state):
                raise broken(experiment, "init", "a state without arrays", "a pytree of arrays")
            with attributed(experiment, "network"):
                again, kept = jax.eval_shape(_first_and_kept, one, data)
        if (other := first_difference(named_leaves(state), named_leaves(again))) is not None:
            name, now, then = other
            raise broken(experiment, "init", f"another state at each call ({name}: {now}, then {then})", "the same")
        lasts = _equal(jax.tree.structure(state), jax.tree.structure(again))
        _beginnings[structure] = Beginning(state, kept, lasts)
    return _beginnings[structure]


def _equal(one: Any, other: Any) -> bool:
    """Whether two structures are equal; those that cannot be compared, as they hold values of a trace, are not."""
    try:
        return bool(one == other)
    except Exception:  # whatever the `__eq__` of a static field raises
        return False


def _first(trial: ExperimentTrial, data: PyTree) -> PyTree:
    return _plain(_own(trial).init(_before(trial, data)))


def _first_and_kept(trial: ExperimentTrial, data: PyTree) -> tuple[PyTree, PyTree]:
    state = _own(trial).init(_before(trial, data))
    return _plain(state), _plain(_own(trial).network(state))


def _before(trial: ExperimentTrial, data: PyTree) -> Step:
    return Step(trial.keys().start, jnp.int32(0), trial.steps, data)


def _structure(trial: ExperimentTrial, data: PyTree) -> Any:
    """The structure of a state in the program that is traced. No result needs the arrays that `init` makes there."""
    state, _, lasts = _beginning(trial)
    return jax.tree.structure(state if lasts else _first(trial, data))


# Training


def _init(trial: ExperimentTrial, data: PyTree, network: Sequence[Any] | None = None) -> ExperimentState:
    """The state before the first step; of a trial that starts from a network, of its arrays."""
    if network is None:
        state = _first(trial, data)
    else:
        _, kept, lasts = _beginning(trial)
        structure = jax.tree.structure(kept if lasts else _first_and_kept(trial, data)[1])
        state = _plain(_own(trial).start_from(_typed(structure.unflatten(network)), _before(trial, data)))
    return ExperimentState(_leaves(state), jnp.int32(0), jnp.int32(0))


def _step(
    trial: ExperimentTrial, structure: Any, data: PyTree, now: ExperimentState
) -> tuple[ExperimentState, dict[str, Float[Array, ""]]]:
    """The state after a step, and its numbers in float32, in the order of their names."""
    at = Step(jax.random.fold_in(trial.keys().training, now.step), now.step, trial.steps, data)
    after, given = _own(trial).step(_typed(structure.unflatten(now.network)), at)
    numbers = {name: jnp.asarray(given[name], jnp.float32) for name in sorted(given)}
    strange = ~jnp.isfinite(jnp.stack(list(numbers.values())))
    failure = jnp.where(now.failure > 0, now.failure, jnp.where(strange.any(), 1 + jnp.argmax(strange), 0))
    moved = ExperimentState(_leaves(_plain(after)), now.step + 1, now.failure)
    kept = jax.tree.map(lambda new, old: jnp.where(failure == 0, new, old), moved, now)
    return kept._replace(failure=failure.astype(jnp.int32)), numbers


def _over_lanes(function: Callable[..., Any], trials: ExperimentTrial, *stacked: Any) -> Any:
    return (jax.vmap(function) if trials.lanes_together else functools.partial(over_lanes, function))(trials, *stacked)


def init(trials: ExperimentTrial, data: PyTree, networks: PyTree = None) -> ExperimentState:
    """The state before the first step, for trials stacked along a lane axis, which start from these networks if any."""
    return _over_lanes(lambda trial, network: _init(trial, data, network), trials, networks)


def advance(
    trials: ExperimentTrial, state: ExperimentState, data: PyTree, length: int
) -> tuple[ExperimentState, dict[str, Float[Array, " lane"]]]:
    """`length` steps of every lane and the means over them; nothing is read by the host in between."""

    def run(trial: ExperimentTrial, state: ExperimentState) -> tuple[ExperimentState, dict[str, Float[Array, ""]]]:
        structure = _structure(trial, data)
        moved, numbers = jax.lax.scan(lambda now, _: _step(trial, structure, data, now), state, length=length)
        return moved, jax.tree.map(jnp.mean, numbers)

    return _over_lanes(run, trials, state)


def _start(trials: ExperimentTrial, networks: PyTree = None) -> ExperimentState:
    data, networks = data_of(trials), None if networks is None else _leaves(networks)
    return compilation.kept(init, trials, data, networks, runs_once=True)(trials, data, networks)


def _stride(trials: ExperimentTrial, state: ExperimentState, length: int) -> tuple[ExperimentState, PyTree]:
    data = data_of(trials)
    program = compilation.kept(advance, trials, state, data, static=(length,), donate_argnums=1)
    return program(trials, state, data)


def _programs(trials: ExperimentTrial) -> Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]:
    made, trials = data_of(trials), _by_shapes(trials)
    data = jax.eval_shape(lambda: made)
    yield init, (trials, data)
    yield functools.partial(advance, length=1), (trials, jax.eval_shape(init, trials, data), data)
    if _can_start(trials.experiment):
        lanes = np.shape(trials.seed)
        kept = [jax.ShapeDtypeStruct((*lanes, *leaf.shape), leaf.dtype) for leaf in _leaves(_beginning(trials).kept)]
        yield init, (trials, data, tuple(kept))


def _memory(trials: ExperimentTrial) -> int:
    data, length = _shapes_of_data(trials), min(STRIDE, trials.steps)
    trials = _by_shapes(trials)
    state = jax.eval_shape(init, trials, data)
    return compilation.kept(advance, trials, state, data, static=(length,), donate_argnums=1).memory_bytes()


def _interval(trial: ExperimentTrial) -> int:
    """Steps from one point of a curve to the next."""
    if trial.curve_every is not None:
        return trial.curve_every
    interval = -(-trial.steps // POINTS)
    return interval if interval <= STRIDE else -(-interval // STRIDE) * STRIDE


# Contracts, by shapes


class Form(NamedTuple):
    """What shapes say of a trial, and of all trials of its structure."""

    curves: tuple[str, ...]  # names of the training curves
    outcomes: tuple[str, ...]  # names of the outcomes of an evaluation


_forms: dict[Any, Form] = {}
"""By the structure of the trial."""


def form_of(trial: ExperimentTrial) -> Form:
    """The form of a trial, or of stacked trials; a `ContractError` if the experiment breaks its contract.

    Every method is traced by shapes: nothing is computed, and no device is needed.
    """
    structure = jax.tree.structure(_bare(trial))
    if structure not in _forms:
        with vectorisation.built_for("cpu"):  # to ask which platform this is would start JAX, also in a driver
            _forms[structure] = _form(_one_by_shapes(trial), trial)
    return _forms[structure]


def _one_by_shapes(trial: ExperimentTrial) -> ExperimentTrial:
    """A trial, or one of stacked trials, with shapes in place of its leaves and of the networks in its fields."""

    def one(leaf: Any) -> jax.ShapeDtypeStruct:
        kind = np.int32 if jnp.issubdtype(jnp.result_type(leaf), np.integer) else np.float32
        return jax.ShapeDtypeStruct(np.shape(leaf)[lanes:], kind)

    lanes = np.ndim(trial.seed)
    return _by_shapes(jax.tree.map(one, _bare(trial)))


def _form(trial: ExperimentTrial, named: ExperimentTrial) -> Form:
    """The form of a trial whose leaves are shapes; `named` has the same record with values, for messages."""
    experiment, data = named.experiment, _shapes_of_data(named)
    _check_names(experiment)

    def traced(method: str, function: Callable[..., Any], *arguments: Any) -> Any:
        with attributed(experiment, method):
            return jax.eval_shape(function, trial, *arguments)

    begun, kept, lasts = _beginning(named)
    number: Any = jax.ShapeDtypeStruct((), np.int32)
    start = ExperimentState(_leaves(begun), number, number)
    seen: dict[str, Any] = {}

    def require_like_init(method: str, state: PyTree, structure: Any, what: str = "a state") -> None:
        by_shapes = jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype), state)
        if (other := first_difference(named_leaves(begun), named_leaves(by_shapes))) is not None:
            leaf, must, is_now = other
            given = f"{what} whose leaf {leaf or 'alone'} is {is_now}"
            raise broken(experiment, method, given, f"{must}, as in that of init")
        if (unlike := _unlike(structure, jax.tree.structure(state))) is not None:
            raise broken(experiment, method, *unlike)

    def step(trial: ExperimentTrial, now: ExperimentState, data: PyTree) -> PyTree:
        key, structure = jax.random.fold_in(trial.keys().training, now.step), _structure(trial, data)
        returned = _own(trial).step(_typed(structure.unflatten(now.network)), Step(key, now.step, trial.steps, data))
        if not isinstance(returned, tuple) or len(returned) != 2 or not isinstance(returned[1], Mapping):
            raise broken(experiment, "step", _described(returned), "a tuple of the next state and a mapping of numbers")
        for name, value in returned[1].items():
            check_array(experiment, "step", f"{name!r}", value, np.number)
        seen["curves"] = tuple(sorted(returned[1]))
        after = _plain(returned[0])
        require_like_init("step", after, structure)
        return _leaves(after)

    traced("step", step, start, data)
    if not seen["curves"]:
        raise broken(experiment, "step", "no number", "at least one for the training curves, such as the loss")
    for name in seen["curves"]:
        check_name(experiment, "step", name, [*experiment.metrics, *seen["curves"]])
        if name in experiment.metrics:
            raise broken(
                experiment, "step", f"a curve called {name!r}, as a metric", "another name, as both are stored"
            )

    def evaluated(trial: ExperimentTrial, now: ExperimentState, data: PyTree) -> PyTree:
        found = _evaluated(trial, now.network, now.step, data)
        return found.metrics, found.outcomes

    metrics, outcomes = traced("evaluate", evaluated, start, data)
    if set(metrics) != set(experiment.metrics):
        given, declared = (", ".join(sorted(names)) or "none" for names in (metrics, experiment.metrics))
        raise broken(experiment, "evaluate", f"the metrics {given}", f"those of the attribute metrics: {declared}")
    for name, value in metrics.items():
        check_array(experiment, "evaluate", f"{name!r}", value, np.number)
    if not isinstance(outcomes, Mapping):
        raise broken(experiment, "evaluate", f"outcomes of {_described(outcomes)}", "a mapping of arrays by name")
    for name, values in outcomes.items():
        check_name(experiment, "evaluate", name, outcomes)
        check_array(experiment, "evaluate", f"outcomes[{name!r}]", values, np.generic, input=None)
    if len({len(values.shape) and values.shape[0] for values in outcomes.values()}) > 1:
        raise broken(experiment, "evaluate", "outcomes of different lengths", "one entry for every input")

    def started(trial: ExperimentTrial, network: Sequence[Any], data: PyTree) -> None:
        structure = jax.tree.structure(kept if lasts else _first_and_kept(trial, data)[1])
        state = _plain(_own(trial).start_from(_typed(structure.unflatten(network)), _before(trial, data)))
        # A structure that does not last is made anew, by `init`, in whatever follows.
        wanted = jax.tree.structure(begun if lasts else state)
        require_like_init("start_from", state, wanted, f"{tried}, a state")

    if _can_start(experiment):
        tried = "from the network that this experiment keeps itself"
        try:
            traced("start_from", started, _leaves(kept), data)
        except ContractError as error:
            if tried in str(error):
                raise
            raise ContractError(f"{error} (tried {tried}: a trial starts from one of the same shapes)") from None
    return Form(seen["curves"], tuple(outcomes))


def _unlike(wanted: Any, given: Any) -> tuple[str, str] | None:
    """What a structure with the wanted leaves gives and must give; None if it is equal to the wanted one."""
    if _equal(wanted, given):
        return None
    pairs = zip(wanted.children(), given.children(), strict=False)
    inner = next((found for pair in pairs if (found := _unlike(*pair)) is not None), None)
    one, other = (node.node_data()[0].__name__ for node in (wanted, given))
    if inner is not None or one != other:
        return inner or (f"a state with a {other} where init has a {one}", "like that of init")
    must = "those of init: make what changes from step to step of arrays (optax.inject_hyperparams for an optimiser)"
    return f"a state whose {other} has other functions or static fields than that of init", must


def _can_start(experiment: Experiment) -> bool:
    """Whether an experiment says what a state is that begins with a network, or keeps whole states as networks."""
    own = type(experiment)
    return own.start_from is not Experiment.start_from or own.network is Experiment.network


def _check_names(experiment: Experiment) -> None:
    declared, where = type(experiment).metrics, type(experiment).__name__
    if not declared or not isinstance(declared, Mapping):
        must = f'{where}.metrics, such as `metrics: ClassVar = {{"accuracy": "max"}}`'
        raise broken(experiment, "evaluate", "no names of metrics", must)
    for name, mode in declared.items():
        check_name(experiment, "evaluate", name, declared)
        if mode not in ("min", "max"):
            raise broken(experiment, "evaluate", f"{mode!r} for the metric {name!r}", "'min' or 'max'")


def _described(value: Any) -> str:
    return f"type {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, tuple) else "")


# Evaluation


def _evaluated(trial: ExperimentTrial, network: Sequence[Any], step: Int[Array, ""], data: PyTree) -> Evaluated:
    at = Step(trial.keys().evaluation, step, trial.steps, data)
    found = _own(trial).evaluate(_typed(_structure(trial, data).unflatten(network)), at)
    if isinstance(found, Evaluated):
        return found
    if not isinstance(found, Mapping):
        raise broken(trial.experiment, "evaluate", _described(found), "a mapping of numbers, or Evaluated")
    return Evaluated(found)


def _evaluation(trial: ExperimentTrial, network: Sequence[Any], step: Int[Array, ""], data: PyTree) -> tuple[Any, Any]:
    found = _evaluated(trial, network, step, data)
    return tuple(
        {name: jnp.asarray(value, jnp.float32) for name, value in of.items()} for of in (found.metrics, found.outcomes)
    )  # type: ignore[return-value]  # two of them


def _kept(trial: ExperimentTrial, network: Sequence[Any], data: PyTree) -> PyTree:
    return _plain(_own(trial).network(_typed(_structure(trial, data).unflatten(network))))


class Experiments(Kind[ExperimentTrial]):
    """Trials of an experiment."""

    record = ExperimentTrial
    DIRECTIONS_OF_ALL = True

    def trainer(self, trial: ExperimentTrial) -> Trainer[Any]:
        return _trainer(jax.tree.structure(trial.for_programs()), min(STRIDE, _interval(trial)))

    def evaluate(self, trial: ExperimentTrial, network: PyTree, step: int) -> Results:
        data, done = data_of(trial), np.int32(step)
        program = compilation.kept(_evaluation, trial, network, done, data)
        metrics, outcomes = jax.tree.map(np.asarray, program(trial, network, done, data))
        return Results({name: float(metrics[name]) for name in trial.experiment.metrics}, outcomes, program.digest)

    def data(self, trial: ExperimentTrial) -> str | None:
        data_of(trial)
        return _made[_key(trial)][1]

    def forget_data(self) -> None:
        _made.clear()  # until it is made again, a file of data may be edited
        _forget()

    def final(self, curves: Mapping[str, float]) -> dict[str, float]:
        return dict(curves)

    def kept(self, trial: ExperimentTrial, network: PyTree) -> PyTree:
        state, _, lasts = _beginning(trial)
        if lasts or type(trial.experiment).network is Experiment.network:
            return jax.tree.map(np.asarray, trial.experiment.network(jax.tree.structure(state).unflatten(network)))
        data = data_of(trial)
        program = compilation.kept(_kept, trial, network, data, runs_once=True)
        return jax.tree.map(np.asarray, program(trial, network, data))

    def built(self, trial: ExperimentTrial) -> PyTree:
        return _beginning(trial).kept

    def restored(self, trial: ExperimentTrial, kept: PyTree) -> PyTree:
        data, network = data_of(trial), _leaves(kept)
        return compilation.kept(_init, trial, data, network, runs_once=True)(trial, data, network).network

    def misfit(self, trial: ExperimentTrial, changed: ExperimentTrial) -> str | None:
        difference = first_difference(named_leaves(self.startable(changed)), named_leaves(self.built(trial)))
        if difference is None:
            return None
        name, must, is_now = difference
        return f"what is stored does not fit: {name} is {is_now}, must be {must}"

    def startable(self, trial: ExperimentTrial) -> PyTree:
        if not _can_start(trial.experiment):
            must = "all of it, as there is no method start_from that makes a state of a part"
            raise broken(trial.experiment, "network", "a part of the state", must)
        return _beginning(trial).kept

    def by_shapes(self, trial: ExperimentTrial) -> ExperimentTrial:
        return _by_shapes(trial)

    def names(self, trial: ExperimentTrial) -> Names:
        known = all(start.found for _, start in _trained(trial))  # while a space is read, a store is not at hand
        return Names(list(trial.experiment.metrics), list(form_of(trial).outcomes) if known else [])

    def directions(self, trial: ExperimentTrial) -> Mapping[str, bool]:
        return {name: mode == "max" for name, mode in trial.experiment.metrics.items()}

    def checks_by_shapes(self, trial: ExperimentTrial, keep: Keep) -> Checks:
        def check() -> None:
            form_of(trial)
            keep(_beginning(trial).kept, trial.experiment, "network")

        return {trial.words: check}

    def trace_programs(self, trial: ExperimentTrial, traced: Traced) -> None:
        experiment = trial.experiment
        # The arrays themselves would be constants of a program, and its text three times as large as they are.
        data, digest = _made_of(trial)
        traced(experiment, "data", lambda _: jnp.asarray(np.frombuffer((digest or "").encode(), np.uint8)))
        state = traced(experiment, "init", _init, data)
        traced(experiment, "step", lambda trial, *now: _step(trial, _structure(trial, data), *now), data, state)
        traced(experiment, "evaluate", _evaluation, state.network, state.step, data)
        if _can_start(experiment):
            traced(experiment, "start_from", _init, data, _leaves(_beginning(trial).kept))

    def examples(self, kind: plugins.Kind, name: str) -> list[ExperimentTrial]:
        # A schedule has room for its warm-up.
        return [ExperimentTrial.model_validate({"experiment": {"name": name}, "steps": 1000})]


@functools.lru_cache(256)
def _trainer(structure: Any, stride: int) -> Trainer[Any]:
    """The trainer of all trials of a structure."""
    return Trainer(
        stride_steps=stride,
        curves=(),
        own_curves=lambda trial: form_of(trial).curves,
        curve_interval=_interval,
        start=_start,
        stride=_stride,
        programs=_programs,
        memory=_memory,
        failure=lambda trial, number: Failure(f"non-finite {form_of(trial).curves[number - 1]}"),
    )


KIND = Experiments()
