"""Ends a start at the limits of its space: a time, a number of failed trials, a metric that is good enough.

A start that has come to a limit ends as after Ctrl-C: running packs leave checkpoints, and the next start goes on.
"""

import time
from collections.abc import Callable, Iterable

from sweeper import events
from sweeper.analysis.results import finite_values
from sweeper.events import Event
from sweeper.interruption import Interruption
from sweeper.messages import counted
from sweeper.sweeps.sweep_plan import SweepPlan


class LimitsWatch:
    """A listener that ends its start at the first limit. The goal may be reached before: then it ends at once."""

    def __init__(self, plan: SweepPlan, interruption: Interruption, clock: Callable[[], float] = time.monotonic):
        self._plan, self._interruption, self._limits = plan, interruption, plan.spec.limits
        self._clock, self._begun, self._failed = clock, clock(), 0
        self.goal_reached = False
        self._compare(key for key, status in plan.settled.items() if status == "finished")

    def hear(self, event: Event) -> None:
        limits = self._limits
        match event:
            case events.Ticked() if limits.hours is not None and self._clock() - self._begun >= 3600 * limits.hours:
                self._interruption.end(f"limits.hours: {counted(limits.hours, 'hour')} are over")
            case events.TrialCommitted(status="failed"):
                self._failed += 1
                if self._failed == limits.failures:
                    self._interruption.end(f"limits.failures: {counted(self._failed, 'trial')} failed")
            case events.TrialCommitted(trial_id=trial_id, status="finished"):
                self._compare([trial_id])
            case _:
                pass

    def _compare(self, finished: Iterable[str]) -> None:
        goal = self._limits.goal
        if goal is None or self.goal_reached:
            return
        trials = [self._plan.trials[key] for key in finished]
        for value in filter(goal.reached, finite_values(self._plan.store, trials, goal.metric) or ()):
            self.goal_reached = True
            self._interruption.end(f"limits.goal: {goal.metric} is {value:.6g}")
