"""What stands behind windows: the documents of their fingerprints, and the nights that they are of."""

from __future__ import annotations

from collections.abc import Sequence

from nightsweep.analysis.sides import Documents, Pool
from nightsweep.analysis.values import Filters, WindowRow
from nightsweep.cli.reading import Queries
from nightsweep.plan.words import DECODE

FAMILY_SWEEPS = 4
"""Newest sweeps of the asked windows whose other windows tell how values scatter."""
FAMILY_WINDOWS = 2000
"""Windows of each of those sweeps: more would not make the noise better known, and a sweep may have tens of thousands."""


def family_of(queries: Queries, rows: Sequence[WindowRow]) -> list[WindowRow]:
    """Return windows of the rows' kind, of the newest sweeps that they are of."""
    newest = sorted({row.sweep_id for row in rows}, reverse=True)[:FAMILY_SWEEPS]
    kind = rows[0].kind if rows else DECODE
    asked = (Filters(sweep=sweep, with_flagged="no", kind=kind) for sweep in newest)
    return [row for one in asked for row in queries.windows(one, limit=FAMILY_WINDOWS)]


def documents_of(queries: Queries, rows: Sequence[WindowRow | Pool]) -> Documents:
    """Return the documents of the rows' conditions, configs and boxes."""
    conditions = queries.condition_documents({row.conditions for row in rows})
    return Documents(
        conditions=conditions,
        configs=queries.config_documents({row.config_fingerprint for row in rows}),
        boxes=queries.box_documents({str(document.get("box")) for document in conditions.values()}),
    )
