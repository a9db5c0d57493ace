"""Which schedule gets the box, and what becomes of its night."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightsweep.plan import queue
from nightsweep.plan.model import Schedule
from nightsweep.plan.queue import Ending, Night, Scheduled

EVENING = datetime(2026, 12, 1, 22, 30, tzinfo=UTC)
"""The start of a night that ends at seven."""

HOUR = timedelta(hours=1)


def a_schedule(
    *,
    id: int = 1,
    cron: str | None = "30 22 * * *",
    until: str | None = "07:00",
    priority: int = 0,
    paused: bool = False,
    since: datetime = EVENING - timedelta(days=30),
    once_at: datetime | None = None,
    night: Night | None = None,
) -> Scheduled:
    when = Schedule(cron=cron, until=until, priority=priority)
    return Scheduled(id, "box", f"night {id}", when, "", "file", None, paused, since, once_at, night)


def before(days: int = 1, state: str = queue.DONE) -> Night:
    return Night(EVENING - timedelta(days=days), state)


def test_a_start_that_has_come_is_queued_once() -> None:
    row = a_schedule(night=before())
    assert queue.opened(row, now=EVENING - timedelta(seconds=1)) is None
    night = queue.opened(row, now=EVENING)
    assert night == Night(EVENING, queue.QUEUED)
    for state in (queue.QUEUED, queue.DONE, queue.PARTIAL, queue.CANCELLED, queue.SKIPPED, queue.FAILED):
        assert queue.opened(replace(row, night=Night(EVENING, state)), now=EVENING + HOUR) is None


def test_a_start_before_the_schedule_was_made_is_not_owed() -> None:
    assert queue.opened(a_schedule(since=EVENING + timedelta(minutes=1)), now=EVENING + HOUR) is None


@pytest.mark.parametrize(
    ("until", "late", "state"),
    [
        ("07:00", timedelta(hours=8, minutes=29), queue.QUEUED),
        ("07:00", timedelta(hours=8, minutes=30), queue.MISSED),
        (None, timedelta(hours=5, minutes=59), queue.QUEUED),
        (None, timedelta(hours=6), queue.MISSED),
    ],
)
def test_a_missed_start_is_made_up_while_its_night_is_not_over(until: str | None, late: timedelta, state: str) -> None:
    night = queue.opened(a_schedule(until=until, night=before()), now=EVENING + late)
    assert night is not None
    assert (night.start, night.state) == (EVENING, state)


def test_of_several_missed_nights_the_last_is_on_record_with_their_number() -> None:
    night = queue.opened(a_schedule(night=before(days=3)), now=EVENING + timedelta(hours=12))
    assert night is not None
    assert night.state == queue.MISSED
    assert "the last of 3" in (night.note or "")


def test_a_paused_schedule_begins_nothing_and_is_due_when_it_is_resumed_in_its_night() -> None:
    row = a_schedule(paused=True, night=before())
    assert queue.opened(row, now=EVENING + HOUR) is None
    over = queue.opened(row, now=EVENING + 9 * HOUR)
    assert over is not None
    assert (over.state, over.note) == (queue.SKIPPED, "the schedule is paused")
    resumed = queue.opened(replace(row, paused=False), now=EVENING + HOUR)
    assert resumed is not None
    assert resumed.state == queue.QUEUED


def test_a_start_by_hand_begins_a_night_of_its_own_after_one_that_was_cancelled() -> None:
    row = a_schedule(night=Night(EVENING, queue.CANCELLED), once_at=EVENING + HOUR)
    assert queue.opened(row, now=EVENING + HOUR) == Night(EVENING + HOUR, queue.QUEUED)
    without_cron = a_schedule(cron=None, once_at=EVENING)
    assert queue.opened(without_cron, now=EVENING) == Night(EVENING, queue.QUEUED)
    assert queue.opened(replace(without_cron, night=Night(EVENING, queue.DONE)), now=EVENING + 30 * HOUR) is None


def test_the_highest_priority_comes_first_then_the_earliest_start_then_the_first_made() -> None:
    def queued(id: int, priority: int, minutes: int) -> Scheduled:
        return a_schedule(id=id, priority=priority, night=Night(EVENING + timedelta(minutes=minutes), queue.QUEUED))

    rows = [queued(1, 0, 5), queued(2, 0, 0), queued(3, 7, 9), queued(4, 0, 0), queued(5, -1, 0)]
    rows.append(replace(queued(6, 9, 0), paused=True))
    rows.append(a_schedule(id=7, priority=9, night=Night(EVENING, queue.DONE)))
    assert [row.id for row in queue.waiting(rows)] == [3, 2, 4, 1, 5]


def test_a_queued_night_that_is_over_is_missed_or_partial_by_whether_it_ever_ran() -> None:
    waited = a_schedule(night=Night(EVENING, queue.QUEUED))
    assert queue.lapsed(waited, now=EVENING + 8 * HOUR) is None
    missed = queue.lapsed(waited, now=EVENING + 9 * HOUR)
    assert missed is not None
    assert missed.state == queue.MISSED
    ran = a_schedule(night=Night(EVENING, queue.QUEUED, sweep_id=4, runs=1))
    partial = queue.lapsed(ran, now=EVENING + 9 * HOUR)
    assert partial is not None
    assert partial.state == queue.PARTIAL


def test_without_an_end_a_night_that_ran_goes_on_until_the_next_start_replaces_it() -> None:
    ran = a_schedule(until=None, night=Night(EVENING, queue.QUEUED, sweep_id=4, runs=2))
    assert queue.lapsed(ran, now=EVENING + 20 * HOUR) is None
    assert queue.opened(ran, now=EVENING + 24 * HOUR) == Night(EVENING + 24 * HOUR, queue.QUEUED)


def test_a_start_that_comes_while_the_sweep_runs_is_one_with_it() -> None:
    running = Night(EVENING, queue.RUNNING, prefect_run="a", sweep_id=1, runs=1)
    endless = a_schedule(until=None, night=running)
    assert queue.opened(endless, now=EVENING + 24 * HOUR) is None
    assert queue.joined(endless, now=EVENING + 24 * HOUR) == replace(running, start=EVENING + 24 * HOUR)
    ended = a_schedule(until="22:30", night=running)  # runs to the very start of the next night
    assert queue.joined(ended, now=EVENING + 24 * HOUR) is None


def test_a_run_that_breaks_off_is_made_again_until_three_in_a_row_stored_nothing() -> None:
    night = Night(EVENING, queue.RUNNING, runs=1)
    waits = []
    for _ in range(2):
        night = queue.after(night, Ending(queue.BROKEN, "killed"), now=EVENING)
        assert night.state == queue.QUEUED
        waits.append(night.retry_at)
    assert waits == [EVENING + timedelta(seconds=20), EVENING + timedelta(seconds=40)]
    again = queue.after(night, Ending(queue.BROKEN, "killed", fruitful=True, sweep_id=3), now=EVENING)
    assert (again.state, again.fruitless, again.sweep_id) == (queue.QUEUED, 0, 3)
    assert queue.after(night, Ending(queue.BROKEN, "killed"), now=EVENING).state == queue.FAILED


def test_a_run_is_not_put_off_by_a_clock_that_is_put_back() -> None:
    night = Night(EVENING, queue.QUEUED, retry_at=EVENING + timedelta(seconds=20))
    assert not queue.is_due(night, now=EVENING)
    assert queue.is_due(night, now=EVENING + timedelta(seconds=20))
    assert queue.is_due(night, now=EVENING - 2 * HOUR)


def test_each_run_of_a_night_is_asked_for_under_a_key_of_its_own() -> None:
    row = a_schedule(night=Night(EVENING, queue.QUEUED))
    assert row.night is not None
    first = replace(row, night=queue.asked(row.night))
    assert first.night is not None
    second = replace(row, night=queue.asked(first.night))
    other = replace(first, night=replace(first.night, start=EVENING + HOUR))
    assert len({queue.key_of(each) for each in (row, first, second, other)}) == 4
    assert queue.key_of(first) == queue.key_of(replace(first, once_at=EVENING, paused=True))


@given(
    minutes=st.lists(st.integers(0, 3 * 24 * 60), min_size=1, max_size=40).map(sorted),
    until=st.sampled_from(["07:00", "22:00", None]),
    paused=st.booleans(),
)
def test_however_often_it_is_looked_at_no_night_is_begun_twice_or_before_its_start(
    minutes: list[int], until: str | None, paused: bool
) -> None:
    row, begun = a_schedule(until=until, paused=paused, night=before()), []
    for each in minutes:
        now = EVENING + timedelta(minutes=each)
        night = queue.lapsed(row, now=now)
        row = row if night is None else replace(row, night=night)
        night = queue.opened(row, now=now)
        if night is not None:
            assert night.start <= now
            begun.append(night.start)
            row = replace(row, night=night)
    assert begun == sorted(set(begun))
    assert not (paused and row.queued)
