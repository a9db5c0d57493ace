"""When a night ends."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from nightsweep.plan.model import Schedule


def night_end(schedule: Schedule | None, *, start: datetime) -> datetime | None:
    """Return the first `until` after `start`, in UTC; None when the plan names none.

    `until` is local time of the schedule's zone. On the day that the clock is put forward a time that does not exist ends the
    night at the moment of the jump; a time that comes twice ends it the first time: never later than meant.
    """
    if schedule is None or schedule.until is None:
        return None
    zone = ZoneInfo(schedule.timezone)
    hour, minute = (int(part) for part in schedule.until.split(":"))
    local = start.astimezone(zone)
    end = _at(local, days=0, clock=time(hour, minute), zone=zone)
    if end <= start:
        end = _at(local, days=1, clock=time(hour, minute), zone=zone)
    return end.astimezone(UTC)


def _at(local: datetime, *, days: int, clock: time, zone: ZoneInfo) -> datetime:
    day = local.date() + timedelta(days=days)
    wall = datetime.combine(day, clock, tzinfo=zone)
    landed = wall.astimezone(UTC).astimezone(zone)
    if landed.replace(tzinfo=None) == wall.replace(tzinfo=None):
        return wall.astimezone(UTC)
    return _jump(early=wall.replace(fold=1).astimezone(UTC), late=wall.astimezone(UTC), zone=zone)


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
