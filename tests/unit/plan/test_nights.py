"""When a night ends, also when the clock jumps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightsweep.plan.model import Schedule
from nightsweep.plan.nights import night_end

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
