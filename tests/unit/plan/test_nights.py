"""When a night ends, also when the clock jumps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightsweep.plan.model import Schedule
from nightsweep.plan.nights import last_start, next_start, night_end, night_of, some_start

BERLIN = ZoneInfo("Europe/Berlin")


def until(clock: str, zone: str = "Europe/Berlin") -> Schedule:
    return Schedule(timezone=zone, until=clock)


def at(year: int, month: int, day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(year, month, day, hour, minute, tzinfo=UTC)


def test_a_night_without_until_has_no_end() -> None:
    assert night_end(None, start=at(2026, 11, 29, 22)) is None
    assert night_end(Schedule(cron="0 22 * * *"), start=at(2026, 11, 29, 22)) is None


def test_a_night_that_begins_in_the_evening_ends_next_morning() -> None:
    assert night_end(until("07:00"), start=at(2026, 11, 29, 21, 30)) == at(2026, 11, 30, 6)


def test_a_night_that_begins_after_midnight_ends_the_same_morning() -> None:
    assert night_end(until("07:00"), start=at(2026, 11, 30, 0, 30)) == at(2026, 11, 30, 6)


def test_a_start_at_the_very_end_means_the_next_day() -> None:
    assert night_end(until("07:00"), start=at(2026, 11, 30, 6)) == at(2026, 12, 1, 6)


@pytest.mark.parametrize(
    ("clock", "start", "end"),
    [
        # Clocks go forward on 2027-03-28: 02:00 CET is 03:00 CEST, which is 01:00 UTC.
        ("07:00", at(2027, 3, 27, 21), at(2027, 3, 28, 5)),
        ("02:30", at(2027, 3, 27, 21), at(2027, 3, 28, 1)),
        ("01:59", at(2027, 3, 27, 21), at(2027, 3, 28, 0, 59)),
        ("03:00", at(2027, 3, 27, 21), at(2027, 3, 28, 1)),
        # Clocks go back on 2027-10-31: 03:00 CEST is 02:00 CET; 02:30 comes at 00:30 and again at 01:30 UTC.
        ("07:00", at(2027, 10, 30, 21), at(2027, 10, 31, 6)),
        ("02:30", at(2027, 10, 30, 21), at(2027, 10, 31, 0, 30)),
        ("03:00", at(2027, 10, 30, 21), at(2027, 10, 31, 2)),
    ],
)
def test_a_night_in_which_the_clock_jumps_ends_when_the_wall_clock_says_so(
    clock: str, start: datetime, end: datetime
) -> None:
    assert night_end(until(clock), start=start) == end


def test_a_start_in_the_doubled_hour_does_not_end_before_it_begins() -> None:
    start = at(2027, 10, 31, 0, 45)  # 02:45 the first time; 02:30 comes once more 45 minutes later
    end = night_end(until("02:30"), start=start)
    assert end is not None
    assert end > start


@given(
    start=st.datetimes(datetime(2026, 1, 1), datetime(2030, 1, 1)).map(lambda naive: naive.replace(tzinfo=UTC)),
    hour=st.integers(0, 23),
    minute=st.integers(0, 59),
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"]),
)
def test_a_night_ends_after_it_begins_and_within_a_day_and_an_hour(
    start: datetime, hour: int, minute: int, zone: str
) -> None:
    end = night_end(until(f"{hour:02}:{minute:02}", zone), start=start)
    assert end is not None
    assert start < end <= start + timedelta(hours=25)


# --- starts


def nightly(cron: str, *, until: str | None = None, zone: str = "Europe/Berlin") -> Schedule:
    return Schedule(cron=cron, timezone=zone, until=until)


@pytest.mark.parametrize(
    ("cron", "day", "starts"),
    [
        # 2027-03-28: 02:00 CET is 03:00 CEST, 01:00 UTC. What lies in the hour that is skipped comes at the jump, once.
        ("30 2 * * *", at(2027, 3, 27, 12), (at(2027, 3, 28, 1), at(2027, 3, 29, 0, 30))),
        ("0 3 * * *", at(2027, 3, 27, 12), (at(2027, 3, 28, 1), at(2027, 3, 29, 1))),
        ("30 22 * * *", at(2027, 3, 27, 12), (at(2027, 3, 27, 21, 30), at(2027, 3, 28, 20, 30))),
        # 2027-10-31: 03:00 CEST is 02:00 CET, 01:00 UTC. What lies in the hour that comes twice comes the first time.
        ("30 2 * * *", at(2027, 10, 30, 12), (at(2027, 10, 31, 0, 30), at(2027, 11, 1, 1, 30))),
        ("30 22 * * *", at(2027, 10, 30, 12), (at(2027, 10, 30, 20, 30), at(2027, 10, 31, 21, 30))),
    ],
)
def test_a_start_comes_once_on_a_day_that_the_clock_jumps(
    cron: str, day: datetime, starts: tuple[datetime, ...]
) -> None:
    found, moment = [], day
    for _ in starts:
        following = next_start(nightly(cron), after=moment)
        assert following is not None
        found.append(following)
        moment = following
    assert tuple(found) == starts
    assert last_start(nightly(cron), at=starts[1] - timedelta(seconds=1)) == starts[0]
    assert last_start(nightly(cron), at=starts[0]) == starts[0]


def test_in_the_second_of_two_hours_that_look_alike_the_start_of_the_first_is_over_and_not_to_come() -> None:
    second = at(2027, 10, 31, 1, 10)  # 02:10 once more
    assert last_start(nightly("30 2 * * *"), at=second) == at(2027, 10, 31, 0, 30)
    assert next_start(nightly("30 2 * * *"), after=second) == at(2027, 11, 1, 1, 30)


def test_an_interval_follows_the_time_that_passes_through_both_hours() -> None:
    found, moment = [], at(2027, 10, 30, 23, 50)
    for _ in range(4):
        moment = next_start(nightly("*/30 * * * *"), after=moment) or moment
        found.append(moment)
    assert found == [at(2027, 10, 31, 0), at(2027, 10, 31, 0, 30), at(2027, 10, 31, 1), at(2027, 10, 31, 1, 30)]


@pytest.mark.parametrize(
    ("cron", "until", "start", "end"),
    [
        ("30 2 * * *", "07:00", at(2027, 3, 28, 1), at(2027, 3, 28, 5)),
        # Start and end both in the hour that is skipped: there is no such night, and not one of a day either.
        ("15 2 * * *", "02:45", at(2027, 3, 28, 1), at(2027, 3, 28, 1)),
        ("0 3 * * *", "02:45", at(2027, 3, 28, 1), at(2027, 3, 29, 0, 45)),
        ("30 2 * * *", "02:45", at(2027, 10, 31, 0, 30), at(2027, 10, 31, 0, 45)),
        ("*/30 * * * *", "02:45", at(2027, 10, 31, 1, 30), at(2027, 10, 31, 1, 45)),
        ("30 2 * * *", "07:00", at(2027, 10, 31, 0, 30), at(2027, 10, 31, 6)),
        # By hand, at a time that is no start of the cron.
        ("30 22 * * *", "07:00", at(2027, 10, 30, 12), at(2027, 10, 31, 6)),
    ],
)
def test_a_night_that_began_by_cron_ends_on_the_wall_clock_that_was_meant(
    cron: str, until: str, start: datetime, end: datetime
) -> None:
    assert night_of(nightly(cron, until=until), start=start) == end


@pytest.mark.parametrize("cron", ["0 0 30 2 *", "99 * * * *", "at night"])
def test_a_cron_that_never_starts_is_none(cron: str) -> None:
    assert some_start(cron) is None


@given(
    moment=st.datetimes(datetime(2027, 3, 26), datetime(2027, 4, 6)).map(lambda naive: naive.replace(tzinfo=UTC))
    | st.datetimes(datetime(2027, 10, 29), datetime(2027, 11, 9)).map(lambda naive: naive.replace(tzinfo=UTC)),
    cron=st.sampled_from(["30 2 * * *", "0 1-3 * * *", "*/20 * * * *", "0 22 * * *", "59 23 * * SUN", "0 */5 * * *"]),
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "UTC"]),
)
def test_nothing_starts_between_the_last_start_and_the_next(moment: datetime, cron: str, zone: str) -> None:
    schedule = nightly(cron, zone=zone)
    last, following = last_start(schedule, at=moment), next_start(schedule, after=moment)
    assert last is not None
    assert following is not None
    assert last <= moment < following
    assert next_start(schedule, after=last) == following
    assert last_start(schedule, at=following) == following
