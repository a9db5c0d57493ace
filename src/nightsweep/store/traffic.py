"""Production's traffic, as intents keep it: what a decision rests on, and what it is held against later."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from nightsweep.analysis.premises import Decision, Known
from nightsweep.analysis.traffic import JUDGED, Recorded, counted_said, premises_of
from nightsweep.analysis.traffic import counted as counted_of
from nightsweep.measurement.traffic import from_document
from nightsweep.store.schema import boxes, sweeps
from nightsweep.store.schema import production_intents as table

NEWEST = 60
"""Nights that are looked through for one with enough requests: two months."""


def of_sweep(connection: sa.Connection, sweep_id: int, container: str) -> Recorded | None:
    """Return the traffic that a sweep was measured beside: of its newest intent that tells it, else the box's newest before it.

    Where none tells it, the newest that says why; None where nobody looked.
    """
    sweep = connection.execute(
        sa.select(
            boxes.c.name, boxes.c.simulated, sa.func.coalesce(sweeps.c.started_at, sweeps.c.created_at).label("at")
        )
        .join(boxes, boxes.c.id == sweeps.c.box_id)
        .where(sweeps.c.id == sweep_id)
    ).one()
    on_box = _of(container).where(boxes.c.name == sweep.name, boxes.c.simulated == sweep.simulated)
    own = _read(connection, on_box.where(table.c.sweep_id == sweep_id))
    earlier = _read(connection, on_box.where(table.c.sweep_id != sweep_id, table.c.opened_at < sweep.at))
    return _telling(own) or _telling(earlier) or next(iter([*own, *earlier]), None)


def by_now(connection: sa.Connection, decision: Decision) -> tuple[dict[str, Known], str | None]:
    """Return the newest traffic of a decision's production, by premise, and why there is none newer than its own."""
    then = decision.evidence.traffic
    if then is None:
        return {}, None
    on_box = _of(then["container"]).where(boxes.c.name == decision.box, boxes.c.simulated == decision.simulated)
    newer = _read(connection, on_box.where(table.c.id > then["intent"]))
    newest = _telling(newer)
    if newest is None:
        why = (
            f"traffic: {newer[0].container}, {newer[0].taken_down:%Y-%m-%d}: {newer[0].traffic.unknown}"
            if newer
            else None
        )
        return {}, why
    source = f"{counted_said(counted_of(newest))}; it was of {then['requests']:,}"
    values = premises_of(newest.traffic)
    return {name: Known(values[name], source) for name in JUDGED if name in values}, None


def _of(container: str) -> sa.Select[Any]:
    return (
        sa.select(table.c.id, table.c.container_name, table.c.opened_at, table.c.traffic)
        .join(boxes, boxes.c.id == table.c.box_id)
        .where(table.c.container_name == container, table.c.traffic.is_not(None))
        .order_by(table.c.id.desc())
        .limit(NEWEST)
    )


def _read(connection: sa.Connection, wanted: sa.Select[Any]) -> list[Recorded]:
    return [
        Recorded(int(row.id), str(row.container_name), row.opened_at, from_document(row.traffic))
        for row in connection.execute(wanted)
    ]


def _telling(found: Iterable[Recorded]) -> Recorded | None:
    return next((one for one in found if one.traffic.unknown is None), None)
