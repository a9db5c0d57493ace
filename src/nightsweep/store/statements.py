"""The reading side's SELECTs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from nightsweep.analysis.values import Filters
from nightsweep.plan.words import DECODE, IMPORTED
from nightsweep.store.columns import NOW
from nightsweep.store.filters import of_cell, of_conditions, of_config, of_place, of_source, of_time
from nightsweep.store.places import (
    asked_of_sweep,
    planned,
    prefill_places,
    reused_of_sweep,
    reused_sources,
    window_places,
)
from nightsweep.store.schema import (
    boots,
    boxes,
    cells,
    conditions,
    configs,
    events,
    images,
    imports,
    prefills,
    sweep_configs,
    sweeps,
    windows,
)

_PLACE = (
    sweeps.c.name.label("sweep_name"),
    configs.c.hash.label("config_fingerprint"),
    sweep_configs.c.name.label("config"),
    boxes.c.name.label("box"),
    (boxes.c.simulated | boots.c.simulated).label("simulated"),
)
"""What every row says of where it is from; a box or an engine that is simulated makes the row so."""


SOURCE = conditions.c.doc[("source",)].astext
"""Of an imported window where it is from; NULL of a measured one."""


def imported_by(sweep: sa.Column[Any]) -> sa.ScalarSelect[Any]:
    """Return which tool a sweep's rows were imported from, as `source` has it; NULL of a sweep that measured."""
    named = sa.literal(IMPORTED) + sa.func.min(imports.c.tool)
    return sa.select(named).where(imports.c.sweep_id == sweep).scalar_subquery()


def _with_names(start: sa.FromClause, *, sweep: sa.ColumnElement[Any], config: sa.Column[Any]) -> sa.FromClause:
    return (
        start.join(sweeps, sweeps.c.id == sweep)
        .join(configs, configs.c.id == config)
        .join(sweep_configs, sa.and_(sweep_configs.c.sweep_id == sweep, sweep_configs.c.config_id == config))
        .join(boxes, boxes.c.id == sweeps.c.box_id)
    )


def number(name: str) -> sa.ColumnElement[Any]:
    """Return a number of a window (see `nightsweep.analysis.grouping.NUMBERS`)."""
    found: sa.ColumnElement[Any]
    if name.endswith("_p50"):
        found = windows.c[name.removesuffix("_p50")]["p50"].as_float()
    elif name in ("report_rate", "streams_per_step"):
        found = windows.c.facts[name].as_float()
    else:
        found = windows.c["step_time_s" if name == "step_time" else name]
    return found


def windows_matching(filters: Filters, more: Sequence[sa.ColumnElement[Any]] = ()) -> sa.Select[Any]:
    """Return the SELECT of windows, with `more` columns of the tables that it joins."""
    places = window_places(filters.sweep)
    start = places.join(windows, windows.c.id == places.c.window_id).join(cells, cells.c.id == places.c.cell_id)
    start = start.join(boots, boots.c.id == windows.c.boot_id)
    source = _with_names(start, sweep=cells.c.sweep_id, config=cells.c.config_id)
    source = source.join(conditions, conditions.c.id == windows.c.conditions_id)
    numbers = ("seconds", "decode_rate", "acceptance_length", "acceptance_rate", "positions", "step_time_s")
    wanted = sa.select(
        windows.c.id.label("window_id"),
        cells.c.sweep_id,
        cells.c.config_id,
        cells.c.concurrency,
        cells.c.temperature,
        cells.c.kind,
        windows.c.boot_id,
        boots.c.boot_round,
        boots.c.engine_version,
        boots.c.applied,
        windows.c.notes,
        windows.c.box.label("box_state"),
        places.c.repeat,
        places.c.reused_from,
        windows.c.attempt,
        windows.c.started_at,
        windows.c.flags,
        windows.c.flag_details,
        windows.c.tokens_per_step_and_stream,
        windows.c.occupancy,
        *(number(name).label(name) for name in ("report_rate", "streams_per_step")),
        conditions.c.fingerprint.label("conditions"),
        SOURCE.label("source"),
        *(windows.c[name] for name in numbers),
        *(number(name).label(name) for name in ("ttft_p50", "tpot_p50", "e2e_p50")),
        *_PLACE,
        *more,
    ).select_from(source)
    if filters.with_flagged != "yes":
        wanted = wanted.where(windows.c.clean if filters.with_flagged == "no" else sa.not_(windows.c.clean))
    wanted = wanted.where(*of_time(filters, windows.c.started_at))
    wanted = wanted.where(cells.c.kind == filters.kind, *of_source(filters, SOURCE), *of_conditions(filters))
    return wanted.where(*of_place(filters), *of_config(filters), *of_cell(filters)).order_by(
        cells.c.sweep_id,
        sweep_configs.c.position,
        cells.c.temperature,
        cells.c.concurrency,
        places.c.repeat,
        windows.c.attempt,
    )


def prefills_matching(filters: Filters) -> sa.Select[Any]:
    """Return the SELECT of prefills."""
    places = prefill_places(filters.sweep)
    start = places.join(prefills, prefills.c.id == places.c.prefill_id).join(boots, boots.c.id == prefills.c.boot_id)
    source = _with_names(start, sweep=places.c.sweep_id, config=prefills.c.config_id)
    source = source.join(conditions, conditions.c.id == prefills.c.conditions_id)
    asked = ("tokens", "under_load", "attempt")
    found = ("started_at", "flags", "prompt_tokens", "ttft_s", "rate", "cached_tokens", "detail", "facts")
    wanted = sa.select(
        prefills.c.id.label("prefill_id"),
        places.c.sweep_id,
        places.c.repeat,
        places.c.reused_from,
        prefills.c.boot_id,
        conditions.c.fingerprint.label("conditions"),
        *(prefills.c[name] for name in (*asked, *found)),
        *_PLACE,
    ).select_from(source)
    if filters.with_flagged != "yes":
        wanted = wanted.where(prefills.c.clean if filters.with_flagged == "no" else sa.not_(prefills.c.clean))
    wanted = wanted.where(*of_time(filters, prefills.c.started_at), *of_source(filters, SOURCE))
    return wanted.where(*of_place(filters), *of_config(filters)).order_by(
        places.c.sweep_id,
        sweep_configs.c.position,
        prefills.c.under_load,
        prefills.c.tokens,
        places.c.repeat,
        prefills.c.attempt,
    )


def boots_matching(filters: Filters) -> sa.Select[Any]:
    """Return the SELECT of boots."""
    source = _with_names(boots, sweep=boots.c.sweep_id, config=boots.c.config_id)
    source = source.outerjoin(images, images.c.id == boots.c.image_id)
    counted = sa.select(sa.func.count()).where(windows.c.boot_id == boots.c.id).scalar_subquery()
    wanted = sa.select(
        boots.c.id.label("boot_id"),
        boots,
        counted.label("windows"),
        configs.c.doc[("image",)].astext.label("image"),
        images.c.digest.label("image_digest"),
        imported_by(boots.c.sweep_id).label("source"),
        *(column for column in _PLACE if column.name != "simulated"),
        (boxes.c.simulated | boots.c.simulated).label("is_simulated"),
    ).select_from(source)
    wanted = wanted.where(*of_time(filters, boots.c.started_at), *of_source(filters, imported_by(boots.c.sweep_id)))
    return wanted.where(*of_place(filters), *of_config(filters)).order_by(boots.c.started_at, boots.c.id)


def sweeps_matching(filters: Filters) -> sa.Select[Any]:
    """Return the SELECT of sweeps, newest first, each with how far it is."""
    over = (sweeps.c.state == "running") & (sweeps.c.lease_until <= NOW)
    asked = asked_of_sweep()
    wanted = sa.select(
        sweeps,
        # A holder that died says nothing: once its lease ran out, the sweep is not running, whatever the row says.
        sa.case((over, sa.literal("interrupted")), else_=sweeps.c.state).label("state_now"),
        boxes.c.name.label("box"),
        boxes.c.simulated,
        (_windows_of_sweep(windows.c.clean & planned(windows.c.repeat, asked), asked) + reused_of_sweep(asked)).label(
            "repeats_clean"
        ),
        reused_sources().label("reused"),
        _windows_of_sweep(~windows.c.clean, asked).label("windows_flagged"),
        _count(boots, boots.c.sweep_id, boots.c.state == "failed").label("boots_failed"),
        _count(sweep_configs, sweep_configs.c.sweep_id).label("configs"),
        _phase().label("phase"),
        imported_by(sweeps.c.id).label("source"),
    )
    wanted = wanted.select_from(sweeps.join(boxes, boxes.c.id == sweeps.c.box_id).join(asked, sa.true()))
    if filters.sweep is not None:
        wanted = wanted.where(sweeps.c.id == filters.sweep)
    wanted = wanted.where(*of_time(filters, sweeps.c.created_at), *of_source(filters, imported_by(sweeps.c.id)))
    return wanted.where(*of_place(Filters(box=filters.box))).order_by(sweeps.c.id.desc())


def _windows_of_sweep(clause: sa.ColumnElement[bool], asked: sa.FromClause) -> sa.ScalarSelect[int]:
    return (
        sa.select(sa.func.count())
        .select_from(windows.join(cells, cells.c.id == windows.c.cell_id))
        .where(cells.c.sweep_id == sweeps.c.id, clause)
        .where(sa.or_(cells.c.kind == DECODE, asked.c.imported))
        .scalar_subquery()
    )


def _count(table: sa.Table, sweep: sa.Column[Any], *clauses: sa.ColumnElement[bool]) -> sa.ScalarSelect[int]:
    return sa.select(sa.func.count()).select_from(table).where(sweep == sweeps.c.id, *clauses).scalar_subquery()


def _phase() -> sa.ColumnElement[str | None]:
    newest = (
        sa.select(events.c.message)
        .where(events.c.sweep_id == sweeps.c.id)
        .order_by(events.c.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    return sa.case((sweeps.c.state == "running", newest), else_=None)


def window_with_conditions(window_id: int) -> sa.Select[Any]:
    """Return the SELECT of one window with its concurrency and its conditions' document."""
    source = windows.join(cells, cells.c.id == windows.c.cell_id)
    source = source.join(conditions, conditions.c.id == windows.c.conditions_id)
    chosen = sa.select(windows, cells.c.concurrency, conditions.c.doc).select_from(source)
    return chosen.where(windows.c.id == window_id)


def cold_starts(connection: sa.Connection, box_id: int) -> dict[str, float]:
    """Return the median cold start in seconds by config fingerprint, and over all as "*"."""
    median = sa.func.percentile_cont(0.5).within_group(boots.c.cold_start_s)
    known = (boots.c.box_id == box_id, boots.c.cold_start_s.is_not(None))
    by_config = (
        sa.select(configs.c.hash, median.label("seconds"))
        .join(configs, configs.c.id == boots.c.config_id)
        .where(*known)
        .group_by(sa.func.rollup(configs.c.hash))
    )
    rows = connection.execute(by_config)
    return {"*" if row.hash is None else row.hash: float(row.seconds) for row in rows if row.seconds is not None}
