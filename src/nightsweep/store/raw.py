"""A window's raw data, as it was kept: from which each of its numbers can be derived again."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from nightsweep.analysis.whole import REQUESTS
from nightsweep.measurement.boxstate import BoxSample
from nightsweep.measurement.values import RawWindow, Reading
from nightsweep.store import statements
from nightsweep.store.boxes import samples_of
from nightsweep.store.codec import read_load, unpack
from nightsweep.store.schema import readings, request_timings
from nightsweep.units import MonotonicSeconds, Seconds


@dataclass(frozen=True)
class StoredWindow:
    """A window with its raw data and where it was measured.

    Attributes:
        conditions: The whole document that its conditions' fingerprint is taken over.
        seconds_since_boot: From the engine's start to the window's.
        position_in_night: Which one it was since the sweep was taken up, from 1.
        lost: What of its raw data is no longer kept, in words; empty where all is, or never was any.
    """

    window_id: int
    boot_id: int
    raw: RawWindow
    conditions: Mapping[str, Any]
    position_in_night: int | None
    seconds_since_boot: Seconds | None
    stored_at: datetime
    box_samples: tuple[BoxSample, ...] = ()
    lost: tuple[str, ...] = ()


def raw_window(connection: sa.Connection, window_id: int) -> StoredWindow:
    """Return a stored window with its raw data."""
    row = connection.execute(statements.window_with_conditions(window_id)).one()
    load = connection.execute(sa.select(request_timings).where(request_timings.c.window_id == window_id)).one_or_none()
    requests, samples = ((), ()) if load is None else read_load(unpack(load.codec, load.data))
    sides = {
        each.side: _reading(each)
        for each in connection.execute(sa.select(readings).where(readings.c.window_id == window_id))
    }
    raw = RawWindow(
        concurrency=row.concurrency,
        seconds_asked=row.seconds_asked,
        started=row.started_at,
        before=sides.get("before"),
        after=sides.get("after"),
        samples=samples,
        requests=requests,
        ramp=row.ramp_s,
        ended_early=row.ended_early,
        detail=row.detail,
    )
    return StoredWindow(
        window_id=window_id,
        boot_id=row.boot_id,
        raw=raw,
        conditions=row.doc,
        position_in_night=row.position_in_night,
        seconds_since_boot=row.seconds_since_boot,
        stored_at=row.stored_at,
        box_samples=samples_of(connection, window_id),
        lost=tuple(_lost(row, sides, has_load=load is not None)),
    )


def _lost(row: Any, sides: Mapping[str, Reading], *, has_load: bool) -> Iterator[str]:
    """Yield what of a measured window's raw data somebody took out; an imported one never had readings."""
    if not has_load:
        yield REQUESTS
    if row.decode_rate is not None and "source" not in row.doc:
        yield from (f"its reading {side}" for side in ("before", "after") if side not in sides)


def _reading(row: Any) -> Reading:
    return Reading(
        at=MonotonicSeconds(row.at_monotonic_s),
        uncertainty=Seconds(row.uncertainty_s),
        wall=row.wall,
        values={name: float(value) for name, value in row._mapping["values"].items()},  # "NaN" is text in JSON
        raw=zlib.decompress(row.raw),
    )
