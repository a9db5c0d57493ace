"""Takes an imported sweep out again: what was imported by mistake shall not stay, and what was measured cannot go this way."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from nightsweep.errors import NotFound, StillNeeded
from nightsweep.store.codec import clean_text
from nightsweep.store.schema import (
    boots,
    boxes,
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


@dataclass(frozen=True)
class Removed:
    """A sweep that was taken out, and how many rows it had."""

    sweep_id: int
    box: str
    rows: int


def remove(connection: sa.Connection, name: str) -> list[Removed]:
    """Remove the imported sweeps of this name, on all boxes; return them.

    Raises:
        NotFound: No imported sweep is called so.
        StillNeeded: A decision rests on it.
    """
    connection.execute(sa.text("LOCK TABLE imports IN EXCLUSIVE MODE"))
    found = _of_this_name(connection, name)
    gone = [one.sweep_id for one in found]
    if not gone:
        raise NotFound(what=f"an imported sweep {name!r}", hint="`nightsweep sweeps --imported` lists them")
    of_cells = sa.select(cells.c.id).where(cells.c.sweep_id.in_(gone))
    of_windows = sa.select(windows.c.id).where(windows.c.cell_id.in_(of_cells))
    rests = sa.select(decision_windows.c.decision_id).where(decision_windows.c.window_id.in_(of_windows))
    needed = connection.scalar(sa.select(sa.func.min(decisions.c.id)).where(decisions.c.id.in_(rests)))
    if needed is not None:
        raise StillNeeded(
            what=f"sweep {name!r}",
            reason=f"decision {needed} rests on it, and keeps its evidence, also once it is retired",
        )
    under = sa.select(windows.c.conditions_id).where(windows.c.cell_id.in_(of_cells))
    touched = list(connection.scalars(under.distinct()))
    connection.execute(sa.delete(request_timings).where(request_timings.c.window_id.in_(of_windows)))
    connection.execute(sa.delete(windows).where(windows.c.cell_id.in_(of_cells)))
    for table in (cells, events, boots, sweep_configs, imports):
        connection.execute(sa.delete(table).where(table.c.sweep_id.in_(gone)))
    connection.execute(sa.delete(sweeps).where(sweeps.c.id.in_(gone)))
    _sum_up(connection, touched)
    return found


def _of_this_name(connection: sa.Connection, name: str) -> list[Removed]:
    imported = sa.select(imports.c.sweep_id)
    counted = sa.select(sa.func.count()).select_from(windows.join(cells, cells.c.id == windows.c.cell_id))
    rows = counted.where(cells.c.sweep_id == sweeps.c.id).correlate(sweeps).scalar_subquery().label("rows")
    wanted = sa.select(sweeps.c.id, boxes.c.name, rows).join(boxes, boxes.c.id == sweeps.c.box_id)
    wanted = wanted.where(sweeps.c.name == clean_text(name), sweeps.c.id.in_(imported)).order_by(sweeps.c.id)
    return [Removed(int(row.id), str(row.name), int(row.rows)) for row in connection.execute(wanted)]


def _sum_up(connection: sa.Connection, touched: list[int]) -> None:
    """Take the sums of these conditions out; where other windows share them, all sums are made anew."""
    connection.execute(sa.delete(cell_summaries).where(cell_summaries.c.conditions_id.in_(touched)))
    if connection.scalar(sa.select(sa.exists().where(windows.c.conditions_id.in_(touched)))):
        connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
        connection.execute(sa.text("SELECT nightsweep_sum_up_again()"))
