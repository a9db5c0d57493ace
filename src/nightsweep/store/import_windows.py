"""Writes imported windows: a statement each, many of them sent together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import Any

import sqlalchemy as sa

from nightsweep.store.codec import JSON_ZLIB, load_of, pack
from nightsweep.store.schema import cells, request_timings, windows

TOGETHER = 500
"""Windows that are sent together."""
COUNTED = "ANALYZE windows, cells, boots, cell_summaries, boot_summaries"
"""What sums windows up is planned at the first window: for tables that were empty then, in a way that takes ever longer for each
further one (30,000 took four minutes). It is planned anew where tables are counted."""


def keep_windows(connection: sa.Connection, sweep_id: int, rows: Iterable[dict[str, Any]]) -> None:
    """Keep windows by their columns, in their order, each without requests.

    One statement of many windows would count their boots wrongly: what is summed up of a window looks at the ones before it.
    """
    for number, batch in enumerate(_batches(rows)):
        connection.execute(sa.insert(windows), batch)
        if number == 0 and len(batch) == TOGETHER:
            connection.execute(sa.text(COUNTED))
    data, n_bytes = pack(load_of((), ()))
    empty = (sa.literal(0), sa.literal(JSON_ZLIB), sa.literal(n_bytes), sa.literal(data))
    mine = windows.c.cell_id.in_(sa.select(cells.c.id).where(cells.c.sweep_id == sweep_id))
    kept = sa.exists().where(request_timings.c.window_id == windows.c.id)
    wanted = sa.select(windows.c.id, *empty).where(mine, ~kept)
    names = ("window_id", "n_requests", "codec", "n_bytes", "data")
    connection.execute(sa.insert(request_timings).from_select(names, wanted))


def _batches(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield windows of the same columns, as many as are sent together."""
    for _, alike in groupby(rows, key=dict.keys):
        while batch := list(islice(alike, TOGETHER)):
            yield batch
