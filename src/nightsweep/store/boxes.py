"""The box's state beside a window: its summary as a document, its samples packed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from nightsweep.measurement.boxstate import BoxRecord, BoxSample, DeviceSample
from nightsweep.store.codec import JSON_ZLIB, pack, plain, unpack
from nightsweep.store.schema import box_samples


def keep_box(connection: sa.Connection, window_id: int, box: BoxRecord | None) -> None:
    """Keep the samples of a window that is being stored; nothing where nobody watched."""
    if box is None:
        return
    data, n_bytes = pack(plain(box.samples))
    row = {
        "window_id": window_id,
        "n_samples": len(box.samples),
        "codec": JSON_ZLIB,
        "n_bytes": n_bytes,
        "data": data,
    }
    connection.execute(sa.insert(box_samples).values(row))


def samples_of(connection: sa.Connection, window_id: int) -> tuple[BoxSample, ...]:
    """Return the samples of a stored window, oldest first; none where nobody watched."""
    row = connection.execute(sa.select(box_samples).where(box_samples.c.window_id == window_id)).one_or_none()
    return () if row is None else tuple(_sample(document) for document in unpack(row.codec, row.data))


def _sample(document: Mapping[str, Any]) -> BoxSample:
    devices = tuple(_device(device) for device in document["devices"])
    return BoxSample(**{**document, "devices": devices})


def _device(document: Mapping[str, Any]) -> DeviceSample:
    reasons = document["reasons"]
    return DeviceSample(
        **{
            **document,
            "reasons": None if reasons is None else tuple(reasons),
            "foreign_pids": tuple(document["foreign_pids"]),
        }
    )
