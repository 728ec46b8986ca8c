"""What the driver makes of what Tune tells of workers: events, failed rows, packs that are started again."""

import dataclasses
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import ActorDiedError, RayTaskError
from ray.tune.experiment import Trial

from sweeper import events
from sweeper.events import Stream
from sweeper.interruption import Interruption
from sweeper.launch import job as messages
from sweeper.launch import tune_callback
from sweeper.launch.job import SHORT, Job, Report, Training, WorkKind, decoded, encoded
from sweeper.launch.ray_internals import KilledForMemory
from sweeper.packs import plan
from sweeper.packs.failures import LOST_IN_A_ROW, Failed, Lost
from sweeper.space.resources import Resources
from sweeper.store.store import Store, StoreError
from sweeper.trial import provenance
from tests.heard import Heard
from tests.launch.workers import EVALUATION, PAIR, Worker, whole
from tests.results import result
from tests.trials import coloring_trial

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("programs")]


class TuneTrial(Trial):
    """A trial of Tune; a whole one cannot be had without a cluster."""

    last_result = None

    def __init__(self, work: plan.Work):
        self.trial_id, self.config = "0001", encoded(work)
        self.taken: list[plan.Work] = []  # what its worker got beside its first pack
        take = SimpleNamespace(remote=lambda packs: self.taken.extend(map(decoded, packs)))
        self.temporary_state = SimpleNamespace(ray_actor=SimpleNamespace(take=take))

    @property
    def pending(self) -> tuple[str, ...]:
        return decoded(self.config).pending


class Driver:
    """The callback of a pack of two that is under way, and what belongs to it."""

    def __init__(self, folder: Path, work_kind: WorkKind = Training()):
        self.now = 0.0
        work = PAIR
        self.store, self.heard = Store.open(folder), Heard()
        planned = dict(zip(work.pack.trial_ids, work.pack.trials, strict=True))
        self.source = plan.ListedWork(plan.plan(planned, None, {}, plan.done_statuses(False, False)))
        assert self.source.next() == work
        self.errors = tune_callback.TrialErrors()
        self.errors.latest = ActorDiedError()
        planned = events.SweepPlanned("test", trials=2, done=0, failed=0, steps={}, programs=0)
        origin = provenance.capture("test")
        job = Job(self.source, lambda: planned, self.store, origin, Resources(), work_kind)
        stream = Stream([self.heard.hear], warn=print)
        orders: Any = SimpleNamespace(leave=lambda: None)
        self.interruption = Interruption()
        self.patience = tune_callback.Patience(clock=lambda: self.now)
        self.callback = tune_callback.SweepCallback(job, stream, self.interruption, orders, self.errors, self.patience)
        self.trial, self.worker, self.work = TuneTrial(work), Worker(work, folder), work

    def starts(self) -> None:
        """The worker of the pack takes it up."""
        self.callback.on_trial_start(0, [], self.trial)

    def reports(self, *reports: Report, ends: bool = False) -> None:
        """Tune hands reports on, of which the last may end the Tune trial."""
        told = messages.result(reports, ends) | {"node_ip": "10.0.0.7", "hostname": "seven"}
        self.callback.on_trial_result(0, [], self.trial, told)

    def is_interrupted(self) -> None:
        """A signal comes while the pack is running."""
        self.trial.status = Trial.RUNNING
        self.interruption.signum = 2
        self.callback.on_step_end(0, [self.trial])


@pytest.fixture
def driver(tmp_path) -> Driver:
    """The driver of a pack that a worker has taken up, which is told already."""
    driver = Driver(tmp_path)
    driver.starts()
    driver.heard.events.clear()
    return driver


def test_a_pack_is_told_from_start_to_end(driver):
    driver.starts()
    while True:
        report = driver.worker.report()
        driver.reports(report)
        if report.done:
            break
    driver.callback.on_trial_complete(0, [], driver.trial)
    pack_id, (first, second) = driver.work.pack.pack_id, driver.work.pending
    heard = driver.heard.events
    assert heard[0] == events.PackStarted(pack_id, "coloring Aq_R seed=0,1", (first, second), 300)
    assert heard[-1] == events.PackEnded(pack_id)
    assert driver.heard.all(events.TrialCommitted) == [
        events.TrialCommitted(pack_id, first, "finished"), events.TrialCommitted(pack_id, second, "finished"),
    ]  # fmt: skip
    assert [progress.step for progress in driver.heard.all(events.PackProgressed)][:3] == [100, 200, 300]


def test_trials_that_cannot_be_recorded_are_not_run(driver, monkeypatch):
    def refuse(pack_id, whole):
        raise StoreError("cannot write it: no space left")

    further = whole(coloring_trial(seed=2))
    driver.source.put_back(further)
    monkeypatch.setattr(driver.source, "settle", refuse)
    driver.reports(Report(done=True), ends=True)
    assert driver.callback.stopping
    (loss,) = driver.callback.launched.losses
    assert (loss.trial_ids, loss.reason) == (
        further.pending, "the sweep's plan cannot be recorded: cannot write it: no space left",
    )  # fmt: skip


@pytest.mark.parametrize(("phase", "checkpoint"), [("training", True), ("compiling", False), ("done", False)])
def test_after_an_interruption_only_checkpoints_that_exist_count(driver, phase, checkpoint):
    driver.is_interrupted()
    assert driver.heard.all(events.SweepStopping) == [events.SweepStopping("interrupted", 1)]
    pack_id = driver.work.pack.pack_id
    driver.store.write_bytes("checkpoints/0123456789.ckpt", b"of another pack")
    if checkpoint:
        driver.store.write_bytes(f"checkpoints/{pack_id}.ckpt", b"left")
    progress = dataclasses.replace(driver.worker.report().progress, phase=phase)
    driver.reports(Report(done=True, progress=progress))
    driver.callback.on_trial_complete(0, [], driver.trial)
    with pytest.raises(tune_callback.Ended):
        driver.callback.on_step_end(0, [driver.trial])
    (stopped,) = driver.heard.all(events.SweepStopped)
    assert stopped == events.SweepStopped(1, checkpoints=int(checkpoint), finished=int(phase == "done"))


def test_after_a_death_committed_trials_are_not_run_again(driver):
    first, second = driver.trial.pending
    while not driver.store.committed():
        driver.worker.report()
    driver.callback.on_trial_recover(0, [], driver.trial)
    assert driver.trial.pending == (second,)
    while len(driver.store.committed()) < 2:
        driver.worker.report()
    # The last worker died between its last commit and its report, and so does the worker that takes its place.
    for _ in range(2):
        driver.callback.on_trial_recover(0, [], driver.trial)
        assert driver.trial.pending == ()
    assert Worker(decoded(driver.trial.config), Path(driver.store.root)).report() == Report(done=True)
    pack_id = driver.work.pack.pack_id
    assert driver.heard.events == [
        events.WorkerDied(pack_id, (first, second), started=True),
        events.TrialCommitted(pack_id, first, "finished"),
        events.WorkerDied(pack_id, (second,), started=True),
        events.TrialCommitted(pack_id, second, "finished"),
        events.WorkerDied(pack_id, (first, second), started=True),
    ]
    assert not list(Path(driver.store.root).glob("checkpoints/*"))


def test_a_worker_that_is_killed_for_memory_says_so_at_its_first_death(driver):
    driver.errors.latest = KilledForMemory(error_msg="the node is full")
    driver.callback.on_trial_recover(0, [], driver.trial)
    driver.callback.on_trial_error(0, [], driver.trial)
    assert all("memory: try --concurrency 1" in died.reason for died in driver.heard.all(events.WorkerDied))


def test_a_worker_that_dies_between_two_packs_fails_neither(driver):
    for _ in range(driver.patience.deaths):
        driver.callback.on_trial_error(0, [], driver.trial)
        assert driver.source.next() == driver.work
        driver.starts()
    pack_id = driver.work.pack.pack_id
    died = events.WorkerDied(pack_id, driver.work.pending, started=False)
    ends = [event for event in driver.heard.events if not isinstance(event, events.PackStarted)]
    assert ends == [died, events.PackEnded(pack_id)] * driver.patience.deaths
    driver.callback.on_trial_error(0, [], driver.trial)
    assert driver.source.exhausted
    assert set(driver.store.trials()["error_message"].to_pylist()) == {"its worker died 4 times"}
    assert driver.heard.all(events.PackFailed) == [
        events.PackFailed(pack_id, driver.work.pending, "its worker died 4 times", None)
    ]
    assert {event.status for event in driver.heard.all(events.TrialCommitted)} == {"failed"}


TRACEBACK = "\x1b[36mray::PackWorker.__init__()\x1b[39m (pid=7)\n  File\nImportError: no module called jax"
IN_CREATION = ActorDiedError(RayTaskError("PackWorker", TRACEBACK, ImportError()))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (None, "unknown reason"),
        (RuntimeError("no such module"), "no such module"),
        (IN_CREATION, "ImportError: no module called jax"),
    ],
)
def test_a_worker_that_does_not_start_costs_no_trial_its_row(driver, error, said):
    driver.errors.latest = error
    driver.callback.on_trial_error(0, [], driver.trial)
    (lost,) = driver.callback.launched.losses
    assert lost.trial_ids == driver.work.pending
    assert lost.reason == f"its worker did not start: {said}"
    assert driver.store.committed() == {}


def test_failures_and_losses_are_told_with_their_reasons(driver):
    first, second = driver.work.pending
    pack_id = driver.work.pack.pack_id
    for trouble in (Failed((second,), "ValueError: no", "worker.err"), Lost("disk full")):
        driver.reports(Report(done=True, trouble=trouble))
        driver.starts()
    failed, lost = (driver.heard.all(kind) for kind in (events.PackFailed, events.TrialsLost))
    assert driver.heard.events[0] == events.TrialCommitted(pack_id, second, "failed")
    assert failed == [events.PackFailed(pack_id, (first, second), "ValueError: no", "10.0.0.7: worker.err")]
    assert lost == [events.TrialsLost(pack_id, (first, second), "disk full")]


def test_a_store_that_takes_nothing_stops_the_sweep(driver):
    def ends(trouble: Lost | None) -> None:
        driver.reports(Report(done=True, trouble=trouble))
        driver.starts()

    ends(Lost("disk full"))
    ends(None)
    for _ in range(LOST_IN_A_ROW):
        assert not driver.callback.stopping
        ends(Lost("disk full"))
    assert driver.callback.launched.refused
    assert driver.callback.stopping


# Several short packs in a Tune trial


def _more(driver: Driver, count: int) -> list[plan.Work]:
    """Further packs of the source, with the program of the first."""
    more = [whole(coloring_trial(seed=seed), coloring_trial(seed=seed + 1)) for seed in range(2, 2 * count + 2, 2)]
    for work in reversed(more):
        driver.source.put_back(work)
    return more


def test_a_worker_of_short_packs_gets_a_second_of_them_in_its_tune_trial(driver):
    more = _more(driver, 7)
    driver.reports(Report(done=True, seconds=0.3 * SHORT))
    assert driver.trial.taken == more[:4]
    driver.reports(*[Report(done=True, seconds=0.5 * SHORT)] * 4)
    assert driver.trial.taken == more[:6]
    started, ended = (
        [event.pack_id for event in driver.heard.all(kind)] for kind in (events.PackStarted, events.PackEnded)
    )
    names = [work.pack.pack_id for work in (driver.work, *more)]
    assert (started, ended) == (names[1:6], names[:5]), "one is told to run at a time"
    driver.interruption.signum = 2
    driver.reports(*[Report(done=True, seconds=0.5 * SHORT)] * 2)
    assert driver.trial.taken == more[:6], "a sweep that ends starts nothing"


def test_workers_share_the_short_packs_that_are_left(driver):
    other = TuneTrial(driver.work)
    other.trial_id = "0002"
    driver.callback.on_trial_start(0, [], other)
    more = _more(driver, 3)
    driver.reports(Report(done=True, seconds=0.01 * SHORT))
    assert driver.trial.taken == more[:2]


def test_a_pack_of_another_program_comes_alone_until_its_seconds_are_known(driver):
    for work in (whole(coloring_trial(seed=2)), whole(coloring_trial(steps=400))):
        driver.source.put_back(work)
    driver.reports(Report(done=True, seconds=0.01 * SHORT))
    assert [work.until for work in driver.trial.taken] == [400]


def test_a_death_costs_a_worker_the_pack_that_it_was_at(driver):
    more = _more(driver, 3)
    driver.reports(Report(done=True, seconds=0.01 * SHORT))
    assert driver.trial.taken == more
    for trial in more[0].pack.trials:  # after which it died, at the next
        driver.store.commit(dataclasses.replace(result(), trial=trial))
    driver.callback.on_trial_recover(0, [], driver.trial)
    (died,) = driver.heard.all(events.WorkerDied)
    assert died.trial_ids == more[1].pending
    assert decoded(driver.trial.config) == more[1]
    assert driver.source.upcoming() == (more[2],)
    assert driver.heard.all(events.PackEnded)[-1] == events.PackEnded(more[0].pack.pack_id)
    driver.starts()
    driver.callback.on_trial_error(0, [], driver.trial)
    assert driver.source.upcoming() == (more[1], more[2])


def test_a_worker_without_news_is_ended_which_counts_as_a_death(driver, monkeypatch):
    killed = []
    monkeypatch.setattr(tune_callback.ray, "kill", killed.append)
    limit = Resources().progress_seconds
    told = driver.worker.report().progress

    def passes(seconds: float) -> int:
        driver.now += seconds
        driver.callback.on_step_end(0, [driver.trial])
        return len(killed)

    driver.callback.on_trial_start(0, [], driver.trial)
    assert passes(limit - 1) == 0
    driver.reports(Report(done=False, progress=told))
    assert passes(limit - 1) == 0
    driver.reports(Report(done=False, progress=dataclasses.replace(told, train_loss=0.5)))  # no news
    assert passes(1) == 1
    driver.callback.on_trial_recover(0, [], driver.trial)
    (died,) = driver.heard.all(events.WorkerDied)
    assert "60 min" in died.reason
    driver.callback.on_trial_start(0, [], driver.trial)
    assert (passes(limit - 1), passes(1)) == (1, 2)


def test_that_no_node_can_hold_a_pack_is_told_once_until_one_can(tmp_path, monkeypatch):
    monkeypatch.setattr(tune_callback.ray, "nodes", lambda: [{"Alive": True, "Resources": {}}])
    driver = Driver(tmp_path)
    awaited = events.ResourcesAwaited(Resources().bundles()[0])

    def told_after(seconds: float) -> list[events.ResourcesAwaited]:
        driver.now += seconds
        driver.callback.on_step_end(0, [driver.trial])
        return driver.heard.all(events.ResourcesAwaited)

    assert told_after(0) == [awaited], "at the first look"
    assert told_after(10) == [awaited]
    driver.callback.on_trial_start(0, [], driver.trial)  # a node has joined
    assert told_after(10) == [awaited]
    driver.callback.on_trial_complete(0, [], driver.trial)  # and left
    assert told_after(10) == [awaited] * 2


def test_the_error_of_a_trial_comes_from_tunes_log_and_is_shown_nowhere(capfd):
    errors = tune_callback.TrialErrors()
    with errors.listening():  # whatever module of Tune has the loop
        logging.getLogger("ray.tune.any.module").error("Trial task failed for trial X", exc_info=ActorDiedError())
    assert isinstance(errors.latest, ActorDiedError)
    assert errors not in logging.getLogger("ray.tune").handlers
    assert capfd.readouterr() == ("", "")


def test_deaths_during_an_evaluation_leave_no_failed_rows(tmp_path):
    driver = Driver(tmp_path, EVALUATION)
    driver.starts()
    for seed in (0, 1):
        driver.store.commit(result({"seed": seed}))
    before = driver.store.committed()
    driver.callback.on_trial_recover(0, [], driver.trial)
    assert driver.trial.pending == driver.work.pending, "the next worker passes over what has been evaluated"
    for _ in range(driver.patience.deaths):
        driver.starts()
        driver.callback.on_trial_error(0, [], driver.trial)
    assert driver.store.committed() == before
    (loss,) = driver.callback.launched.losses
    assert "its worker died" in loss.reason
