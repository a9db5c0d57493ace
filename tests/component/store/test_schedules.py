"""Schedules in the database: made, changed, and each night put on record once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from nightsweep.plan import queue
from nightsweep.plan.model import Schedule
from nightsweep.plan.queue import Night, NightEvent, Scheduled
from nightsweep.plan.remaining import remaining
from nightsweep.ports import Lease
from nightsweep.store.owner import new_owner
from nightsweep.store.postgres import PostgresStore
from nightsweep.store.queries import Queries
from nightsweep.store.schedules import Schedules
from nightsweep.units import Seconds
from tests.storekit.builders import a_box, a_plan, a_window, some_conditions

EVENING = datetime(2026, 12, 1, 22, 30, tzinfo=UTC)
NIGHTLY = Schedule(cron="30 22 * * *", timezone="Europe/Amsterdam", until="07:00", priority=3)


@pytest.fixture
def schedules(engine: sa.Engine) -> Schedules:
    return Schedules(engine)


def put(schedules: Schedules, when: Schedule = NIGHTLY, *, at: datetime = EVENING, **given: object) -> Scheduled:
    values = {"box": "box-a", "name": "depth", "file_text": "name: depth", "source": "depth.yaml", "base": "/srv"}
    return schedules.put(when, at=at, **{**values, **given})  # type: ignore[arg-type]


def claimed(store: PostgresStore, *, owner: str, ttl: float = 60.0, run: str = "run-1", box: str = "box-a") -> Lease:
    sweep_id = store.open_sweep(a_plan(), box_id=store.box_id(a_box(box)), file_text="")
    lease = store.claim(sweep_id, owner=owner, ttl=Seconds(ttl))
    store.note_prefect_run(sweep_id, run)
    return lease


def test_a_schedule_is_kept_as_it_was_made_and_changed_by_its_name(schedules: Schedules) -> None:
    made = put(schedules)
    assert (made.when, made.since, made.night, made.paused) == (NIGHTLY, EVENING, None, False)
    assert schedules.all("box-a") == (made,)
    assert schedules.all("box-b") == ()
    schedules.set_paused(made.id, paused=True)
    later = put(schedules, replace(NIGHTLY, priority=9, until="06:00"), at=EVENING + timedelta(hours=1))
    assert (later.id, later.when.priority, later.when.until, later.paused) == (made.id, 9, "06:00", True)
    schedules.remove(made.id)
    assert schedules.all("box-a") == ()


def test_only_another_cron_or_zone_forgets_starts_that_were_owed(schedules: Schedules) -> None:
    put(schedules)
    later = EVENING + timedelta(hours=1)
    assert put(schedules, replace(NIGHTLY, priority=1), at=later).since == EVENING
    assert put(schedules, replace(NIGHTLY, cron="0 23 * * *"), at=later).since == later


def test_a_start_by_hand_outlives_a_change_of_the_file(schedules: Schedules) -> None:
    made = put(schedules, once_at=EVENING)
    assert put(schedules, file_text="name: depth2").once_at == EVENING
    schedules.start_once(made.id, at=EVENING + timedelta(hours=2))
    (row,) = schedules.all("box-a")
    assert row.once_at == EVENING + timedelta(hours=2)


def test_a_night_moves_once_and_its_event_is_told_once(schedules: Schedules, queries: Queries) -> None:
    row = put(schedules)
    due = Night(EVENING, queue.QUEUED)
    told = NightEvent("night_due", "depth is due")
    assert schedules.move(row, due, told=told, at=EVENING)
    assert not schedules.move(row, due, told=told, at=EVENING)  # a second service saw the same record
    (event,) = queries.events()
    assert (event.kind, event.message, event.at) == ("night_due", "depth is due", EVENING)
    (row,) = schedules.all("box-a")
    assert row.night == due
    asked = queue.asked(due)
    assert schedules.move(row, asked, at=EVENING)
    assert not schedules.move(row, asked, at=EVENING)
    (row,) = schedules.all("box-a")
    everything = replace(
        asked, prefect_run="run-1", note="n", fruitless=2, retry_at=EVENING + timedelta(minutes=1), state=queue.QUEUED
    )
    assert schedules.move(row, everything, at=EVENING)
    assert schedules.all("box-a")[0].night == everything


@pytest.mark.parametrize(
    "state", [queue.DONE, queue.PARTIAL, queue.FAILED, queue.SKIPPED, queue.MISSED, queue.CANCELLED]
)
def test_every_state_of_a_night_can_be_kept(schedules: Schedules, state: str) -> None:
    assert schedules.move(put(schedules), Night(EVENING, state), at=EVENING)


def test_the_sweep_of_a_run_is_live_while_its_holder_may_be(schedules: Schedules, store: PostgresStore) -> None:
    assert schedules.carried_by("run-1") is None
    assert schedules.taken_by("box-a") is None
    lease = claimed(store, owner=new_owner(), ttl=-5.0)  # this process overslept its lease, and lives
    carried = schedules.carried_by("run-1")
    assert carried is not None
    assert (carried.sweep_id, carried.state, carried.live, carried.fruitful) == (lease.sweep_id, "running", True, False)
    assert schedules.taken_by("box-a") == f"sweep {lease.sweep_id} (night)"
    assert schedules.taken_by("box-z") is not None  # a process of this machine: it is this box, whatever it is called
    store.release(lease, state="partial", note="the night is over")
    carried = schedules.carried_by("run-1")
    assert carried is not None
    assert (carried.state, carried.live, carried.note) == ("partial", False, "the night is over")
    assert schedules.taken_by("box-a") is None


def test_a_holder_that_is_dead_or_whose_lease_ran_out_elsewhere_holds_no_box(
    schedules: Schedules, store: PostgresStore
) -> None:
    host, _, start, word = new_owner().split(":")
    claimed(store, owner=f"{host}:{2**22 + 1}:{start}:{word}")
    assert schedules.taken_by("box-a") is None
    claimed(store, owner="elsewhere:1:1:one", box="box-b", ttl=60.0, run="run-2")
    assert schedules.taken_by("box-b") is not None
    assert schedules.taken_by("box-a") is None
    claimed(store, owner="elsewhere:1:1:one", box="box-b", ttl=-1.0, run="run-2")
    assert schedules.taken_by("box-b") is None


def test_a_run_whose_process_was_killed_or_has_ended_unseen_is_lost(schedules: Schedules, store: PostgresStore) -> None:
    made = put(schedules)
    assert schedules.move(made, Night(EVENING, queue.RUNNING, prefect_run="run-1"), at=EVENING)
    assert [row.lost for row in schedules.all("box-a")] == [False], "nothing has claimed its sweep yet"
    lease = claimed(store, owner=new_owner())
    assert [row.lost for row in schedules.all("box-a")] == [False]
    store.release(lease, state="partial", note="interrupted: test")
    assert [row.lost for row in schedules.all("box-a")] == [True]
    host, _, start, word = new_owner().split(":")
    claimed(store, owner=f"{host}:{2**22 + 1}:{start}:{word}")
    assert [row.lost for row in schedules.all("box-a")] == [True]


def test_what_was_stored_since_it_was_taken_up_makes_a_run_fruitful(schedules: Schedules, store: PostgresStore) -> None:
    lease = claimed(store, owner=new_owner())
    plan = a_plan()
    boot = store.begin_boot(lease, plan.configs[0], boot_round=0, boot_key="k", command=(), at=EVENING)
    (task, *_) = remaining(plan, windows={}, prefills={}, failed_boots={})
    store.add_window(lease, boot, task.repeats[0], a_window(30.0), attempt=1, conditions=some_conditions(), at=EVENING)
    carried = schedules.carried_by("run-1")
    assert carried is not None
    assert carried.fruitful
    store.release(lease, state="partial", note="interrupted: test")
    claimed(store, owner=new_owner())
    carried = schedules.carried_by("run-1")
    assert carried is not None
    assert not carried.fruitful
