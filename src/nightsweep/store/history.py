"""How long engines and production took to start on a box, for the question whether another boot fits."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import distinct_on

from nightsweep.plan.expect import Resident
from nightsweep.plan.fit import Longest, PastStart, PastStarts, program_of
from nightsweep.store.schema import boots, boxes, configs, production_intents
from nightsweep.units import Seconds

RECENT = 20
"""Newest starts of a config, or of production, that count: one odd start shall not hold up every night from then on."""


def past_starts(connection: sa.Connection, box: int) -> PastStarts:
    """Return the box's past starts: a new driver or kernel is another row of `boxes`, and no reason to know nothing."""
    same_box = _same_box(box)
    return PastStarts(engines=_engines(connection, same_box), restores=_restores(connection, same_box))


def past_residents(connection: sa.Connection, box: int) -> dict[str, Resident]:
    """Return what the newest boot of each config on this box told of its weights and KV cache, by fingerprint."""
    told = (
        sa.select(configs.c.hash, boots.c.weights_gib, boots.c.kv_cache_gib, boots.c.kv_tokens)
        .join(configs, configs.c.id == boots.c.config_id)
        .where(boots.c.box_id.in_(_same_box(box)), boots.c.weights_gib.is_not(None), _seen())
        .ext(distinct_on(boots.c.config_id))
        .order_by(boots.c.config_id, boots.c.id.desc())
    )
    return {row.hash: Resident(row.weights_gib, row.kv_cache_gib, row.kv_tokens) for row in connection.execute(told)}


def _seen() -> sa.ColumnElement[bool]:
    """Return whether a boot was ready here; what an imported file tells of one is no measure for this box."""
    return boots.c.ready_at.is_not(None)


def _same_box(box: int) -> sa.Select[Any]:
    """Return the SELECT of all rows of a box, whatever its driver and kernel were then."""
    here = boxes.alias()
    alike = sa.select(boxes.c.id).join(
        here, sa.and_(here.c.name == boxes.c.name, here.c.simulated == boxes.c.simulated)
    )
    return alike.where(here.c.id == box)


def _engines(connection: sa.Connection, same_box: sa.Select[Any]) -> tuple[PastStart, ...]:
    recent = _recent(
        sa.select(boots.c.config_id.label("of"), boots.c.cold_start_s.label("seconds")).where(
            boots.c.box_id.in_(same_box), boots.c.cold_start_s.is_not(None), _seen()
        ),
        by=boots.c.config_id,
        newest=boots.c.id,
    )
    rows = connection.execute(
        sa.select(configs.c.hash, configs.c.doc, configs.c.method, recent.c.longest, recent.c.starts).join(
            recent, recent.c.of == configs.c.id
        )
    )
    return tuple(
        PastStart(row.hash, program_of(row.doc), row.method, Longest(Seconds(row.longest), row.starts)) for row in rows
    )


def _restores(connection: sa.Connection, same_box: sa.Select[Any]) -> dict[str, Longest]:
    table = production_intents
    took = sa.extract("epoch", table.c.closed_at - table.c.restore_started_at)
    recent = _recent(
        sa.select(table.c.container_name.label("of"), took.label("seconds")).where(
            table.c.box_id.in_(same_box), table.c.outcome == "restored", took.is_not(None)
        ),
        by=table.c.container_name,
        newest=table.c.id,
    )
    rows = connection.execute(sa.select(recent))
    return {row.of: Longest(Seconds(float(row.longest)), row.starts) for row in rows}


def _recent(starts: sa.Select[Any], *, by: sa.Column[Any], newest: sa.Column[Any]) -> sa.Subquery:
    """Return the longest of the newest starts of each, and their number."""
    place = sa.func.row_number().over(partition_by=by, order_by=newest.desc()).label("place")
    numbered = starts.add_columns(place).subquery()
    return (
        sa.select(numbered.c.of, sa.func.max(numbered.c.seconds).label("longest"), sa.func.count().label("starts"))
        .where(numbered.c.place <= RECENT)
        .group_by(numbered.c.of)
        .subquery()
    )
