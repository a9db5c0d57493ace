"""When a night begins and when it ends, also on the days that the clock is put forward or back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from nightsweep.plan.model import Schedule

MARGIN = timedelta(hours=3)
"""Longer than any clock is put back: so far around a moment its neighbours in wall time may lie on its other side."""

ORDINARY = datetime(2026, 1, 12, 12, 0)
"""A moment without a change of clocks nearby, in any zone."""


def some_start(cron: str) -> datetime | None:
    """Return what the wall clock shows at a start of this cron; None for a cron that cannot be read or never starts."""
    try:
        return next(CronSim(cron, ORDINARY), None)
    except CronSimError:
        return None


def in_words(schedule: Schedule) -> str:
    """Return the schedule's cron in words of its zone's time, such as "22:30 every day"; "by hand" without one."""
    if schedule.cron is None:
        return "by hand"
    return CronSim(schedule.cron, ORDINARY).explain().removeprefix("At ")


def next_start(schedule: Schedule, *, after: datetime) -> datetime | None:
    """Return the first start of the schedule's cron later than `after`, in UTC; None when it has none.

    Cron is local time of the schedule's zone. A start in the hour that is skipped when the clock is put forward comes at the
    moment of the jump; one in the hour that comes twice comes the first time. A cron whose hour or minute begins with `*` is
    an interval and follows the time that passes.
    """
    return next((start for start in _starts(schedule, after - MARGIN) if start > after), None)


def last_start(schedule: Schedule, *, at: datetime) -> datetime | None:
    """Return the last start of the schedule's cron that is not later than `at`, in UTC; None when it has none."""
    return next((start for start in _starts(schedule, at + MARGIN, reverse=True) if start <= at), None)


def starts_between(schedule: Schedule, *, after: datetime, until: datetime, limit: int) -> int:
    """Return how many starts lie later than `after` and not later than `until`; no more than `limit` are counted."""
    count, start = 0, next_start(schedule, after=after)
    while start is not None and start <= until and count < limit:
        count, start = count + 1, next_start(schedule, after=start)
    return count


def night_of(schedule: Schedule, *, start: datetime) -> datetime | None:
    """Return the end of the night that began at `start`, by the schedule's cron or by hand; None without `until`.

    A night whose start and end both lie in an hour that the clock skips is empty: it ends as it begins.
    """
    if schedule.cron is None or last_start(schedule, at=start) != start:
        return night_end(schedule, start=start)
    wall = start.astimezone(ZoneInfo(schedule.timezone)).replace(tzinfo=None)
    meant = next(CronSim(schedule.cron, wall + timedelta(minutes=1), reverse=True), wall)
    return night_end(schedule, start=start, meant=meant)


def night_end(schedule: Schedule | None, *, start: datetime, meant: datetime | None = None) -> datetime | None:
    """Return the first `until` after `start`, in UTC; None when the plan names none.

    `until` is local time of the schedule's zone. On the day that the clock is put forward a time that does not exist ends the
    night at the moment of the jump; a time that comes twice ends it the first time that it comes: never later than meant.

    Args:
        meant: What the clock on the wall should have shown at the start; another time than it did where it jumped over that.
    """
    if schedule is None or schedule.until is None:
        return None
    zone = ZoneInfo(schedule.timezone)
    clock = time.fromisoformat(schedule.until)
    wall = meant or start.astimezone(zone).replace(tzinfo=None)
    if meant is not None and _jumped_over(wall, clock, start=start, zone=zone):
        return start
    days = (wall.date(), wall.date() + timedelta(days=1))
    return next(end for day in days for end in _moments(day, clock, zone=zone) if end > start)


LONG = timedelta(hours=16)


def long_night(start: datetime, end: datetime | None, *, zone: str) -> str | None:
    """Return what to say of a night that is longer than anybody means one to be; None when it is not.

    An end of 23:38 that is given at 23:43 is tomorrow's: production would be down for a day.
    """
    if end is None or end - start <= LONG:
        return None
    hours, minutes = divmod(round((end - start).total_seconds() / 60), 60)
    return (
        f"it would end {end.astimezone(ZoneInfo(zone)):%a %Y-%m-%d %H:%M %Z}, {hours} h {minutes} min after its start: "
        "production would be down until then"
    )


def _starts(schedule: Schedule, begin: datetime, *, reverse: bool = False) -> Iterator[datetime]:
    if schedule.cron is None:
        return
    ticks = CronSim(schedule.cron, begin.astimezone(ZoneInfo(schedule.timezone)), reverse=reverse)
    for start in ticks:
        yield start.astimezone(UTC)


def _jumped_over(wall: datetime, clock: time, *, start: datetime, zone: ZoneInfo) -> bool:
    """Whether a night from `wall` to `clock` of the same day lies in the hour that is skipped."""
    return clock > wall.time() and _moments(wall.date(), clock, zone=zone)[-1] <= start


def _moments(day: date, clock: time, *, zone: ZoneInfo) -> tuple[datetime, ...]:
    """Return when the wall clock shows a time on a day: once, twice, or for one that is skipped the moment of the jump."""
    wall = datetime.combine(day, clock, tzinfo=zone)
    first, second = (wall.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    landed = first.astimezone(zone)
    if landed.replace(tzinfo=None) != wall.replace(tzinfo=None):
        return (_jump(early=second, late=first, zone=zone),)
    return (first,) if second == first else (first, second)


def _jump(*, early: datetime, late: datetime, zone: ZoneInfo) -> datetime:
    """Return the moment between two others, to the second, at which the zone's clock is put forward."""
    before = early.astimezone(zone).utcoffset()
    while late - early > timedelta(seconds=1):
        middle = early + timedelta(seconds=(late - early) // timedelta(seconds=2))
        if middle.astimezone(zone).utcoffset() == before:
            early = middle
        else:
            late = middle
    return late
