"""Takes an imported sweep out again: what was imported by mistake shall not stay, and what was measured cannot go this way."""

from __future__ import annotations

import sqlalchemy as sa

from nightsweep.errors import NotFound, StillNeeded
from nightsweep.store.schema import (
    boots,
    cell_summaries,
    cells,
    decision_windows,
    decisions,
    events,
    imports,
    request_timings,
    sweep_configs,
    sweeps,
    windows,
)


def remove(connection: sa.Connection, name: str) -> int:
    """Remove the imported sweeps of this name, on all boxes; return how many rows they had.

    Raises:
        NotFound: No imported sweep is called so.
        StillNeeded: A decision rests on it.
    """
    connection.execute(sa.text("LOCK TABLE imports IN EXCLUSIVE MODE"))
    named = sa.select(sweeps.c.id).where(sweeps.c.name == name, sweeps.c.id.in_(sa.select(imports.c.sweep_id)))
    gone = list(connection.scalars(named))
    if not gone:
        raise NotFound(what=f"an imported sweep {name!r}", hint="`nightsweep sweeps --imported` lists them")
    of_cells = sa.select(cells.c.id).where(cells.c.sweep_id.in_(gone))
    of_windows = sa.select(windows.c.id).where(windows.c.cell_id.in_(of_cells))
    rests = sa.select(decision_windows.c.decision_id).where(decision_windows.c.window_id.in_(of_windows))
    needed = connection.scalar(sa.select(sa.func.min(decisions.c.id)).where(decisions.c.id.in_(rests)))
    if needed is not None:
        raise StillNeeded(what=f"sweep {name!r}", reason=f"decision {needed} rests on it")
    under = sa.select(windows.c.conditions_id).where(windows.c.cell_id.in_(of_cells))
    touched = list(connection.scalars(under.distinct()))
    connection.execute(sa.delete(request_timings).where(request_timings.c.window_id.in_(of_windows)))
    rows = connection.execute(sa.delete(windows).where(windows.c.cell_id.in_(of_cells))).rowcount
    for table in (cells, events, boots, sweep_configs, imports):
        connection.execute(sa.delete(table).where(table.c.sweep_id.in_(gone)))
    connection.execute(sa.delete(sweeps).where(sweeps.c.id.in_(gone)))
    _sum_up(connection, touched)
    return rows


def _sum_up(connection: sa.Connection, touched: list[int]) -> None:
    """Take the sums of these conditions out; where other windows share them, all sums are made anew."""
    connection.execute(sa.delete(cell_summaries).where(cell_summaries.c.conditions_id.in_(touched)))
    if connection.scalar(sa.select(sa.exists().where(windows.c.conditions_id.in_(touched)))):
        connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
        connection.execute(sa.text("SELECT nightsweep_sum_up_again()"))
