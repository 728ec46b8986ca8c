"""Trials on which `sweeper check` holds a plug-in against its contract.

A task comes with every model, every other plug-in with one or some tasks.
"""

from collections.abc import Iterator
from typing import Any

from sweeper.learned_algorithms.trial_spec import Baseline, TrialSpec
from sweeper.messages import printable_lines
from sweeper.trial import plugins


def examples(kind: plugins.Kind, name: str) -> list[TrialSpec]:
    """Trials with a plug-in; pydantic's `ValidationError` if there are none with its defaults."""
    plugin: Any = plugins.load(kind, name)
    tasks = [plugin()] if kind == "task" else _tasks(kind == "objective" and plugin.needs_groups)
    models = [name] if kind == "model" else [other for other, _ in _others("model")]
    written = {kind: {"name": name}} if kind in ("objective", "optimizer") else {}
    return [
        TrialSpec.model_validate({
            "task": task, "model": {"name": model}, "baseline": Baseline.Aq_R, "batch_size": 12, "steps": 1,
            "optimizer": {"name": "adam" if task.abilities().differentiable else "pgpe"}, **written,
        })
        for task in tasks
        for model in (models if kind == "task" else models[:1])
    ]  # fmt: skip


def _tasks(with_groups: bool) -> list:
    """The project's own tasks, or else a small one that comes with this package."""
    own = {file.stem for file in (plugins.PROJECT / "tasks").glob("*.py")} if plugins.PROJECT != plugins.SHIPPED else ()
    tasks = [task() for name, task in _others("task") if name in own]
    suitable = [task for task in tasks if not with_groups or task.abilities().groups is not None]
    return suitable or [plugins.load("task", "coloring")(vertices=5)]


def _others(kind: plugins.Kind) -> Iterator[tuple[str, Any]]:
    """The plug-ins of a kind, by name; one that cannot be loaded is no fault of the file that is checked."""
    for name in plugins.names(kind):
        try:
            yield name, plugins.load(kind, name)
        except plugins.PluginError as error:
            first = str(error).splitlines()[0]
            print(printable_lines(f"not checked with the {kind} {name}, which cannot be loaded: {first}"))
