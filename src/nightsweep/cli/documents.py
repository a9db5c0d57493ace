"""What stands behind windows: the documents of their fingerprints, the nights that they are of, and windows of another kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from nightsweep.analysis import text
from nightsweep.analysis.values import Filters, WindowRow
from nightsweep.cli.reading import Queries
from nightsweep.errors import NotFound
from nightsweep.plan.words import DECODE, WHOLE_RUN
from nightsweep.service.documents import documents_of as documents_of

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


def raise_for_kind(
    queries: Queries,
    asked: Filters,
    *,
    what: str,
    option: str | None,
    hint: str = "`nightsweep cells` lists what was measured",
) -> NoReturn:
    """Raise NotFound for decode windows that are not there, with where to look: whole runs of another client may be.

    Args:
        what: What was looked for, in words.
        option: Of this command, to take whole runs; None where it takes decode windows only.
        hint: What to do where there are no whole runs either.
    """
    pools = () if asked.kind == WHOLE_RUN else queries.pools(replace(asked, with_flagged="no", kind=WHOLE_RUN))
    count = sum(pool.windows for pool in pools)
    if count:
        there = f"{text.plural(count, 'whole run')} of another client {'is' if count == 1 else 'are'} there"
        listed = "`nightsweep cells --whole-runs` lists them, `nightsweep compare --whole-runs` compares them"
        told = f"{option} takes them" if option else f"this command takes decode windows only; {listed}"
        hint = f"{there}: {told}"
    raise NotFound(what=what, hint=hint)
