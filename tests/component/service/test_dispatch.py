"""The dispatcher on a real database: what is due runs once, one at a time, whatever dies or is away meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from nightsweep.errors import StoreUnavailable
from nightsweep.plan import queue
from nightsweep.plan.model import Schedule
from nightsweep.plan.queue import Night, Scheduled
from nightsweep.plan.remaining import remaining
from nightsweep.ports import INTERRUPTED, Lease
from nightsweep.service.dispatch import PATIENCE, RUNNER_ENDS, Dispatcher
from nightsweep.service.prefect_server import PrefectUnavailable
from nightsweep.store.owner import new_owner
from nightsweep.store.postgres import PostgresStore, connect
from nightsweep.store.queries import Queries
from nightsweep.store.schedules import Schedules
from nightsweep.units import Seconds
from tests.fakes.clock import EVENING, FakeClock
from tests.fakes.runs import FakeRuns
from tests.storekit.builders import a_box, a_plan, a_window, some_conditions

NIGHTLY = Schedule(cron="30 22 * * *", until="07:00")


class Killed(BaseException):
    """The service is gone, at this very call."""


@dataclass
class World:
    """A box with schedules, its database, a Prefect, and a service that can be started again."""

    records: Schedules
    store: PostgresStore
    queries: Queries
    clock: FakeClock = field(default_factory=lambda: FakeClock(start=EVENING - timedelta(hours=1)))
    said: list[str] = field(default_factory=list)
    held: dict[str, Lease] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.runs = FakeRuns(self.clock)
        self.serve()

    def serve(self) -> None:
        """Start the service (again)."""
        self.service = self.a_service(self.records, self.runs)

    def a_service(self, records: Any, runs: Any) -> Dispatcher:
        return Dispatcher(box="box-a", records=records, runs=runs, started=self.clock.now(), say=self.said.append)

    def put(self, name: str = "depth", when: Schedule = NIGHTLY, **given: Any) -> None:
        values = {"file_text": f"name: {name}", "source": "f.yaml", "base": "/srv", "at": self.clock.now(), **given}
        self.records.put(when, box="box-a", name=name, **values)

    def night(self, name: str = "depth") -> Night:
        night = self.row(name).night
        assert night is not None
        return night

    def row(self, name: str = "depth") -> Scheduled:
        return next(row for row in self.records.all("box-a") if row.name == name)

    def tick(self, *, after: float = 2.0, times: int = 1) -> None:
        for _ in range(times):
            self.clock.advance(after)
            self.service.tick(self.clock.now())

    def evening(self, *, late: timedelta = timedelta(0)) -> None:
        """Let it be the start of the night, and look."""
        self.clock.advance((EVENING + late - self.clock.now()).total_seconds())
        self.tick(after=0.0)

    # --- what a flow does

    def begins(self, run: str, *, name: str = "depth", owner: str | None = None) -> Lease:
        self.runs.becomes(run, "RUNNING")
        lease = self.claimed(name, owner=owner)
        self.store.note_prefect_run(lease.sweep_id, run)
        return lease

    def claimed(self, name: str, *, owner: str | None = None) -> Lease:
        box_id = self.store.box_id(a_box("box-a"))
        sweep_id = self.store.open_sweep(a_plan(name=name), box_id=box_id, file_text="")
        return self.store.claim(sweep_id, owner=owner or new_owner(), ttl=Seconds(60.0))

    def ends(self, lease: Lease, run: str, *, state: str = "done", note: str = "all is measured") -> None:
        self.store.release(lease, state=state, note=note)
        self.runs.becomes(run, "COMPLETED")


@pytest.fixture
def world(engine: sa.Engine, store: PostgresStore, queries: Queries) -> World:
    return World(Schedules(engine), store, queries)


def a_dead_owner() -> str:
    host, _, start, word = new_owner().split(":")
    return f"{host}:{2**22 + 1}:{start}:{word}"


def test_a_night_runs_once_with_its_end_and_is_followed_to_its_end(world: World) -> None:
    world.put()
    world.tick(times=3)
    assert world.runs.asked == {}
    world.evening()
    end = (EVENING + timedelta(hours=8, minutes=30)).isoformat()
    asked = {"file_text": "name: depth", "name": "depth", "base": "/srv", "until": end, "begin_by": end}
    assert world.runs.asked == {"run-1": asked}
    world.tick(times=3)
    assert world.night().state == queue.SUBMITTED
    lease = world.begins("run-1")
    world.tick(times=3)
    assert (world.night().state, world.night().sweep_id) == (queue.RUNNING, lease.sweep_id)
    world.ends(lease, "run-1")
    world.tick(times=6, after=2000.0)
    assert (world.night().state, list(world.runs.asked)) == (queue.DONE, ["run-1"])
    assert [event.kind for event in world.queries.events()] == ["night_done", "night_started", "night_due"]
    world.clock.advance(86_400 - 3 * 3600)
    world.tick(after=0.0)
    assert list(world.runs.asked) == ["run-1", "run-2"]


def test_another_end_is_that_of_a_night_that_waits_and_not_of_one_that_runs(world: World) -> None:
    world.put()
    hand = world.claimed("hand")
    world.evening()
    world.tick()
    assert world.night().state == queue.QUEUED
    world.put(when=replace(NIGHTLY, until="06:00"))
    world.store.release(hand, state="done", note="")
    world.tick()
    end = EVENING + timedelta(hours=7, minutes=30)
    assert world.runs.asked["run-1"]["until"] == end.isoformat()
    world.begins("run-1")
    world.put(when=replace(NIGHTLY, until="05:00"))
    world.tick(times=3)
    assert world.night().state == queue.RUNNING
    assert world.night().note == f"until {end:%a %Y-%m-%d} 06:00 UTC"  # what it was handed is what is shown


def test_a_night_that_was_handed_no_end_is_shown_without_one_whatever_it_is_given_later(world: World) -> None:
    world.put(when=replace(NIGHTLY, until=None))
    world.evening()
    assert world.runs.asked["run-1"]["until"] == "never"
    world.begins("run-1")
    world.put()
    world.tick(times=2)
    assert (world.night().state, world.night().note) == (queue.RUNNING, "without an end")


def test_of_two_that_are_due_the_higher_priority_runs_and_the_other_after_it_in_the_same_night(world: World) -> None:
    world.put("low", Schedule(cron="0 22 * * *", until="07:00"))
    world.put("high", Schedule(cron="30 22 * * *", until="07:00", priority=5))
    world.runs.away = True
    with pytest.raises(PrefectUnavailable):  # low is due alone, and Prefect is away
        world.clock.advance(1800)
        world.service.tick(world.clock.now())
    world.runs.away = False
    world.tick()
    first = world.begins("run-1", name="low")
    world.evening()
    world.tick(times=5)
    assert [world.runs.asked[run]["name"] for run in world.runs.asked] == ["low"]
    world.ends(first, "run-1", state="partial", note="the night is over")
    world.tick(times=2)
    assert [world.runs.asked[run]["name"] for run in world.runs.asked] == ["low", "high"]
    assert world.night("low").state == queue.PARTIAL
    assert world.night("high").state == queue.SUBMITTED


def test_a_schedule_begins_only_when_a_sweep_by_hand_has_given_the_box_back(world: World) -> None:
    world.put()
    lease = world.claimed("hand")
    world.evening()
    world.tick(times=5)
    assert world.runs.asked == {}
    assert world.night().note == f"waits for the box: sweep {lease.sweep_id} (hand) runs on it"
    assert sum("waits for the box" in line for line in world.said) == 1
    world.store.release(lease, state="done", note="")
    world.tick()
    assert list(world.runs.asked) == ["run-1"]


def test_while_the_deployment_is_paused_in_prefect_nothing_begins(world: World) -> None:
    world.put()
    world.runs.stopped = True
    world.evening()
    world.tick(times=3)
    assert world.runs.asked == {}
    assert "paused in Prefect" in (world.night().note or "")
    world.runs.stopped = False
    world.tick()
    assert list(world.runs.asked) == ["run-1"]


def test_a_night_that_prefect_could_not_begin_before_its_end_is_missed(world: World) -> None:
    world.put()
    world.runs.away = True
    with pytest.raises(PrefectUnavailable):
        world.evening()
    world.runs.away = False
    world.runs.stopped = True
    world.tick()
    world.clock.advance(9 * 3600)
    world.tick(times=2)
    assert (world.night().state, world.runs.asked) == (queue.MISSED, {})


@pytest.mark.parametrize(("hours", "state"), [(8.0, queue.SUBMITTED), (9.0, queue.MISSED)])
def test_after_downtime_a_start_is_made_up_while_its_night_lasts(world: World, hours: float, state: str) -> None:
    world.put()
    world.clock.advance(3600 * (1 + hours))
    world.serve()
    world.tick(times=2)
    assert world.night().state == state
    kinds = [(event.kind, event.level) for event in world.queries.events()]
    assert kinds == [("night_missed", "warning") if state == queue.MISSED else ("night_due", "info")]


def test_a_flow_that_was_killed_is_made_again_in_its_night_until_three_in_a_row_stored_nothing(world: World) -> None:
    world.put()
    world.evening()
    for number in (1, 2, 3):
        world.begins(f"run-{number}", owner=a_dead_owner())
        world.runs.becomes(f"run-{number}", "CRASHED")
        world.tick(times=8, after=15.0)
    assert list(world.runs.asked) == ["run-1", "run-2", "run-3"]
    assert (world.night().state, world.night().fruitless) == (queue.FAILED, 3)
    assert world.queries.events()[0].level == "error"


def test_a_run_that_prefect_leaves_running_for_ever_neither_blocks_nor_doubles(world: World) -> None:
    world.put()
    world.evening()
    world.runs.becomes("run-1", "RUNNING")
    world.tick(times=10)
    assert list(world.runs.asked) == ["run-1"]
    world.clock.advance(PATIENCE.total_seconds())
    world.tick(times=6, after=10.0)
    assert (list(world.runs.asked), world.runs.laid) == (["run-1", "run-2"], ["run-1"])


def test_a_run_that_waits_for_its_runner_is_waited_for_until_its_night_is_over(world: World) -> None:
    world.put()
    world.evening()
    world.tick(times=10, after=1800.0)  # the runner is not free: production takes its time to come back
    assert (world.night().state, list(world.runs.asked)) == (queue.SUBMITTED, ["run-1"])
    world.tick(times=10, after=1800.0)
    assert (world.night().state, list(world.runs.asked), world.runs.laid) == (queue.MISSED, ["run-1"], ["run-1"])


def test_what_a_runner_cancelled_because_it_was_ended_is_made_again(world: World) -> None:
    world.put()
    world.evening()
    lease = world.begins("run-1")
    world.store.release(lease, state="partial", note=f"{INTERRUPTED}received SIGTERM")
    world.runs.becomes("run-1", "CANCELLED", message=RUNNER_ENDS)
    world.tick(times=6, after=10.0)
    assert list(world.runs.asked) == ["run-1", "run-2"]


def test_a_ghost_of_the_service_before_is_laid_at_once(world: World) -> None:
    world.put()
    world.evening()
    world.begins("run-1", owner=a_dead_owner())
    world.tick()
    world.clock.advance(5)
    world.serve()
    world.tick(times=6, after=10.0)
    assert (list(world.runs.asked), world.runs.laid) == (["run-1", "run-2"], ["run-1"])


def test_a_flow_that_outlives_its_service_is_waited_for(world: World) -> None:
    world.put()
    world.evening()
    lease = world.begins("run-1")
    world.clock.advance(5)
    world.serve()
    world.tick(times=6, after=10.0)
    assert list(world.runs.asked) == ["run-1"]
    world.ends(lease, "run-1")
    world.tick()
    assert world.night().state == queue.DONE


def test_a_prefect_that_lost_its_records_changes_nothing_that_our_database_knows(world: World) -> None:
    world.put()
    world.evening()
    lease = world.begins("run-1")
    world.tick()
    world.runs.forget()
    world.tick(times=6, after=10.0)
    assert (world.night().state, list(world.runs.asked)) == (queue.RUNNING, ["run-1"])
    world.store.release(lease, state="done", note="all is measured")
    world.tick()
    assert world.night().state == queue.DONE


def test_a_run_that_prefect_lost_before_it_began_is_asked_for_again(world: World) -> None:
    world.put()
    world.evening()
    world.runs.forget()
    world.tick(times=6, after=10.0)
    assert list(world.runs.asked) == ["run-1", "run-2"]


def test_what_somebody_cancelled_in_prefect_is_not_made_again_and_the_next_night_is(world: World) -> None:
    world.put()
    world.evening()
    lease = world.begins("run-1")
    world.tick()
    world.store.release(lease, state="partial", note=f"{INTERRUPTED}received SIGTERM")
    world.runs.becomes("run-1", "CRASHED")  # Prefect says so first, and Cancelled a little later
    world.tick()
    world.runs.becomes("run-1", "CANCELLED")
    world.tick(times=8, after=15.0)
    assert (world.night().state, list(world.runs.asked)) == (queue.CANCELLED, ["run-1"])
    world.clock.advance(86_400)
    world.tick()
    assert list(world.runs.asked) == ["run-1", "run-2"]


def test_what_a_stopped_service_cancelled_goes_on_when_it_is_back_in_the_same_night(world: World) -> None:
    world.put()
    world.evening()
    lease = world.begins("run-1")
    world.tick()
    world.store.release(lease, state="partial", note=f"{INTERRUPTED}received SIGTERM")
    world.runs.becomes("run-1", "CANCELLED", message=RUNNER_ENDS)
    world.clock.advance(3600)
    world.serve()
    world.tick(times=6, after=10.0)
    assert list(world.runs.asked) == ["run-1", "run-2"]


@pytest.mark.parametrize(
    ("state", "note", "night"),
    [
        ("cancelled", "stopped as asked", queue.CANCELLED),
        ("partial", "the night is over", queue.PARTIAL),
        ("paused", "paused as asked", queue.SKIPPED),
    ],
)
def test_what_ended_as_our_database_says_is_not_made_again(world: World, state: str, note: str, night: str) -> None:
    world.put()
    world.evening()
    lease = world.begins("run-1")
    world.ends(lease, "run-1", state=state, note=note)
    world.tick(times=8, after=15.0)
    assert (world.night().state, list(world.runs.asked)) == (night, ["run-1"])


def test_the_rest_of_a_sweep_that_a_person_paused_is_not_promised_to_the_next_night(world: World) -> None:
    world.put()
    world.evening()
    lease = world.begins("run-1")
    world.tick()
    plan = a_plan(name="depth")
    boot = world.store.begin_boot(lease, plan.configs[0], boot_round=0, boot_key="k", command=(), at=EVENING)
    (task, *_) = remaining(plan, windows={}, prefills={}, failed_boots={})
    world.store.add_window(
        lease, boot, task.repeats[0], a_window(30.0), attempt=1, conditions=some_conditions(), at=EVENING
    )
    world.ends(lease, "run-1", state="paused", note="paused as asked: `nightsweep resume 1` goes on with it")
    world.tick(times=2)
    assert world.night().state == queue.PARTIAL
    told = next(event.message for event in world.queries.events() if event.kind == "night_partial")
    assert told.endswith("goes on with it; no schedule goes on with the rest before that")


def test_a_box_that_somebody_of_another_home_has_is_asked_for_again_later(world: World) -> None:
    world.put()
    world.evening()
    world.runs.becomes("run-1", "CANCELLED", name="Busy", message="box is taken")
    world.tick(times=5)
    assert list(world.runs.asked) == ["run-1"]
    world.clock.advance(queue.BUSY_AGAIN.total_seconds())
    world.tick()
    assert list(world.runs.asked) == ["run-1", "run-2"]


def test_two_services_by_mistake_ask_for_one_run(world: World) -> None:
    world.put()
    other = world.a_service(world.records, world.runs)
    world.evening()
    other.tick(world.clock.now())
    world.tick()
    assert list(world.runs.asked) == ["run-1"]


@dataclass
class Deadly:
    """Hands calls on, and is killed at the one that it is told: before it is made, or before its answer is heard."""

    target: Any
    count: Callable[[], bool]
    before: bool

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.target, name)

        def call(*args: Any, **given: Any) -> Any:
            fatal = self.count()
            if fatal and self.before:
                raise Killed
            result = method(*args, **given)
            if fatal:
                raise Killed
            return result

        return call


def countdown(calls: int) -> Callable[[], bool]:
    left: Iterator[int] = iter(range(calls, -10_000, -1))
    return lambda: next(left) == 0


@pytest.mark.parametrize("before", [True, False], ids=["unsent", "unheard"])
def test_killed_at_any_call_it_loses_no_night_and_starts_none_twice(world: World, before: bool) -> None:
    kills, deaths = 0, 0
    for fatal in range(60):
        name = f"night {fatal}"
        world.put(name, Schedule(cron=None), once_at=world.clock.now())
        count = countdown(fatal)
        service = world.a_service(Deadly(world.records, count, before), Deadly(world.runs, count, before))
        deaths = kills
        try:
            _through(world, service, name)
        except Killed:
            kills += 1
            world.serve()
            _through(world, world.service, name)
        assert world.night(name).state == queue.DONE
        runs = [asked for asked in world.runs.asked.values() if asked["name"] == name]
        assert len(runs) == 1, f"killed at call {fatal}"
        world.records.remove(world.row(name).id)
        if deaths == kills:
            break
    assert kills > 10


def _through(world: World, service: Dispatcher, name: str) -> None:
    """Look until the night is over; its flow begins and ends as soon as it is asked for."""
    for _ in range(30):
        world.clock.advance(2.0)
        service.tick(world.clock.now())
        night = world.night(name)
        if night.state == queue.DONE:
            return
        _carry_out(world, name)


def _carry_out(world: World, name: str) -> None:
    for run_id, asked in world.runs.asked.items():
        if asked["name"] != name:
            continue
        state = world.runs.runs[run_id].state_type
        if state == "SCHEDULED":
            world.held[run_id] = world.begins(run_id, name=name)
        elif state == "RUNNING":
            world.ends(world.held[run_id], run_id)


def test_a_database_that_is_away_costs_no_night(world: World) -> None:
    world.put()
    gone = Schedules(connect("postgresql+psycopg://nobody@127.0.0.1:1/none"))
    service: Dispatcher = world.a_service(gone, world.runs)
    with pytest.raises(StoreUnavailable):
        service.tick(EVENING)
    world.evening()
    assert list(world.runs.asked) == ["run-1"]
