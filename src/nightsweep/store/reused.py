"""Measurements of earlier sweeps in a sweep's places: found, linked, and given back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from nightsweep.plan.remaining import temperature_key
from nightsweep.plan.reuse import PREFILL, Kept, Link
from nightsweep.ports import Lease, Reusable
from nightsweep.store.leases import hold
from nightsweep.store.schema import (
    cells,
    conditions,
    configs,
    prefills,
    reused_prefills,
    reused_windows,
    sweep_configs,
    sweeps,
    windows,
)


def reusable(connection: sa.Connection, sweep_id: int) -> Reusable:
    """Return the clean measurements of all sweeps on this sweep's box that are of its configs."""
    rows = (*_windows(connection, sweep_id), *_prefills(connection, sweep_id))
    wanted = sa.select(conditions.c.fingerprint, conditions.c.doc).where(
        conditions.c.fingerprint.in_({row.conditions for row in rows})
    )
    return Reusable(
        rows=rows,
        conditions={row.fingerprint: row.doc for row in connection.execute(wanted)},
        linked=frozenset(_linked(connection, sweep_id)),
    )


def _of_box(sweep_id: int, *, sweep: sa.Column[Any], config: sa.Column[Any]) -> tuple[sa.ColumnElement[bool], ...]:
    here = sa.select(sweeps.c.box_id).where(sweeps.c.id == sweep_id).scalar_subquery()
    return (
        sweep.in_(sa.select(sweeps.c.id).where(sweeps.c.box_id == here)),
        config.in_(sa.select(sweep_configs.c.config_id).where(sweep_configs.c.sweep_id == sweep_id)),
    )


def _windows(connection: sa.Connection, sweep_id: int) -> tuple[Kept, ...]:
    source = windows.join(cells, cells.c.id == windows.c.cell_id).join(configs, configs.c.id == cells.c.config_id)
    source = source.join(conditions, conditions.c.id == windows.c.conditions_id)
    found = connection.execute(
        sa.select(
            windows.c.id,
            cells.c.kind,
            configs.c.hash,
            cells.c.concurrency,
            cells.c.temperature,
            windows.c.repeat,
            cells.c.sweep_id,
            conditions.c.fingerprint,
            windows.c.started_at,
        )
        .select_from(source)
        .where(windows.c.clean, *_of_box(sweep_id, sweep=cells.c.sweep_id, config=cells.c.config_id))
    )
    return tuple(
        Kept(
            row_id=row.id,
            kind=row.kind,
            place=(row.hash, row.concurrency, temperature_key(row.temperature)),
            repeat=row.repeat,
            sweep_id=row.sweep_id,
            conditions=row.fingerprint,
            started=row.started_at,
        )
        for row in found
    )


def _prefills(connection: sa.Connection, sweep_id: int) -> tuple[Kept, ...]:
    source = prefills.join(configs, configs.c.id == prefills.c.config_id)
    source = source.join(conditions, conditions.c.id == prefills.c.conditions_id)
    found = connection.execute(
        sa.select(prefills, configs.c.hash, conditions.c.fingerprint)
        .select_from(source)
        .where(prefills.c.clean, *_of_box(sweep_id, sweep=prefills.c.sweep_id, config=prefills.c.config_id))
    )
    return tuple(
        Kept(
            row_id=row.id,
            kind=PREFILL,
            place=(row.hash, row.tokens, str(row.under_load)),
            repeat=row.repeat,
            sweep_id=row.sweep_id,
            conditions=row.fingerprint,
            started=row.started_at,
        )
        for row in found
    )


def _linked(connection: sa.Connection, sweep_id: int) -> Iterator[tuple[str, int]]:
    source = reused_windows.join(cells, cells.c.id == reused_windows.c.cell_id)
    of_cells = sa.select(cells.c.kind, reused_windows.c.window_id).select_from(source)
    for row in connection.execute(of_cells.where(cells.c.sweep_id == sweep_id)):
        yield row.kind, row.window_id
    for row in connection.execute(
        sa.select(reused_prefills.c.prefill_id).where(reused_prefills.c.sweep_id == sweep_id)
    ):
        yield PREFILL, row.prefill_id


def reuse(connection: sa.Connection, lease: Lease, links: Sequence[Link]) -> None:
    """Put measurements into the sweep's places; a place that has one keeps it (raises LeaseLost)."""
    hold(connection, lease)
    if not links:
        return
    hashes = {link.place[0] for link in links}
    ids = {
        row.hash: row.id
        for row in connection.execute(sa.select(configs.c.hash, configs.c.id).where(configs.c.hash.in_(hashes)))
    }
    in_cells = [link for link in links if link.kind != PREFILL]
    if in_cells:
        _link_windows(connection, lease, in_cells, ids=ids)
    rows = [
        {
            "sweep_id": lease.sweep_id,
            "config_id": ids[link.place[0]],
            "tokens": link.place[1],
            "under_load": int(link.place[2]),
            "repeat": link.repeat,
            "prefill_id": link.row_id,
        }
        for link in links
        if link.kind == PREFILL
    ]
    if rows:
        connection.execute(insert(reused_prefills).on_conflict_do_nothing(), rows)


def _link_windows(connection: sa.Connection, lease: Lease, links: Sequence[Link], *, ids: dict[str, int]) -> None:
    places = {(link.kind, *link.place) for link in links}
    wanted = [
        {
            "sweep_id": lease.sweep_id,
            "config_id": ids[config],
            "kind": kind,
            "concurrency": concurrency,
            "temperature": Decimal(temperature),
        }
        for kind, config, concurrency, temperature in sorted(places)
    ]
    connection.execute(insert(cells).on_conflict_do_nothing(), wanted)
    of_sweep = sa.select(cells).where(cells.c.sweep_id == lease.sweep_id)
    known = {
        (row.kind, row.config_id, row.concurrency, temperature_key(row.temperature)): row.id
        for row in connection.execute(of_sweep)
    }
    rows = [
        {
            "cell_id": known[(link.kind, ids[link.place[0]], link.place[1], link.place[2])],
            "repeat": link.repeat,
            "window_id": link.row_id,
        }
        for link in links
    ]
    connection.execute(insert(reused_windows).on_conflict_do_nothing(), rows)


def reused_conditions(connection: sa.Connection, sweep_id: int, config: str) -> dict[str, dict[str, Any]]:
    """Return the conditions, by fingerprint, of all that stands in the sweep's places for a config."""
    of_windows = (
        sa.select(windows.c.conditions_id)
        .join(reused_windows, reused_windows.c.window_id == windows.c.id)
        .join(cells, cells.c.id == reused_windows.c.cell_id)
        .join(configs, configs.c.id == cells.c.config_id)
        .where(cells.c.sweep_id == sweep_id, configs.c.hash == config)
    )
    of_prefills = (
        sa.select(prefills.c.conditions_id)
        .join(reused_prefills, reused_prefills.c.prefill_id == prefills.c.id)
        .join(configs, configs.c.id == reused_prefills.c.config_id)
        .where(reused_prefills.c.sweep_id == sweep_id, configs.c.hash == config)
    )
    wanted = sa.select(conditions.c.fingerprint, conditions.c.doc).where(
        conditions.c.id.in_(of_windows.union(of_prefills))
    )
    return {row.fingerprint: dict(row.doc) for row in connection.execute(wanted)}


def withdraw(connection: sa.Connection, lease: Lease, config: str, *, under: AbstractSet[str]) -> int:
    """Take a config's measurements of these conditions out of the sweep's places; return how many (raises LeaseLost)."""
    hold(connection, lease)
    named = sa.select(conditions.c.id).where(conditions.c.fingerprint.in_(under))
    own = sa.select(configs.c.id).where(configs.c.hash == config).scalar_subquery()
    places = sa.select(cells.c.id).where(cells.c.sweep_id == lease.sweep_id, cells.c.config_id == own)
    of_windows = sa.select(windows.c.id).where(windows.c.conditions_id.in_(named))
    of_prefills = sa.select(prefills.c.id).where(prefills.c.conditions_id.in_(named))
    one = sa.delete(reused_windows).where(
        reused_windows.c.cell_id.in_(places), reused_windows.c.window_id.in_(of_windows)
    )
    other = sa.delete(reused_prefills).where(
        reused_prefills.c.sweep_id == lease.sweep_id,
        reused_prefills.c.config_id == own,
        reused_prefills.c.prefill_id.in_(of_prefills),
    )
    return connection.execute(one).rowcount + connection.execute(other).rowcount
