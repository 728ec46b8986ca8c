"""The progress of a sweep for people: sentences about events, on a terminal above a live view, else in lines for a log.

The live view is redrawn when time passes in the driver's loop. So it needs no thread, and reads no count that is
changing. A notebook has one output that is written anew, with a bar, the counts, and what happened.
"""

import html
import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sweeper import events
from sweeper.events import Event
from sweeper.listeners.sweep_progress import PREPARING, RunningPack, SweepProgress
from sweeper.messages import counted, duration, inflected, printable

LINE_SECONDS = 10.0  # between two lines of counts in a log
NEWS_SECONDS = 2.0  # that a phase before training must last until a log gets a line about it
DRAWING_SECONDS = 0.25  # between two drawings of the live view
NOTEBOOK_SECONDS = 0.5  # between two drawings of the bar of a notebook
MAX_ROWS = 12  # largest number of running packs with a row of their own


class LogLines:
    """Prints sentences about events, and now and then the counts."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic):
        self._console, self._clock = console, clock
        self._progress = SweepProgress(clock)
        self._next, self._told = clock() + LINE_SECONDS, ""

    def hear(self, event: Event) -> None:
        self._progress.hear(event)
        lines, (doing, seconds) = sentences(event), self._progress.phase
        new = doing != self._told and seconds >= NEWS_SECONDS
        if isinstance(event, events.Ticked) and (new or self._clock() >= self._next):
            self._next, self._told = self._clock() + LINE_SECONDS, doing
            lines.append(self._progress.line())
        for line in lines:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class LiveView:
    """Redraws the counts of a sweep."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic):
        self._console, self._clock = console, clock
        self._progress = SweepProgress(clock)
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._next = clock()

    def hear(self, event: Event) -> None:
        self._progress.hear(event)
        for sentence in sentences(event):
            self._console.print(sentence, markup=False, highlight=False, soft_wrap=True)
        match event:
            case events.SweepStarted():
                self._live.start()
            case events.Ticked() if self._clock() >= self._next:
                self._next = self._clock() + DRAWING_SECONDS
                self._live.update(drawing(self._progress), refresh=True)
            case events.SweepEnded():
                self._live.stop()
            case _:
                pass


def drawing(progress: SweepProgress) -> RenderableType:
    """A row for each running pack, a bar for the whole sweep, and the line of counts."""
    rows = Table.grid(padding=(0, 2))
    packs = list(progress.packs.values())
    for pack in packs[:MAX_ROWS]:
        still = progress.still(pack)
        rows.add_row("", *_columns(pack), f"nothing new for {duration(still)}" if still else "")
    if hidden := len(packs[MAX_ROWS:]):
        rows.add_row("", f"and {counted(hidden, 'pack')} more")
    whole = Table.grid()
    whole.add_row(ProgressBar(total=max(1, progress.plan.trials), completed=progress.done + progress.failed, width=40))
    whole.add_row(Text(progress.line()))
    return Group(rows, whole)


def _columns(pack: RunningPack) -> list[RenderableType]:
    label, now = Text(printable(pack.started.label)), pack.progress
    bar = ProgressBar(total=now.steps or 1, completed=now.step, width=20)
    early = {"waiting": "waiting for its worker", "preparing": PREPARING, "compiling": "compiling"}
    loss = "" if now.phase in early or math.isnan(now.train_loss) else f"loss {now.train_loss:.3g}"
    return [label, bar, early.get(now.phase, f"{now.phase} {now.step:,}"), loss]


def notebook_display() -> Callable[..., Any] | None:
    """The function of IPython that makes an output of a notebook's cell; None where no notebook is."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display  # pyright: ignore[reportMissingImports]  whoever is here has it

    return display


class NotebookBar:
    """Writes one output of a cell anew while a sweep goes on."""

    def __init__(self, display: Callable[..., Any], clock: Callable[[], float] = time.monotonic):
        self._clock, self._progress, self._told = clock, SweepProgress(clock), list[str]()
        self._begun = self._next = clock()
        self._output = display(self._shown(), raw=True, display_id=True)

    def hear(self, event: Event) -> None:
        self._progress.hear(event)
        self._told += sentences(event)
        ended = isinstance(event, events.SweepEnded)
        if ended or self._clock() >= self._next:
            self._next = self._clock() + NOTEBOOK_SECONDS
            self._output.update(self._shown(ended), raw=True)

    def _shown(self, ended: bool = False) -> dict[str, str]:
        """The bar as HTML, and as text for whoever shows no HTML."""
        progress, total = self._progress, self._progress.plan.trials
        took = duration(self._clock() - self._begun)
        line = f"{progress.done:,}/{total:,} done · {progress.failed:,} failed · {took}" if ended else progress.line()
        done = progress.done + progress.failed
        lines = "".join(f"<br>{html.escape(told)}" for told in self._told)
        bar = f'<progress max="{max(1, total)}" value="{done}" style="width: 20em"></progress>'
        return {"text/html": f"{bar} {html.escape(line)}{lines}", "text/plain": "\n".join([line, *self._told])}


def sentences(event: Event) -> list[str]:
    """Lines about an event; none for an event that only changes counts. Foreign text in them is made printable."""
    return [printable(line) for line in _lines(event)]


def _lines(event: Event) -> list[str]:
    match event:
        case events.SweepStarted(address):
            return [f"running on {'this machine' if address is None else f'the Ray cluster at {address}'}"]
        case events.ResourcesAwaited(bundle):
            wanted = " and ".join(counted(amount, name) for name, amount in bundle.items())
            return [f"no node of the cluster has the {wanted} that a pack takes; waiting for one"]
        case events.LanesChosen(_, lanes, trial_ids, reason):
            return [f"{lanes:,} of {counted(len(trial_ids), 'trial')} of a pack are trained at once: {reason}"]
        case events.CoresIdle(_, cores, seconds, lanes):
            return [
                f"one pack trains on one of {cores:,} cores, for another {duration(seconds)}: after Ctrl-C, the same "
                f"command with --set resources.lanes={lanes} goes on with packs of {counted(lanes, 'trial')} on all"
            ]
        case events.CheckpointRefused(_, trial_ids, reason):
            return [f"the checkpoint of {_named(trial_ids)} {reason}: its training starts anew"]
        case events.PluginPrinted(_, lines):
            return [f"  printed: {line}" for line in lines]
        case events.WorkerDied(_, trial_ids, started, reason):
            when, then = ("with", "goes on from its last checkpoint") if started else ("before", "is started again")
            told = f"a worker died {when} {_named(trial_ids)}; the pack {then}"
            return [told] if reason is None else [told, f"  {reason}"]
        case events.PackFailed(_, trial_ids, reason, log):
            return [f"{_named(trial_ids)} failed: {reason}"] + ([f"  traceback on {log}"] if log else [])
        case events.TrialsLost(_, trial_ids, reason):
            return [f"{_named(trial_ids)} could not be committed: {reason}"]
        case events.SweepStopping(cause, packs, limit):
            why = {"store refuses": "nothing can be committed any more", "limit": limit}.get(cause, cause)
            return [f"{why}: {counted(packs, 'running pack')} asked to leave a checkpoint"]
        case events.SweepStopped(packs, checkpoints, finished) if packs:
            parts = [f"{checkpoints:,} of {counted(packs, 'pack')} left a checkpoint"]
            parts += [f"{finished:,} finished"] if finished else []
            if anew := packs - checkpoints - finished:
                parts.append(f"{anew:,} had none to leave and {inflected(anew, 'starts', 'start')} anew")
            return [", ".join(parts)]
        case _:
            return []


def _named(trial_ids: Sequence[str]) -> str:
    others = len(trial_ids) - 1
    return f"trial {trial_ids[0]}" + (f" and {others:,} more of its pack" if others else "")
