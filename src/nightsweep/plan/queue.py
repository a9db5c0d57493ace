"""Which schedule runs now, and what becomes of its night: rules over plain values, whoever acts on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from nightsweep.plan.model import Schedule
from nightsweep.plan.nights import last_start, next_start, night_of, starts_between

QUEUED, SUBMITTED, RUNNING = "queued", "submitted", "running"
DONE, PARTIAL, FAILED = "done", "partial", "failed"
SKIPPED, MISSED, CANCELLED = "skipped", "missed", "cancelled"
"""How far a night is, and how it ended."""

BROKEN, BUSY = "broken", "busy"
"""How a run of a night may end besides: it broke off, or somebody else had the box. The night goes on then."""

UNDER_WAY = (SUBMITTED, RUNNING)

LATEST = timedelta(hours=6)
"""A night without an end is not begun later than so long after its start."""

MOST_FRUITLESS = 3
"""Runs in a row that break off and store nothing, before the night is given up."""

AGAIN = timedelta(seconds=10)
"""Before a run that broke off is made again; twice as long after each that stored nothing."""

BUSY_AGAIN = timedelta(minutes=2)
"""Before the box is asked for again, when somebody of whom our database does not know had it."""

MOST_COUNTED = 1000
"""Missed nights that are counted at most."""


@dataclass(frozen=True)
class Night:
    """One night of a schedule, and how far it came.

    Attributes:
        runs: How often Prefect was asked for a run in this night.
        fruitless: How many of the last runs, in a row, broke off and stored nothing.
        retry_at: When the next run is due; None is now.
    """

    start: datetime
    state: str
    note: str | None = None
    prefect_run: str | None = None
    sweep_id: int | None = None
    runs: int = 0
    fruitless: int = 0
    retry_at: datetime | None = None


@dataclass(frozen=True)
class Scheduled:
    """A sweep file that the service starts by itself.

    Attributes:
        since: No start before this moment is owed: the schedule was made, or its cron or zone changed, then.
        once_at: The last start that was asked for by hand.
        night: The last night on record; None before the first.
        lost: Whether the run that is on record has ended or died, and the service has not seen that yet: it may be down.
    """

    id: int
    box: str
    name: str
    when: Schedule
    file_text: str
    source: str
    base: str | None
    paused: bool
    since: datetime
    once_at: datetime | None = None
    night: Night | None = None
    lost: bool = field(default=False, compare=False)

    @property
    def under_way(self) -> bool:
        """Whether a run of it was asked for and has not ended yet."""
        return self.night is not None and self.night.state in UNDER_WAY

    @property
    def queued(self) -> bool:
        """Whether its night waits for a run."""
        return self.night is not None and self.night.state == QUEUED


@dataclass(frozen=True)
class Ending:
    """How a run of a night ended.

    Attributes:
        kind: A state of a night that is over, or `BROKEN` or `BUSY`.
        fruitful: It stored something.
        kept_off: A person paused its sweep: no night begins it before a person does.
    """

    kind: str
    note: str
    sweep_id: int | None = None
    fruitful: bool = False
    kept_off: bool = False


@dataclass(frozen=True)
class Carried:
    """The sweep that a Prefect run carries out, as our database has it.

    Attributes:
        live: Somebody who is not known to be dead holds it.
        fruitful: Something was stored since it was last taken up.
    """

    sweep_id: int
    state: str
    note: str | None
    live: bool
    fruitful: bool


@dataclass(frozen=True)
class NightEvent:
    """What is told about a change of a night."""

    kind: str
    message: str
    level: str = "info"


def newest_start(row: Scheduled, *, now: datetime) -> datetime | None:
    """Return the last start that has come and is owed, by cron or by hand; None when there was none."""
    by_cron = last_start(row.when, at=now)
    starts = [row.once_at] if row.once_at is not None and row.once_at <= now else []
    if by_cron is not None and by_cron >= row.since:
        starts.append(by_cron)
    return max(starts, default=None)


def comes_next(row: Scheduled, *, now: datetime) -> datetime | None:
    """Return the next start: now for one that is due, or asked for by hand and not begun; None when none will come."""
    night = opened(replace(row, paused=False), now=now)
    return now if night is not None and night.state == QUEUED else next_start(row.when, after=now)


def is_over(row: Scheduled, *, start: datetime, now: datetime, begun: bool = False) -> bool:
    """Return whether the night of `start` is over: its `until` has come, or without one it is too late to begin it."""
    end = night_of(row.when, start=start)
    if end is None:
        return not begun and now - start >= LATEST
    return end <= now


def opened(row: Scheduled, *, now: datetime) -> Night | None:
    """Return the night of a start that is not on record yet; None when there is none, or the one on record is under way.

    A start that was missed is made up while its night is not over; one whose night is over is `missed`, and left for the next.
    """
    start = newest_start(row, now=now)
    if start is None or row.under_way or (row.night is not None and start <= row.night.start):
        return None
    if not is_over(row, start=start, now=now):
        return None if row.paused else Night(start, QUEUED)
    if row.paused:
        return Night(start, SKIPPED, note="the schedule is paused")
    return Night(start, MISSED, note=_missed(row, start, now=now))


def _missed(row: Scheduled, start: datetime, *, now: datetime) -> str:
    after = row.since if row.night is None else max(row.since, row.night.start)
    count = starts_between(row.when, after=after, until=now, limit=MOST_COUNTED)
    end = night_of(row.when, start=start)
    over = f"more than {LATEST.seconds // 3600} h ago" if end is None else f"its night ended {_utc(end)}"
    many = f", the last of {count}" if count > 1 else ""
    return f"nothing served this box at {_utc(start)}{many}; {over}"


def lapsed(row: Scheduled, *, now: datetime) -> Night | None:
    """Return what becomes of a queued night that is over; None for one that may still run."""
    night = row.night
    if night is None or night.state != QUEUED or not is_over(row, start=night.start, now=now, begun=night.runs > 0):
        return None
    why = night.note or "it waited for its turn until its night was over"
    if night.sweep_id is not None:
        return replace(night, state=PARTIAL, note=why, retry_at=None)
    if row.paused:
        return replace(night, state=SKIPPED, note="the schedule is paused", retry_at=None)
    return replace(night, state=MISSED, note=why, retry_at=None)


def joined(row: Scheduled, *, now: datetime) -> Night | None:
    """Return the running night with a newer start: one that comes while the sweep runs is one with it; None when none came."""
    night, start = row.night, newest_start(row, now=now)
    if night is None or night.state != RUNNING or start is None or start <= night.start:
        return None
    end = night_of(row.when, start=night.start)
    return None if end is not None and start >= end else replace(night, start=start)


def waiting(rows: Iterable[Scheduled]) -> tuple[Scheduled, ...]:
    """Return the schedules whose night waits for a run, in the order that they get the box.

    The highest priority is first, then the earliest start, then the one that was made first. One that is to be tried again
    in a moment keeps its place: what comes behind it would hold the box for hours.
    """
    ready = (row for row in rows if row.queued and not row.paused)
    return tuple(sorted(ready, key=_turn))


def _turn(row: Scheduled) -> tuple[int, datetime, int]:
    assert row.night is not None
    return -row.when.priority, row.night.start, row.id


def is_due(night: Night, *, now: datetime) -> bool:
    """Return whether the next run of a queued night may be made; a pause that a clock put back made long is none."""
    return night.retry_at is None or not now < night.retry_at <= now + BUSY_AGAIN


def asked(night: Night) -> Night:
    """Return the night as it is when one more run of it is about to be asked for."""
    return replace(night, state=SUBMITTED, runs=night.runs + 1, prefect_run=None, note=None, retry_at=None)


def key_of(row: Scheduled) -> str:
    """Return the key under which the night's current run is asked for: asked twice, Prefect makes one."""
    assert row.night is not None
    return f"nightsweep-schedule-{row.id}-{row.night.start:%Y%m%dT%H%M%S%f}-{row.night.runs}"


def after(night: Night, ending: Ending, *, now: datetime) -> Night:
    """Return what becomes of a night whose run has ended: it is over, or it is queued again."""
    sweep_id = ending.sweep_id if ending.sweep_id is not None else night.sweep_id
    known = replace(night, note=ending.note, sweep_id=sweep_id, retry_at=None)
    if ending.kind == BUSY:
        return replace(known, state=QUEUED, retry_at=now + BUSY_AGAIN)
    if ending.kind != BROKEN:
        return replace(known, state=ending.kind)
    fruitless = 0 if ending.fruitful else night.fruitless + 1
    if fruitless >= MOST_FRUITLESS:
        return replace(known, state=FAILED, fruitless=fruitless)
    return replace(known, state=QUEUED, fruitless=fruitless, retry_at=now + AGAIN * 2**fruitless)


def _utc(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
