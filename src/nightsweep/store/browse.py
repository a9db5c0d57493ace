"""Lists of the reading side beyond rows: configs with what was measured of them, and one thing whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from nightsweep.analysis.values import BootRow, Filters, WindowRow
from nightsweep.analysis.whole import ConfigRow, WholeBoot, WholeWindow
from nightsweep.plan.words import DECODE, WHOLE_RUN
from nightsweep.store import rows, statements
from nightsweep.store.filters import matches, of_config, of_source, of_time
from nightsweep.store.schema import (
    CELL_KINDS,
    boots,
    boxes,
    cell_summaries,
    cells,
    configs,
    prefills,
    sweep_configs,
    sweeps,
    windows,
)

if TYPE_CHECKING:
    from nightsweep.store.raw import StoredWindow

    Seen = Callable[[sa.Connection, int], StoredWindow]
    """Reads a window's raw data, its conditions and the samples of its box."""


def configs_matching(filters: Filters) -> sa.Select[Any]:
    """Return the SELECT of configs, newest first: sweep, box, time (of the sweep's making), config and where apply."""
    named = sweep_configs.join(sweeps, sweeps.c.id == sweep_configs.c.sweep_id)
    named = named.join(boxes, boxes.c.id == sweeps.c.box_id).join(configs, configs.c.id == sweep_configs.c.config_id)
    newest = sa.func.max(sweep_configs.c.sweep_id)
    kept = cell_summaries.c.config_id == configs.c.id
    decode, whole = (sa.and_(kept, cell_summaries.c.kind == kind) for kind in (DECODE, WHOLE_RUN))
    booted = boots.c.config_id == configs.c.id
    wanted = (
        sa.select(
            configs.c.id,
            configs.c.hash,
            configs.c.doc,
            configs.c.method,
            sa.func.array_agg(sa.distinct(sweep_configs.c.name)).label("names"),
            sa.func.count(sa.distinct(sweep_configs.c.sweep_id)).label("sweeps"),
            sa.func.min(sweeps.c.created_at).label("first_planned"),
            sa.func.max(sweeps.c.created_at).label("last_planned"),
            sa.select(sa.func.count()).where(booted).scalar_subquery().label("boots"),
            sa.select(sa.func.count()).where(booted, boots.c.state == "failed").scalar_subquery().label("boots_failed"),
            sa.select(sa.func.coalesce(sa.func.sum(cell_summaries.c.decode_rate_n), 0))
            .where(decode)
            .scalar_subquery()
            .label("windows_clean"),
            sa.select(sa.func.coalesce(sa.func.sum(cell_summaries.c.decode_rate_n), 0))
            .where(whole)
            .scalar_subquery()
            .label("whole_runs_clean"),
            sa.select(sa.func.coalesce(sa.func.sum(cell_summaries.c.flagged), 0))
            .where(sa.or_(decode, whole))
            .scalar_subquery()
            .label("windows_flagged"),
        )
        .select_from(named)
        .where(*of_config(filters))
        .where(*of_time(filters, sweeps.c.created_at))
        .where(*of_source(filters, statements.imported_by(sweeps.c.id)))
    )
    if filters.sweep is not None:
        wanted = wanted.where(sweeps.c.id == filters.sweep)
    if filters.box is not None:
        wanted = wanted.where(matches(boxes.c.name, filters.box))
    if filters.image is not None:
        wanted = wanted.where(matches(configs.c.doc[("image",)].astext, filters.image))
    return wanted.group_by(configs.c.id).order_by(newest.desc(), configs.c.id)


def config_row(row: Any) -> ConfigRow:
    """Return a config."""
    return ConfigRow(
        config_fingerprint=row.hash,
        names=tuple(row.names),
        method=row.method,
        document=row.doc,
        sweeps=row.sweeps,
        boots=row.boots,
        boots_failed=row.boots_failed,
        windows_clean=int(row.windows_clean),
        windows_flagged=int(row.windows_flagged),
        whole_runs_clean=int(row.whole_runs_clean),
        first_planned=row.first_planned,
        last_planned=row.last_planned,
    )


def whole_window(connection: sa.Connection, window_id: int, *, seen: Seen) -> WholeWindow | None:
    """Return a window with all that it depends on; None when there is none.

    Args:
        seen: Reads its raw data.
    """
    source = windows.join(cells, cells.c.id == windows.c.cell_id).join(configs, configs.c.id == cells.c.config_id)
    wanted = sa.select(windows, cells.c.kind, configs.c.doc).select_from(source).where(windows.c.id == window_id)
    stored = connection.execute(wanted).one_or_none()
    if stored is None:
        return None
    (row,) = _windows(connection, windows.c.id == window_id, kind=stored.kind)
    kept = seen(connection, window_id)
    return WholeWindow(
        row=row,
        cell_id=stored.cell_id,
        stored={name: value for name, value in stored._mapping.items() if name not in ("doc", "kind")},
        raw=kept.raw,
        conditions=kept.conditions,
        box_samples=kept.box_samples,
        raw_lost=kept.lost,
        config_document=stored.doc,
        boot=_boot(connection, stored.boot_id),
    )


def whole_boot(connection: sa.Connection, boot_id: int) -> WholeBoot | None:
    """Return a boot with its config, its windows of every kind and its prefills, flagged ones too; None when there is none."""
    wanted = sa.select(boots, configs.c.doc).join(configs, configs.c.id == boots.c.config_id)
    stored = connection.execute(wanted.where(boots.c.id == boot_id)).one_or_none()
    if stored is None:
        return None
    measured = [row for kind in CELL_KINDS for row in _windows(connection, windows.c.boot_id == boot_id, kind=kind)]
    asked = statements.prefills_matching(Filters(with_flagged="yes")).where(prefills.c.boot_id == boot_id)
    return WholeBoot(
        row=_boot(connection, boot_id),
        stored={name: value for name, value in stored._mapping.items() if name != "doc"},
        config_document=stored.doc,
        windows=tuple(sorted(measured, key=lambda row: row.window_id)),
        prefills=tuple(sorted(map(rows.prefill_row, connection.execute(asked)), key=lambda row: row.prefill_id)),
    )


def windows_of_cell(connection: sa.Connection, cell_id: int) -> list[WindowRow] | None:
    """Return a cell's own windows, flagged ones too, by repeat and attempt; None when there is no such cell."""
    kind = connection.scalar(sa.select(cells.c.kind).where(cells.c.id == cell_id))
    return None if kind is None else _windows(connection, windows.c.cell_id == cell_id, kind=kind)


def _windows(connection: sa.Connection, clause: sa.ColumnElement[bool], *, kind: str) -> list[WindowRow]:
    wanted = statements.windows_matching(Filters(with_flagged="yes", kind=kind)).where(clause)
    return rows.windows_in(connection.execute(wanted))


def _boot(connection: sa.Connection, boot_id: int) -> BootRow:
    return rows.boot_row(connection.execute(statements.boots_matching(Filters()).where(boots.c.id == boot_id)).one())
