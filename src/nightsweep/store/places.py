"""Where a measurement stands: in the sweep that made it, and in later ones that took it over.

Without a sweep named, only the first counts: nothing is listed, or pooled, twice.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from nightsweep.plan.words import CONTROL_ROUND, DECODE
from nightsweep.store.schema import cells, prefills, reused_prefills, reused_windows, sweeps, windows

_NOWHERE = sa.cast(sa.null(), sa.BigInteger).label("reused_from")


def window_places(sweep: int | None) -> sa.Subquery:
    """Return (window_id, cell_id, repeat, reused_from) of a sweep's windows, taken over or its own; of all with None."""
    own = sa.select(windows.c.id.label("window_id"), windows.c.cell_id, windows.c.repeat, _NOWHERE)
    if sweep is None:
        return own.subquery("places")
    origin = cells.alias("origin")
    taken = (
        sa.select(reused_windows.c.window_id, reused_windows.c.cell_id, reused_windows.c.repeat, origin.c.sweep_id)
        .join(cells, cells.c.id == reused_windows.c.cell_id)
        .join(windows, windows.c.id == reused_windows.c.window_id)
        .join(origin, origin.c.id == windows.c.cell_id)
        .where(cells.c.sweep_id == sweep)
    )
    of_sweep = own.join(cells, cells.c.id == windows.c.cell_id).where(cells.c.sweep_id == sweep)
    return of_sweep.union_all(taken).subquery("places")


def prefill_places(sweep: int | None) -> sa.Subquery:
    """Return (prefill_id, sweep_id, repeat, reused_from); as `window_places`."""
    own = sa.select(prefills.c.id.label("prefill_id"), prefills.c.sweep_id, prefills.c.repeat, _NOWHERE)
    if sweep is None:
        return own.subquery("places")
    taken = (
        sa.select(
            reused_prefills.c.prefill_id, reused_prefills.c.sweep_id, reused_prefills.c.repeat, prefills.c.sweep_id
        )
        .join(prefills, prefills.c.id == reused_prefills.c.prefill_id)
        .where(reused_prefills.c.sweep_id == sweep)
    )
    return own.where(prefills.c.sweep_id == sweep).union_all(taken).subquery("places")


def asked_of_sweep() -> sa.FromClause:
    """Return (repeats, imported) of a row of `sweeps`: what its plan asks for now, and whether an import wrote it.

    A row of its own, which OFFSET keeps the planner from dissolving: a plan is a large document, and would be unpacked for each
    window that is counted.
    """
    most, repeats = (sweeps.c.plan[key].as_integer() for key in (("decide", "most"), ("probe", "repeats")))
    told = sa.select(
        sa.func.coalesce(most, repeats).label("repeats"), sweeps.c.plan.has_key("imported").label("imported")
    )
    return told.correlate(sweeps).offset(0).lateral("asked")


def planned(repeat: sa.Column[int], asked: sa.FromClause) -> sa.ColumnElement[bool]:
    """Return whether a repeat is one that `asked_of_sweep` asks for now: a plan's repeats may have been lowered since."""
    return sa.or_(asked.c.repeats.is_(None), repeat < asked.c.repeats, repeat >= CONTROL_ROUND)


def reused_of_sweep(asked: sa.FromClause) -> sa.ScalarSelect[int]:
    """Return the number of decode windows that a row of `sweeps` took over."""
    return (
        sa.select(sa.func.count())
        .select_from(reused_windows.join(cells, cells.c.id == reused_windows.c.cell_id))
        .where(cells.c.sweep_id == sweeps.c.id, cells.c.kind == DECODE, planned(reused_windows.c.repeat, asked))
        .scalar_subquery()
    )


def reused_sources() -> sa.ColumnElement[Any]:
    """Return the sweeps that a row of `sweeps` took measurements over from, one entry for each measurement."""
    origin = cells.alias("origin")
    of_windows = (
        sa.select(sa.func.array_agg(origin.c.sweep_id))
        .select_from(
            reused_windows.join(cells, cells.c.id == reused_windows.c.cell_id)
            .join(windows, windows.c.id == reused_windows.c.window_id)
            .join(origin, origin.c.id == windows.c.cell_id)
        )
        .where(cells.c.sweep_id == sweeps.c.id)
        .scalar_subquery()
    )
    of_prefills = (
        sa.select(sa.func.array_agg(prefills.c.sweep_id))
        .select_from(reused_prefills.join(prefills, prefills.c.id == reused_prefills.c.prefill_id))
        .where(reused_prefills.c.sweep_id == sweeps.c.id)
        .scalar_subquery()
    )
    return sa.func.array_cat(of_windows, of_prefills)
