"""Production's intents: what was taken down, how it comes back, and what was checked when it did."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from nightsweep.errors import NotFound
from nightsweep.measurement.traffic import Traffic
from nightsweep.measurement.traffic import document as traffic_document
from nightsweep.ports import ForeignContainer, Lease, Owed
from nightsweep.store.codec import clean_text, plain, without_secrets
from nightsweep.store.handed import RECORD, newest
from nightsweep.store.leases import NOW, hold
from nightsweep.store.readings import kept as readings_kept
from nightsweep.store.schema import production_intents as table

CLOSING_OUTCOMES = ("restored", "abandoned")
"""What ends an intent: production serves again, or a person said that it shall not. Anything else is noted and stays open."""


def open_intent(
    connection: sa.Connection,
    lease: Lease,
    production: ForeignContainer,
    *,
    restore_by: datetime | None,
    record: Mapping[str, Any] | None,
    traffic: Traffic | None,
    replaces: bool,
) -> int:
    """Record what runs and shall come back. One that is open for it already stays: it says what ran before anything stopped.

    Its traffic alone is the newest count (`readings.kept`): production that somebody started meanwhile has served more. That it
    passed from one sweep to another is kept with it.

    Args:
        replaces: What is recorded now is to come back instead; what was recorded before is kept beside it.
    """
    hold(connection, lease)
    still_open = table.c.closed_at.is_(None)
    facts = {
        "restart_policy": production.restart_policy,
        "ports": production.ports,
        "container": production.container,
        "env_names": production.env_names,
        RECORD: record or {},
    }
    row = insert(table).values(
        box_id=lease.box_id,
        sweep_id=lease.sweep_id,
        container_name=production.name,
        container_id=production.id,
        image=production.image,
        image_digest=production.image_digest,
        entrypoint=without_secrets(production.shown_entrypoint or production.entrypoint),
        command=without_secrets(production.shown_command or production.command),
        facts=plain(facts),
        restore_by=restore_by,
        opened_at=NOW,
        traffic=sa.null() if traffic is None else plain(traffic_document(traffic)),
    )
    tells = traffic is not None and traffic.unknown is None
    served = {"traffic": readings_kept(table.c.traffic, row.excluded.traffic, tells=tells)}
    kept = row.on_conflict_do_update(
        index_elements=["box_id", "container_name"],
        index_where=still_open,
        set_={**newest(row.excluded, replaces=replaces), **served, "restore_started_at": None},
    )
    return int(connection.execute(kept.returning(table.c.id)).scalar_one())


def mark(connection: sa.Connection, intent_id: int, *, stage: str) -> None:
    """Note when production was stopped (the first time counts) or started again (the last time counts).

    Raises:
        NotFound: There is no such intent.
    """
    when: dict[str, dict[str, Any]] = {
        "stopped": {"stopped_at": sa.func.coalesce(table.c.stopped_at, NOW)},
        "restore_started": {"restore_started_at": NOW},
    }
    connection.execute(_still_open(intent_id).values(when[stage]))
    _must_exist(connection, intent_id)


def close(connection: sa.Connection, intent_id: int, *, outcome: str, checks: Mapping[str, Any] | None) -> None:
    """Note how production fares; `CLOSING_OUTCOMES` close the intent, whose first ending stays.

    Raises:
        NotFound: There is no such intent.
    """
    values: dict[str, Any] = {"outcome": clean_text(outcome)}
    if checks is not None:
        values["checks"] = plain(checks)
    if outcome in CLOSING_OUTCOMES:
        values["closed_at"] = NOW
    if checks is not None and checks.get("started") is False:
        # It ran already: when it was started is not known, and how long that took neither.
        values["restore_started_at"] = None
    connection.execute(_still_open(intent_id).values(values))
    _must_exist(connection, intent_id)


def owed(connection: sa.Connection, box: int) -> tuple[Owed, ...]:
    """Return the intents that are open on a box, oldest first."""
    rows = connection.execute(
        sa.select(table.c.id, table.c.container_name, table.c.facts)
        .where(table.c.box_id == box, table.c.closed_at.is_(None))
        .order_by(table.c.id)
    )
    return tuple(Owed(int(row.id), str(row.container_name), dict(row.facts.get(RECORD) or {})) for row in rows)


def _still_open(intent_id: int) -> sa.Update:
    return sa.update(table).where(table.c.id == intent_id, table.c.closed_at.is_(None))


def _must_exist(connection: sa.Connection, intent_id: int) -> None:
    if connection.scalar(sa.select(table.c.id).where(table.c.id == intent_id)) is None:
        raise NotFound(what=f"intent {intent_id}", hint="open it first")
