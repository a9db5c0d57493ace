"""Who may write to a sweep: lease and fence, under the database's own clock.

The fence is what guards a write: it is looked at, and its row locked, in the transaction of every write. The lease only says
when somebody else may take the sweep. So a holder that overslept its lease, with PostgreSQL away for minutes say, may still store
what it measured, as long as nobody took over; once somebody did, it never can.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from nightsweep.errors import BoxBusy, LeaseLost, NotFound
from nightsweep.ports import INTERRUPTED, Lease
from nightsweep.store.columns import NOW as NOW
from nightsweep.store.owner import lives_here, owner_is_dead
from nightsweep.store.schema import LIVE_STATES, boots, boxes, sweeps
from nightsweep.units import Seconds

OVERSLEPT = Seconds(4 * 3600.0)
"""How long a lease that ran out still is its owner's who lives on this machine: the database's clock may have been set forward
by hours, and the owner, with an engine up, renews at its next turn."""

Guard = Callable[[sa.Connection, Lease], None]
"""Proves, in the write's own transaction, that a lease may write; raises LeaseLost."""


def _in(seconds: Seconds) -> sa.ColumnElement[object]:
    return NOW + sa.func.make_interval(0, 0, 0, 0, 0, 0, float(seconds))


def hold(connection: sa.Connection, lease: Lease) -> None:
    """Lock the sweep for this transaction and prove that the lease's fence is current (raises LeaseLost)."""
    row = connection.execute(
        sa.select(sweeps.c.state, sweeps.c.lease_owner, sweeps.c.fence)
        .where(sweeps.c.id == lease.sweep_id)
        .with_for_update(key_share=True)
    ).one_or_none()
    if row is None or tuple(row) != ("running", lease.owner, lease.fence):
        raise LeaseLost(sweep=lease.sweep_id, fence=lease.fence)


def hold_gap(connection: sa.Connection, lease: Lease) -> None:
    """Lock a sweep that somebody took over and nobody holds now: what the lease's holder measured may still fill a gap.

    While another one holds the sweep it may be measuring that very repeat: its own write must not be refused for a late one.

    Raises:
        LeaseLost: Another holder has it; or the fence was never given.
    """
    row = connection.execute(
        sa.select(sweeps.c.state, sweeps.c.fence).where(sweeps.c.id == lease.sweep_id).with_for_update(key_share=True)
    ).one_or_none()
    if row is None or row.state == "running" or row.fence < lease.fence:
        raise LeaseLost(sweep=lease.sweep_id, fence=lease.fence)


def claim(connection: sa.Connection, sweep_id: int, *, owner: str, ttl: Seconds) -> Lease:
    """Take a sweep and its box.

    A sweep of this box whose lease ran out, or whose owner is a dead process of this machine, is closed first; one that
    lives on this machine keeps the box for `OVERSLEPT` more. The owner that holds this very sweep may claim it again: that is
    what a claim whose answer was lost looks like.

    Raises:
        BoxBusy: A live holder has a sweep on this box.
        NotFound: There is no such sweep.
    """
    box_id = connection.scalar(sa.select(sweeps.c.box_id).where(sweeps.c.id == sweep_id))
    if box_id is None:
        raise NotFound(what=f"sweep {sweep_id}", hint="`nightsweep status` lists the sweeps there are")
    box = connection.scalar(sa.select(boxes.c.name).where(boxes.c.id == box_id).with_for_update(key_share=True))
    running = connection.execute(
        sa.select(
            sweeps.c.id,
            sweeps.c.name,
            sweeps.c.lease_owner,
            sweeps.c.lease_until,
            (sweeps.c.lease_until <= NOW).label("over"),
            (sweeps.c.lease_until <= _in(Seconds(-OVERSLEPT))).label("long_over"),
        )
        .where(sweeps.c.box_id == box_id, sweeps.c.state == "running")
        .with_for_update(key_share=True)
    ).all()
    for row in running:
        again = row.id == sweep_id and row.lease_owner == owner
        over = row.long_over or (row.over and not lives_here(row.lease_owner))
        if not (again or over or owner_is_dead(row.lease_owner)):
            until = row.lease_until.isoformat(timespec="seconds")
            raise BoxBusy(box=box, owner=row.lease_owner, sweep=row.id, name=row.name, until=until)
        _interrupt(connection, row.id)
    lose_boots(connection, box_id)
    return _take(connection, sweep_id, box_id=box_id, owner=owner, ttl=ttl)


def _interrupt(connection: sa.Connection, sweep_id: int) -> None:
    connection.execute(
        sa.update(sweeps)
        .where(sweeps.c.id == sweep_id)
        .values(
            state="interrupted",
            note=sa.literal("its holder was gone: ") + sweeps.c.lease_owner,
            lease_owner=None,
            lease_until=None,
            ended_at=NOW,
        )
    )


def _take(connection: sa.Connection, sweep_id: int, *, box_id: int, owner: str, ttl: Seconds) -> Lease:
    fence = connection.scalar(
        sa.update(sweeps)
        .where(sweeps.c.id == sweep_id)
        .values(
            state="running",
            lease_owner=owner,
            lease_until=_in(ttl),
            fence=sweeps.c.fence + 1,
            # A wish to stop outlives the holder that died before it could obey; a new start forgets it.
            stop_wish=sa.case((sweeps.c.state == "interrupted", sweeps.c.stop_wish), else_=None),
            note=None,
            started_at=sa.func.coalesce(sweeps.c.started_at, NOW),
            ended_at=None,
        )
        .returning(sweeps.c.fence)
    )
    assert fence is not None
    return Lease(sweep_id=sweep_id, box_id=box_id, owner=owner, fence=int(fence))


def lose_boots(connection: sa.Connection, box_id: int) -> None:
    """Close every boot of this box that is still open: whoever started it is gone, or has forgotten it."""
    connection.execute(
        sa.update(boots)
        .where(boots.c.box_id == box_id, boots.c.state.in_(LIVE_STATES))
        .values(state="lost", ended_at=NOW)
    )


def renew(connection: sa.Connection, lease: Lease, *, ttl: Seconds) -> None:
    """Hold on to the lease (raises LeaseLost)."""
    hold(connection, lease)
    connection.execute(sa.update(sweeps).where(sweeps.c.id == lease.sweep_id).values(lease_until=_in(ttl)))


def release(connection: sa.Connection, lease: Lease, *, state: str, note: str) -> None:
    """Give sweep and box back. A second delivery of the same release is fine.

    Raises:
        LeaseLost: Somebody else holds the sweep.
    """
    row = connection.execute(
        sa.select(sweeps.c.state, sweeps.c.lease_owner, sweeps.c.fence).where(sweeps.c.id == lease.sweep_id)
    ).one_or_none()
    if row is not None and tuple(row) == (state, None, lease.fence):
        return
    hold(connection, lease)
    lose_boots(connection, lease.box_id)
    connection.execute(
        sa.update(sweeps)
        .where(sweeps.c.id == lease.sweep_id)
        .values(state=state, note=note, lease_owner=None, lease_until=None, stop_wish=None, ended_at=NOW)
    )


def end_cancelled(connection: sa.Connection, flow_run: str) -> tuple[int, str] | None:
    """Record that a person cancelled, in Prefect, the run that carried a sweep out; return the sweep and its note.

    None, with nothing changed, where the run carried no sweep out, the sweep had come to its own end before, or somebody
    who is not known to be dead holds it.
    """
    row = connection.execute(
        sa.select(sweeps.c.id, sweeps.c.box_id, sweeps.c.state, sweeps.c.note, sweeps.c.lease_owner)
        .where(sweeps.c.prefect_run == flow_run)
        .order_by(sweeps.c.id.desc())
        .limit(1)
        .with_for_update(key_share=True)
    ).one_or_none()
    if row is None:
        return None
    first, *rest = (row.note or "").split("; ")
    killed = row.state == "running" and owner_is_dead(row.lease_owner)
    if not (killed or row.state == "interrupted" or (row.state == "partial" and first.startswith(INTERRUPTED))):
        return None
    if killed:
        lose_boots(connection, row.box_id)
    kept = rest if row.state == "partial" else []
    note = "; ".join((f"cancelled in Prefect: `nightsweep resume {row.id}` goes on with it", *kept))
    values = {"state": "cancelled", "note": note, "lease_owner": None, "lease_until": None, "stop_wish": None}
    ended = {"ended_at": sa.func.coalesce(sweeps.c.ended_at, NOW)}
    connection.execute(sa.update(sweeps).where(sweeps.c.id == row.id).values(**values, **ended))
    return int(row.id), note
