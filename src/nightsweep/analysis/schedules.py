"""Schedules as people and programs read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from nightsweep.analysis import text
from nightsweep.analysis.tables import Column, Group, Row, Table
from nightsweep.plan.nights import in_words
from nightsweep.plan.queue import Scheduled, comes_next, is_due, waiting

NOTE_AT_MOST = 44
"""Characters of why a night ended as it did in the table of schedules; `--json` and the events say it whole."""


@dataclass(frozen=True)
class Left:
    """What a schedule's sweep still has to measure; `planned` counts the repeats of all cells."""

    left: int
    planned: int


def schedules_table(
    rows: Sequence[Scheduled], *, title: str, now: datetime, left: Sequence[Left | None] | None = None
) -> Table:
    """Return the table of schedules: what runs or waits first, in the order that it gets the box, then by the next start."""
    columns = [
        Column("schedule", right=False),
        Column("when", right=False),
        Column("next start", right=False),
        Column("until", right=False),
        Column("priority"),
        Column("last night", right=False),
    ]
    if left is not None:
        columns.append(Column("left", right=False))
    known = dict(zip((row.id for row in rows), left or (), strict=False))
    shown = tuple(
        _row(row, now=now, left=known.get(row.id), with_left=left is not None) for row in in_turn(rows, now=now)
    )
    return Table(title, tuple(columns), (Group("", shown),))


def in_turn(rows: Sequence[Scheduled], *, now: datetime) -> tuple[Scheduled, ...]:
    """Return schedules in the order that they get the box."""
    under_way = [row for row in rows if row.under_way]
    queue = [*under_way, *waiting(rows)]
    rest = [row for row in rows if row not in queue]
    return (*queue, *sorted(rest, key=lambda row: _later(row, now=now)))


def _later(row: Scheduled, *, now: datetime) -> tuple[bool, bool, datetime, int]:
    start = comes_next(row, now=now)
    return row.paused, start is None, start or now, -row.when.priority


def _row(row: Scheduled, *, now: datetime, left: Left | None, with_left: bool) -> Row:
    values = [
        text.printable(row.name),
        f"{in_words(row.when)}, {row.when.timezone}" if row.when.cron else in_words(row.when),
        next_said(row, now=now),
        _until(row),
        str(row.when.priority),
        last_night(row),
    ]
    if with_left:
        values.append(left_said(left))
    failed = row.lost or (row.night is not None and row.night.state == "failed")
    mark = "failed" if failed else "running" if row.under_way else ""
    return Row(tuple(values), mark=mark)


def _until(row: Scheduled) -> str:
    """Return the end of its nights; with its zone where no cron says that."""
    if row.when.until is None:
        return text.ABSENT
    return row.when.until if row.when.cron else f"{row.when.until} {row.when.timezone}"


def next_said(row: Scheduled, *, now: datetime) -> str:
    """Return when it starts next, in the schedule's own zone; or what is the case now."""
    if row.under_way:
        return "its run is over: `nightsweep serve` sees to it" if row.lost else "runs now"
    if row.paused:
        return "paused"
    if row.queued:
        again = None if row.night is None or is_due(row.night, now=now) else row.night.retry_at
        if again is not None:
            return f"is tried again {again.astimezone(ZoneInfo(row.when.timezone)):%H:%M:%S %Z}"
        return "waits for its turn"
    start = comes_next(row, now=now)
    if start is None:
        return text.ABSENT
    return "at once" if start == now else local(start, zone=row.when.timezone)


def local(moment: datetime, *, zone: str) -> str:
    """Return a moment as the wall clock of a zone shows it, with the day and the zone's short name."""
    return f"{moment.astimezone(ZoneInfo(zone)):%a %Y-%m-%d %H:%M %Z}"


def on_clocks(moment: datetime, first: str, *others: str | None) -> str:
    """Return a moment as the clock of a zone shows it, and in brackets as those of others do that show another time."""
    seen = [moment.astimezone(ZoneInfo(first))]
    for zone in filter(None, others):
        shown = moment.astimezone(ZoneInfo(zone))
        if all(shown.utcoffset() != each.utcoffset() for each in seen):
            seen.append(shown)
    said, *rest = (f"{each:%a %H:%M %Z}" for each in seen)
    return f"{said} ({', '.join(rest)})" if rest else said


def last_night(row: Scheduled) -> str:
    """Return the last night on record, how it ended, and why."""
    if row.night is None:
        return text.ABSENT
    night = row.night
    said = f"{local(night.start, zone=row.when.timezone)}: {night.state}"
    if not night.note:
        return said
    note = text.printable(night.note)
    return f"{said} ({note if len(note) <= NOTE_AT_MOST else note[: NOTE_AT_MOST - 1].rstrip() + '…'})"


def left_said(left: Left | None) -> str:
    """Return what is left in words; "unknown" for a file that cannot be read any more."""
    if left is None:
        return "unknown"
    return "nothing is left" if left.left == 0 else f"{left.left:,} of {left.planned:,} repeats"


def schedule_document(row: Scheduled, *, now: datetime) -> dict[str, Any]:
    """Return a schedule for programs; moments are ISO 8601 in UTC."""
    night, start = row.night, comes_next(row, now=now)
    return {
        "name": row.name,
        "box": row.box,
        "cron": row.when.cron,
        "timezone": row.when.timezone,
        "until": row.when.until,
        "priority": row.when.priority,
        "paused": row.paused,
        "source": row.source,
        "next_start": None if row.paused or start is None else start.isoformat(),
        "night_start": None if night is None else night.start.isoformat(),
        "night_state": None if night is None else night.state,
        "night_note": None if night is None else night.note,
        "run_is_gone": row.lost,
        "sweep_id": None if night is None else night.sweep_id,
        "prefect_run": None if night is None else night.prefect_run,
    }


def listed(names: Iterable[str]) -> str:
    """Return names in quotes, for an error that lists what there is."""
    return ", ".join(repr(name) for name in sorted(names))
