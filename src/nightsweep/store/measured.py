"""Windows and prefills: each with everything, in the caller's one transaction, and never a second clean one for a repeat."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from nightsweep.errors import NotFound, RepeatAlreadyStored
from nightsweep.measurement.values import DecodeNumbers, PrefillResult, RawWindow, Reading, WindowResult
from nightsweep.plan.fingerprint import fingerprint
from nightsweep.plan.model import PrefillRepeat, Repeat
from nightsweep.ports import Lease
from nightsweep.store.boxes import keep_box
from nightsweep.store.codec import BYTES_ZLIB, JSON_ZLIB, clean_text, digest, load_of, pack, plain, two_decimals
from nightsweep.store.leases import Guard, hold
from nightsweep.store.schema import boots, cells, conditions, configs, prefills, readings, request_timings, windows
from nightsweep.store.session import constraint_of, id_of

COLUMN_OF = {"step_time": "step_time_s", "ttft": "ttft_s", "started": "started_at"}
"""Columns that are not named as the field is: a bare number of seconds says so."""
DISTRIBUTIONS = ("ttft", "tpot", "e2e", "chunk_gap")


def add_window(
    connection: sa.Connection,
    lease: Lease,
    boot_id: int,
    repeat: Repeat,
    result: WindowResult,
    *,
    attempt: int,
    under: Mapping[str, Any],
    at: datetime,
    guard: Guard = hold,
) -> int:
    """Keep a window with its raw readings and timings; see `ports.Store.add_window`.

    Args:
        under: The conditions.
        guard: What proves that the lease may write.
    """
    if not result.flags and result.numbers is None:
        raise ValueError("a window without numbers needs a flag that says why")
    guard(connection, lease)
    boot = _boot_of(connection, lease, boot_id, config=repeat.cell.config)
    cell = {
        "sweep_id": lease.sweep_id,
        "config_id": boot.config_id,
        "kind": repeat.cell.kind,
        "concurrency": repeat.cell.concurrency,
        "temperature": two_decimals(repeat.cell.temperature),
    }
    slot = {"cell_id": id_of(connection, cells, key=cell, values={}), "repeat": repeat.index, "attempt": attempt}
    load = load_of(result.raw.requests, result.raw.samples)
    content = _window_content(result, boot_id=boot_id, under=under, load=load)
    what = f"{repeat.cell.config[:12]} c={repeat.cell.concurrency} T={cell['temperature']} repeat {repeat.index}"
    known = _known(connection, windows, slot, content=content, what=what)
    if known is not None:
        return known
    columns = slot | _raw_columns(result.raw) | _number_columns(result.numbers) | {"content_hash": content}
    columns |= {"flags": list(result.flags), "flag_details": plain(result.flag_details)}
    columns["notes"] = [clean_text(note) for note in result.notes]
    columns["box"] = sa.null() if result.box is None else plain(result.box.state)
    columns |= _when(connection, lease, boot, windows, started=result.raw.started, at=at)
    columns["conditions_id"] = _conditions(connection, under)
    window_id = _insert(connection, windows, columns, what=what)
    _keep_raw(connection, window_id, result.raw, load=load)
    keep_box(connection, window_id, result.box)
    return window_id


def add_prefill(
    connection: sa.Connection,
    lease: Lease,
    boot_id: int,
    repeat: PrefillRepeat,
    result: PrefillResult,
    *,
    attempt: int,
    under: Mapping[str, Any],
    at: datetime,
    guard: Guard = hold,
) -> int:
    """Keep a prefill measurement; as `add_window`."""
    if not result.flags and result.rate is None:
        raise ValueError("a prefill without a rate needs a flag that says why")
    guard(connection, lease)
    boot = _boot_of(connection, lease, boot_id, config=repeat.config)
    slot = {
        "sweep_id": lease.sweep_id,
        "config_id": boot.config_id,
        "tokens": repeat.tokens,
        "under_load": repeat.under_load,
        "repeat": repeat.index,
        "attempt": attempt,
    }
    content = digest(_text(result), _text(under), str(boot_id).encode())
    load = f" under {repeat.under_load} streams" if repeat.under_load else ""
    what = f"prefill of {repeat.tokens} tokens{load}, {repeat.config[:12]} repeat {repeat.index}"
    known = _known(connection, prefills, slot, content=content, what=what)
    if known is not None:
        return known
    given = {COLUMN_OF.get(field.name, field.name): getattr(result, field.name) for field in fields(result)}
    columns = slot | given | {"content_hash": content, "flags": list(result.flags), "facts": plain(result.facts)}
    columns["detail"] = None if result.detail is None else clean_text(result.detail)
    columns |= _when(connection, lease, boot, prefills, started=result.started, at=at)
    columns["conditions_id"] = _conditions(connection, under)
    return _insert(connection, prefills, columns, what=what)


@dataclass(frozen=True)
class _Boot:
    """What a measurement needs of its boot."""

    id: int
    config_id: int
    started_at: datetime


def _boot_of(connection: sa.Connection, lease: Lease, boot_id: int, *, config: str) -> _Boot:
    """Return the boot that measured; it must be one of this sweep and of this config.

    Raises:
        NotFound: It is no boot of this sweep.
        ValueError: It is a boot of another config: the number would be labelled wrongly.
    """
    row = connection.execute(
        sa.select(boots.c.id, boots.c.config_id, boots.c.started_at, configs.c.hash)
        .join(configs, configs.c.id == boots.c.config_id)
        .where(boots.c.id == boot_id, boots.c.sweep_id == lease.sweep_id)
    ).one_or_none()
    if row is None:
        raise NotFound(what=f"boot {boot_id} of sweep {lease.sweep_id}", hint="begin the boot first")
    if row.hash != config:
        raise ValueError(f"boot {boot_id} is of config {row.hash[:12]}, the repeat of {config[:12]}")
    return _Boot(id=row.id, config_id=row.config_id, started_at=row.started_at)


def _known(
    connection: sa.Connection, table: sa.Table, slot: Mapping[str, Any], *, content: str, what: str
) -> int | None:
    """Return the row that holds this very measurement already, or None when there is room for it.

    Raises:
        RepeatAlreadyStored: A clean one is there, or another one under the same attempt.
    """
    same_repeat = sa.and_(*(table.c[name] == value for name, value in slot.items() if name != "attempt"))
    rows = connection.execute(
        sa.select(table.c.id, table.c.attempt, table.c.clean, table.c.content_hash).where(same_repeat)
    ).all()
    for row in rows:
        if row.attempt == slot["attempt"] and row.content_hash == content:
            return int(row.id)
    if any(row.clean or row.attempt == slot["attempt"] for row in rows):
        raise RepeatAlreadyStored(what=f"{what} (attempt {slot['attempt']})")
    return None


def _insert(connection: sa.Connection, table: sa.Table, columns: Mapping[str, Any], *, what: str) -> int:
    try:
        return int(connection.execute(sa.insert(table).values(columns).returning(table.c.id)).scalar_one())
    except sa.exc.IntegrityError as error:
        if constraint_of(error).startswith(f"uq_{table.name}"):
            raise RepeatAlreadyStored(what=what) from error
        raise


def _conditions(connection: sa.Connection, under: Mapping[str, Any]) -> int:
    document = plain(under)
    return id_of(connection, conditions, key={"fingerprint": fingerprint(document)}, values={"doc": document})


def _when(
    connection: sa.Connection, lease: Lease, boot: _Boot, table: sa.Table, *, started: datetime, at: datetime
) -> dict[str, Any]:
    """Return when it was measured, how long after the boot's start, and its place among all under this fence (the night)."""
    inside = (
        sa.select(sa.func.max(table.c.position_in_night).label("last"))
        .where(table.c.boot_id == boots.c.id, table.c.fence == lease.fence)
        .lateral("inside")
    )
    newest_first = (  # no count of all: it would take longer with each window of a night
        sa.select(inside.c.last)
        .select_from(boots.join(inside, inside.c.last.is_not(None)))
        .where(boots.c.sweep_id == lease.sweep_id)
        .order_by(boots.c.id.desc())
        .limit(1)
    )
    last = connection.scalar(newest_first)
    return {
        "boot_id": boot.id,
        "fence": lease.fence,
        "started_at": started,
        "stored_at": at,
        "position_in_night": (last or 0) + 1,
        "seconds_since_boot": (started - boot.started_at).total_seconds(),
    }


# --- a window's columns ------------------------------------------------------------------------------------------


def _raw_columns(raw: RawWindow) -> dict[str, Any]:
    return {
        "seconds_asked": raw.seconds_asked,
        "ramp_s": raw.ramp,
        "ended_early": raw.ended_early,
        "detail": None if raw.detail is None else clean_text(raw.detail),
    }


def _number_columns(numbers: DecodeNumbers | None) -> dict[str, Any]:
    if numbers is None:
        return {}
    columns: dict[str, Any] = {}
    for field in fields(numbers):
        value = getattr(numbers, field.name)
        if field.name in DISTRIBUTIONS:
            columns[field.name] = sa.null() if value is None else plain(value)
        else:
            columns[COLUMN_OF.get(field.name, field.name)] = plain(value) if isinstance(value, Mapping) else value
    if numbers.positions is not None:
        columns["positions"] = list(numbers.positions)
    return columns


def _window_content(result: WindowResult, *, boot_id: int, under: Mapping[str, Any], load: Mapping[str, Any]) -> str:
    sides = [result.raw.before, result.raw.after]
    parts = [
        _raw_columns(result.raw),
        result.raw.started,
        result.numbers,
        result.flags,
        result.flag_details,
        result.notes,
        under,
        load,
        [None if side is None else _reading_columns(side) for side in sides],
    ]
    if result.box is not None:
        parts.append(result.box)
    pages = [b"" if side is None else side.raw for side in sides]
    return digest(*(_text(part) for part in parts), *pages, str(boot_id).encode())


def _text(value: Any) -> bytes:
    return json.dumps(plain(value), sort_keys=True).encode()


def _reading_columns(reading: Reading) -> dict[str, Any]:
    return {
        "at_monotonic_s": reading.at,
        "uncertainty_s": reading.uncertainty,
        "wall": reading.wall,
        "values": plain(reading.values),
    }


def _keep_raw(connection: sa.Connection, window_id: int, raw: RawWindow, *, load: Mapping[str, Any]) -> None:
    for side, reading in (("before", raw.before), ("after", raw.after)):
        if reading is not None:
            page = {"codec": BYTES_ZLIB, "n_bytes": len(reading.raw), "raw": zlib.compress(reading.raw)}
            row = {"window_id": window_id, "side": side} | _reading_columns(reading) | page
            connection.execute(sa.insert(readings).values(row))
    data, n_bytes = pack(load)
    row = {
        "window_id": window_id,
        "n_requests": len(raw.requests),
        "codec": JSON_ZLIB,
        "n_bytes": n_bytes,
        "data": data,
    }
    connection.execute(sa.insert(request_timings).values(row))
