"""Schedules and their nights: what the service starts by itself, and how far each night came."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from nightsweep.plan.model import Schedule
from nightsweep.plan.queue import Carried, Night, NightEvent, Scheduled
from nightsweep.store import catalog
from nightsweep.store.codec import clean_text
from nightsweep.store.leases import NOW
from nightsweep.store.owner import lives_here, owner_is_dead
from nightsweep.store.schema import boots, boxes, prefills, schedules, sweeps, windows
from nightsweep.store.session import MachineTime, Outage, Patient, Waiting
from nightsweep.units import Seconds

T = TypeVar("T")


class Schedules:
    """Keeps schedules. Every call is one short transaction; one that is away raises StoreUnavailable.

    Args:
        patience: How long a call waits for a PostgreSQL that is away; the dispatcher does not wait: it comes again anyway.
        revive: Starts an embedded server again; called between two tries.
        shelter: Keeps interrupts out of a transaction for a block.
    """

    def __init__(
        self,
        engine: sa.Engine,
        *,
        clock: Waiting | None = None,
        patience: Seconds = Seconds(0.0),
        revive: Callable[[], None] | None = None,
        shelter: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        clock = clock or MachineTime()
        outage = Outage(clock, patience=patience)
        self._do = Patient(engine, clock=clock, outage=outage, revive=revive, shelter=shelter)

    # --- what is scheduled

    def all(self, box: str) -> tuple[Scheduled, ...]:
        """Return the schedules of a box, by name."""
        wanted = sa.select(schedules).where(schedules.c.box == box).order_by(schedules.c.name)
        return self._do.run(lambda c: tuple(_seen(c, _scheduled(row)) for row in c.execute(wanted).all()))

    def put(
        self,
        when: Schedule,
        *,
        box: str,
        name: str,
        file_text: str,
        source: str,
        base: str | None,
        at: datetime,
        once_at: datetime | None = None,
    ) -> Scheduled:
        """Make a schedule, or change the one of this name; its night on record stays, and so does a pause.

        Args:
            at: Now. With another cron or zone no start before it is owed.
            once_at: A start by hand; None leaves one that was asked for before.
        """
        values = {
            "file_text": clean_text(file_text),
            "source": clean_text(source),
            "base": base,
            "cron": when.cron,
            "timezone": when.timezone,
            "until_time": when.until,
            "priority": when.priority,
        }
        row = insert(schedules).values(box=box, name=clean_text(name), once_at=once_at, updated_at=at, **values)
        same = sa.and_(
            schedules.c.cron.is_not_distinct_from(row.excluded.cron), schedules.c.timezone == row.excluded.timezone
        )
        newest = row.on_conflict_do_update(
            index_elements=["box", "name"],
            set_={
                **{key: row.excluded[key] for key in values},
                "once_at": sa.func.coalesce(row.excluded.once_at, schedules.c.once_at),
                "updated_at": sa.case((same, schedules.c.updated_at), else_=row.excluded.updated_at),
            },
        ).returning(schedules)
        return self._do.run(lambda c: _scheduled(c.execute(newest).one()))

    def set_paused(self, schedule_id: int, *, paused: bool) -> None:
        """Pause a schedule, or have it go on."""
        self._change(schedule_id, paused=paused)

    def start_once(self, schedule_id: int, *, at: datetime) -> None:
        """Ask for a start by hand."""
        self._change(schedule_id, once_at=at)

    def remove(self, schedule_id: int) -> None:
        """Take a schedule away; what it measured stays, and a sweep of it that runs goes on."""
        self._do.run(lambda c: c.execute(sa.delete(schedules).where(schedules.c.id == schedule_id)) and None)

    def _change(self, schedule_id: int, **values: Any) -> None:
        changed = sa.update(schedules).where(schedules.c.id == schedule_id).values(**values)
        self._do.run(lambda c: c.execute(changed) and None)

    # --- nights

    def move(self, row: Scheduled, night: Night, *, told: NightEvent | None = None, at: datetime) -> bool:
        """Put a night on record in place of the one that `row` has, with an event, in one transaction.

        Returns:
            False, with nothing changed, when the night on record is another one by now: somebody else was quicker.
        """
        key = uuid.uuid4()  # here: a second delivery of the same change tells the same event

        def work(connection: sa.Connection) -> bool:
            changed = sa.update(schedules).where(schedules.c.id == row.id, _unchanged(row.night))
            if connection.execute(changed.values(**_night_values(night))).rowcount == 0:
                return False
            if told is not None:
                _tell(connection, key, row, night, told=told, at=at)
            return True

        return self._do.run(work)

    def carried_by(self, prefect_run: str) -> Carried | None:
        """Return the sweep that a Prefect run carries out; None when none was claimed by it yet."""
        return self._do.run(lambda c: _carried(c, prefect_run))

    def sweep_state(self, sweep_id: int) -> str | None:
        """Return a sweep's state; None when there is no such sweep."""
        state = sa.select(sweeps.c.state).where(sweeps.c.id == sweep_id)
        return self._do.run(lambda c: c.scalar(state))

    def taken_by(self, box: str) -> str | None:
        """Return who runs a sweep on this box now, in words; None when nobody does.

        A sweep whose holder is a process of this machine counts whatever its box is called; one whose lease ran out, or whose
        holder is dead, does not: whoever claims next takes it over.
        """
        return self._do.run(lambda c: _taken(c, (box, f"{box} (simulated)")))


def _scheduled(row: Any) -> Scheduled:
    night = None
    if row.night_start is not None:
        night = Night(
            start=row.night_start,
            state=row.night_state,
            note=row.note,
            prefect_run=row.prefect_run,
            sweep_id=row.sweep_id,
            runs=row.runs,
            fruitless=row.fruitless,
            retry_at=row.retry_at,
        )
    return Scheduled(
        id=row.id,
        box=row.box,
        name=row.name,
        when=Schedule(cron=row.cron, timezone=row.timezone, until=row.until_time, priority=row.priority),
        file_text=row.file_text,
        source=row.source,
        base=row.base,
        paused=row.paused,
        since=row.updated_at,
        once_at=row.once_at,
        night=night,
    )


def _seen(connection: sa.Connection, row: Scheduled) -> Scheduled:
    """Return a schedule with what became of a run that is under way by its record."""
    if row.night is None or row.night.prefect_run is None or not row.under_way:
        return row
    carried = _carried(connection, row.night.prefect_run)
    return replace(row, lost=carried is not None and not carried.live)


def _night_values(night: Night) -> dict[str, Any]:
    return {
        "night_start": night.start,
        "night_state": night.state,
        "note": None if night.note is None else clean_text(night.note),
        "prefect_run": night.prefect_run,
        "sweep_id": night.sweep_id,
        "runs": night.runs,
        "fruitless": night.fruitless,
        "retry_at": night.retry_at,
    }


def _unchanged(night: Night | None) -> sa.ColumnElement[bool]:
    if night is None:
        return schedules.c.night_start.is_(None)
    return sa.and_(
        schedules.c.night_start == night.start,
        schedules.c.night_state == night.state,
        schedules.c.runs == night.runs,
        schedules.c.prefect_run.is_not_distinct_from(night.prefect_run),
    )


def _tell(
    connection: sa.Connection, key: uuid.UUID, row: Scheduled, night: Night, *, told: NightEvent, at: datetime
) -> None:
    data = {"schedule": row.name, "box": row.box, "night_start": night.start.isoformat(), "night_state": night.state}
    catalog.add_event(
        connection,
        key,
        kind=told.kind,
        message=told.message,
        level=told.level,
        sweep_id=night.sweep_id,
        data=data,
        at=at,
    )


def _live(row: Any) -> bool:
    """Whether a running sweep's holder may still write; one that overslept its lease on this machine does live."""
    owner = str(row.lease_owner)
    return lives_here(owner) or (not row.over and not owner_is_dead(owner))


_OVER = (sweeps.c.lease_until <= NOW).label("over")


def _carried(connection: sa.Connection, prefect_run: str) -> Carried | None:
    wanted = (
        sa.select(
            sweeps.c.id,
            sweeps.c.state,
            sweeps.c.note,
            sweeps.c.fence,
            sweeps.c.lease_owner,
            _OVER,
        )
        .where(sweeps.c.prefect_run == prefect_run)
        .order_by(sweeps.c.id.desc())
    )
    row = connection.execute(wanted.limit(1)).one_or_none()
    if row is None:
        return None
    return Carried(
        sweep_id=row.id,
        state=row.state,
        note=row.note,
        live=row.state == "running" and _live(row),
        fruitful=any(connection.scalar(sa.select(one)) for one in _stored_under(row.id, row.fence)),
    )


def _stored_under(sweep_id: int, fence: int) -> Sequence[sa.ColumnElement[bool]]:
    """Return the questions whether something was stored under a fence: a window, a prefill, or a config that failed to boot."""
    of_sweep = boots.c.sweep_id == sweep_id
    measured = (
        sa.exists().where(table.c.boot_id == boots.c.id, of_sweep, table.c.fence == fence)
        for table in (windows, prefills)
    )
    return (*measured, sa.exists().where(of_sweep, boots.c.fence == fence, boots.c.state == "failed"))


def _taken(connection: sa.Connection, names: tuple[str, ...]) -> str | None:
    wanted = (
        sa.select(sweeps.c.id, sweeps.c.name, sweeps.c.lease_owner, boxes.c.name.label("box"), _OVER)
        .join(boxes, boxes.c.id == sweeps.c.box_id)
        .where(sweeps.c.state == "running")
        .order_by(sweeps.c.id)
    )
    for row in connection.execute(wanted):
        if _live(row) and (row.box in names or lives_here(str(row.lease_owner))):
            return f"sweep {row.id} ({row.name})"
    return None
