"""Production that is owed, for whoever brings it back without holding a sweep. Tries for seconds: production comes first."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa

from nightsweep.store import catalog, handed, intents, leases
from nightsweep.store.leases import NOW
from nightsweep.store.schema import boxes, production_intents, sweeps
from nightsweep.store.session import MachineTime, Outage, Patient
from nightsweep.units import Seconds

PATIENCE = Seconds(3.0)


@dataclass(frozen=True)
class Debt:
    """An intent that is open.

    Attributes:
        box: Its box by name.
        owner: Who holds its sweep now; None when nobody does.
        lease_over: Whether that holder's lease has run out.
    """

    intent_id: int
    box_id: int
    box: str
    sweep_id: int
    container: str
    container_id: str
    record: Mapping[str, Any]
    owner: str | None
    lease_over: bool


class Debts:
    """The open intents of a database. Errors are StoreUnavailable and NotFound."""

    def __init__(self, engine: sa.Engine) -> None:
        self._clock = MachineTime()
        outage = Outage(self._clock, patience=PATIENCE)
        self._do = Patient(engine, clock=self._clock, outage=outage, revive=None)

    def open(self) -> tuple[Debt, ...]:
        """Return what is owed, on all boxes, oldest first."""
        return self._do.run(_open)

    def holders(self) -> Mapping[str, bool]:
        """Return who holds a running sweep, and whether the lease has run out."""
        wanted = sa.select(sweeps.c.lease_owner, (sweeps.c.lease_until <= NOW).label("over"))
        rows = self._do.run(lambda c: c.execute(wanted.where(sweeps.c.state == "running")).all())
        return {str(row.lease_owner): bool(row.over) for row in rows}

    def mark_started(self, debt: Debt) -> None:
        """Record that the container was started again just now."""
        self._do.run(lambda c: intents.mark(c, debt.intent_id, stage="restore_started"))

    def stop(self, debt: Debt) -> None:
        """Wish that the sweep which has it down stops at once."""
        self._do.run(lambda c: catalog.wish_stop(c, debt.sweep_id, wish="drop"))

    def end_cancelled(self, flow_run: str) -> str | None:
        """Have the sweep of a run that a person cancelled in Prefect say so; return its note, None where it had ended before."""
        ended = self._do.run(lambda c: leases.end_cancelled(c, flow_run))
        if ended is None:
            return None
        sweep_id, note = ended
        self._tell(sweep_id, "sweep_cancelled", "info", note)
        return note

    def settle(
        self, debt: Debt, *, outcome: str, checks: Mapping[str, Any] | None, news: Sequence[tuple[str, str, str]]
    ) -> None:
        """Record how production fares, with events (kind, level, message)."""
        self._do.run(lambda c: intents.close(c, debt.intent_id, outcome=outcome, checks=checks))
        for kind, level, message in news:
            self._tell(debt.sweep_id, kind, level, message)

    def _tell(self, sweep_id: int, kind: str, level: str, message: str) -> None:
        event: dict[str, Any] = {"kind": kind, "level": level, "message": message, "sweep_id": sweep_id}
        key = uuid.uuid4()  # of one event, however often it must be told until it is kept
        self._do.run(partial(catalog.add_event, key=key, at=self._clock.now(), **event))


def _open(connection: sa.Connection) -> tuple[Debt, ...]:
    table = production_intents
    rows = connection.execute(
        sa.select(
            table.c.id,
            table.c.box_id,
            table.c.sweep_id,
            boxes.c.name.label("box"),
            table.c.container_name,
            table.c.container_id,
            table.c.facts,
            sweeps.c.lease_owner,
            sa.func.coalesce(sweeps.c.lease_until <= NOW, True).label("over"),
        )
        .join(sweeps, sweeps.c.id == table.c.sweep_id)
        .join(boxes, boxes.c.id == table.c.box_id)
        .where(table.c.closed_at.is_(None))
        .order_by(table.c.id)
    )
    return tuple(
        Debt(
            intent_id=row.id,
            box_id=row.box_id,
            box=row.box,
            sweep_id=row.sweep_id,
            container=row.container_name,
            container_id=row.container_id,
            record=dict(row.facts.get(handed.RECORD) or {}),
            owner=row.lease_owner,
            lease_over=bool(row.over),
        )
        for row in rows
    )
