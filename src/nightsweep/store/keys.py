"""Keys that windows are grouped by: what names them, or any key of the config document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from nightsweep.plan.words import MEASURED
from nightsweep.store.filters import at_path, path_of
from nightsweep.store.schema import (
    boots,
    boxes,
    cell_summaries,
    cells,
    conditions,
    configs,
    sweep_configs,
    sweeps,
    windows,
)

NAMED: Mapping[str, sa.ColumnElement[Any]] = {
    "config": sweep_configs.c.name,
    "config_fingerprint": configs.c.hash,
    "method": configs.c.method,
    "box": boxes.c.name,
    "concurrency": cells.c.concurrency,
    "temperature": cells.c.temperature,
    "sweep": sweeps.c.name,
    "boot": boots.c.id,
    "engine_version": boots.c.engine_version,
    "conditions": conditions.c.fingerprint,
    "source": sa.func.coalesce(conditions.c.doc[("source",)].astext, MEASURED),
    "night": sa.cast(sa.func.date_trunc("day", windows.c.started_at - sa.text("interval '12 hours'")), sa.Date),
}
"""Names that stand for something beside the config's own keys. A night belongs to the day that it began on, in UTC."""

OF_WINDOWS = frozenset(("config", "sweep", "boot", "engine_version", "night"))
"""Names that tell windows of one cell apart: no sum that is kept of a cell knows them."""
KEPT: Mapping[str, sa.ColumnElement[Any]] = {
    name: cell_summaries.c[name] for name in ("box", "concurrency", "temperature")
}


def columns(by: Sequence[str]) -> list[sa.ColumnElement[Any]]:
    """Return a labelled column for each key, of the tables that `statements.windows_matching` joins."""
    return [_column(key).label(label(place)) for place, key in enumerate(by)]


def kept_columns(by: Sequence[str]) -> list[sa.ColumnElement[Any]]:
    """Return the same columns of a kept sum with its config and conditions; none of `OF_WINDOWS` is there."""
    return [KEPT.get(key, _column(key)).label(label(place)) for place, key in enumerate(by)]


def label(place: int) -> str:
    """Return the label of the key at a place."""
    return f"group_{place}"


def value_of(value: Any) -> Any:
    """Return a key's value as plain data; absent is None."""
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat() if isinstance(value, datetime) else value


def _column(key: str) -> sa.ColumnElement[Any]:
    return NAMED[key] if key in NAMED else at_path(path_of(key))
