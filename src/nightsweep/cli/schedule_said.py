"""What `nightsweep schedule` says of a schedule that was made or changed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from nightsweep.analysis.schedules import local
from nightsweep.plan import queue
from nightsweep.plan.nights import in_words, long_night, night_of

if TYPE_CHECKING:
    from nightsweep.plan.model import Schedule
    from nightsweep.plan.queue import Scheduled


def schedule_said(when: Schedule) -> str:
    """Return when a schedule starts and ends, its zone with either, and its priority."""
    starts = f"{in_words(when)} ({when.timezone})" if when.cron else in_words(when)
    zone = "" if when.cron else f" ({when.timezone})"  # said once, and with an `until` always
    ends = f", until {when.until}{zone}" if when.until else ", without an end"
    return f"{starts}{ends}" + (f", priority {when.priority}" if when.priority else "")


def night_at_hand(row: Scheduled, *, now: datetime) -> Iterator[str]:
    """Yield what another end means for the night that runs, or waits in the queue; nothing where there is none."""
    night = row.night
    if night is None:
        return
    if row.under_way and not row.lost:
        sweep = row.name if night.sweep_id is None else night.sweep_id
        kept = f" ({night.note})" if night.note else ""
        yield (
            f"the night that runs goes on as it began{kept}: what is changed counts from the next start "
            f"(`nightsweep cancel {sweep}` or `nightsweep pause {sweep}` ends this one sooner)"
        )
    elif row.queued:
        end = night_of(row.when, start=night.start)
        if end is None:
            yield "the night that waits has no end"
        elif end <= now:
            yield f"the night that waits is over by that: it ended {local(end, zone=row.when.timezone)}, and is not begun"
        else:
            yield f"the night that waits ends by then, too: {local(end, zone=row.when.timezone)}"


def doubts(row: Scheduled, *, now: datetime, zone_given: bool) -> Iterator[str]:
    """Yield what a person may not have meant: a night of a day, times that are UTC because nothing names a zone."""
    waits = row.night.start if row.night is not None and row.queued else None
    start = None if row.paused else waits or queue.comes_next(row, now=now)
    long = None if start is None else long_night(start, night_of(row.when, start=start), zone=row.when.timezone)
    if long is not None:
        yield f"a long night: {long}; is --until what you mean?"
    if (row.when.cron or row.when.until) and row.when.timezone == "UTC" and not zone_given:
        yield 'its times are UTC: give --timezone (such as "Europe/Amsterdam") for another clock'
