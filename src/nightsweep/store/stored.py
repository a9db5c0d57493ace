"""What a sweep already holds: the half of "what is left" that the database knows."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import aggregate_order_by

from nightsweep.errors import NotFound
from nightsweep.plan.words import DECODE, SINGLE_BATCH
from nightsweep.ports import Stored
from nightsweep.store.schema import (
    boots,
    cells,
    configs,
    prefills,
    reused_prefills,
    reused_windows,
    sweeps,
    windows,
)


def stored(connection: sa.Connection, sweep_id: int) -> Stored:
    """Return what the sweep already holds (raises NotFound)."""
    must_exist(connection, sweep_id)
    return Stored(
        windows=_windows(connection, sweep_id, kind=DECODE) | _taken(connection, sweep_id, kind=DECODE),
        single_batches=_windows(connection, sweep_id, kind=SINGLE_BATCH)
        | _taken(connection, sweep_id, kind=SINGLE_BATCH),
        prefills=_prefills(connection, sweep_id) | _taken_prefills(connection, sweep_id),
        failed_boots=_failed_boots(connection, sweep_id),
    )


def must_exist(connection: sa.Connection, sweep_id: int) -> None:
    """Raise NotFound where there is no such sweep."""
    if connection.scalar(sa.select(sweeps.c.id).where(sweeps.c.id == sweep_id)) is None:
        raise NotFound(what=f"sweep {sweep_id}", hint="`nightsweep status` lists the sweeps there are")


def _windows(
    connection: sa.Connection, sweep_id: int, *, kind: str
) -> dict[tuple[str, int, str, int], tuple[bool, int]]:
    slot = (windows.c.cell_id, windows.c.repeat)
    of_sweep = (cells.c.sweep_id == sweep_id, cells.c.kind == kind)
    tried = (  # counted by numbers, before the names come in: tens of thousands of rows
        sa.select(*slot, sa.func.bool_or(windows.c.clean).label("clean"), sa.func.count().label("attempts"))
        .join(cells, cells.c.id == windows.c.cell_id)
        .where(*of_sweep)
        .group_by(*slot)
        .subquery()
    )
    rows = connection.execute(
        sa.select(*_place(tried.c.repeat), tried.c.clean, tried.c.attempts)
        .join(cells, cells.c.id == tried.c.cell_id)
        .join(configs, configs.c.id == cells.c.config_id)
    ).all()
    return {(row[0], row[1], row[2], row[3]): (row.clean, row.attempts) for row in rows}


def _place(repeat: sa.ColumnElement[int]) -> tuple[sa.ColumnElement[Any], ...]:
    """Return the columns of a window's key; NUMERIC(4,2) as text is the temperature's one spelling (`temperature_key`)."""
    return configs.c.hash, cells.c.concurrency, sa.cast(cells.c.temperature, sa.Text), repeat


def _prefills(connection: sa.Connection, sweep_id: int) -> dict[tuple[str, int, int, int], tuple[bool, int]]:
    key = (configs.c.hash, prefills.c.tokens, prefills.c.under_load, prefills.c.repeat)
    rows = connection.execute(
        sa.select(*key, sa.func.bool_or(prefills.c.clean).label("clean"), sa.func.count().label("attempts"))
        .join(configs, configs.c.id == prefills.c.config_id)
        .where(prefills.c.sweep_id == sweep_id)
        .group_by(*key)
    )
    return {(r.hash, r.tokens, r.under_load, r.repeat): (r.clean, r.attempts) for r in rows}


def _taken(connection: sa.Connection, sweep_id: int, *, kind: str) -> dict[tuple[str, int, str, int], tuple[bool, int]]:
    """Return the places in which a window of another sweep stands: clean, and without an attempt of this one's."""
    rows = connection.execute(
        sa.select(*_place(reused_windows.c.repeat))
        .join(cells, cells.c.id == reused_windows.c.cell_id)
        .join(configs, configs.c.id == cells.c.config_id)
        .where(cells.c.sweep_id == sweep_id, cells.c.kind == kind)
    ).all()
    return {tuple(row): (True, 0) for row in rows}


def _taken_prefills(connection: sa.Connection, sweep_id: int) -> dict[tuple[str, int, int, int], tuple[bool, int]]:
    table = reused_prefills
    rows = connection.execute(
        sa.select(configs.c.hash, table.c.tokens, table.c.under_load, table.c.repeat)
        .join(configs, configs.c.id == table.c.config_id)
        .where(table.c.sweep_id == sweep_id)
    )
    return {(r.hash, r.tokens, r.under_load, r.repeat): (True, 0) for r in rows}


def _failed_boots(connection: sa.Connection, sweep_id: int) -> dict[tuple[str, int], tuple[str, ...]]:
    key = (configs.c.hash, boots.c.boot_round)
    advice = sa.func.array_agg(aggregate_order_by(boots.c.failure_retry, boots.c.id))
    rows = connection.execute(
        sa.select(*key, advice.label("advice"))
        .join(configs, configs.c.id == boots.c.config_id)
        .where(boots.c.sweep_id == sweep_id, boots.c.state == "failed")
        .group_by(*key)
    )
    return {(r.hash, r.boot_round): tuple(r.advice) for r in rows}
