"""Pooled rates as text, tables and documents: beside the plain means, with what their test said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from nightsweep.analysis import text
from nightsweep.analysis.intervals import Interval
from nightsweep.analysis.pooled import PooledRate, pooled_rates
from nightsweep.analysis.sides import measured
from nightsweep.analysis.stated import stated_of
from nightsweep.analysis.summary import spread_of
from nightsweep.analysis.tables import Column, Group, Row, Table
from nightsweep.analysis.values import Spread, WindowRow

POOLED_NOTE = (
    "pooled: acceptance length over all concurrencies x the cell's own rate per accepted length; "
    "never instead of the plain mean (docs/statistics.md)"
)


def with_interval(pooled: PooledRate | None, *, digits: int) -> str:
    """Return a pooled rate with its interval; "not pooled" where it is refused."""
    if pooled is None:
        return text.ABSENT
    if pooled.rate is None:
        return "not pooled"
    rate = pooled.rate
    return f"{rate.mean:,.{digits}f} ({rate.low:,.{digits}f}–{rate.high:,.{digits}f})"


def windows_of(pooled: PooledRate | None, *, boots_known: bool = True) -> str:
    """Return the windows that a pooled rate rests on, of all concurrencies; nothing where there is no rate."""
    if pooled is None or pooled.rate is None:
        return text.ABSENT
    boots = f" in {text.plural(pooled.rate.boots, 'boot')}" if boots_known else ", boots not known"
    return f"{text.count(pooled.rate.n)}{boots}"


def tested(pooled: PooledRate | None) -> str:
    """Return what the test of pooling said: the reason when refused, else its chances and the smallest change it could see."""
    if pooled is None:
        return text.ABSENT
    pooling = pooled.pooling
    if pooling.reason is not None:
        return f"refused: {pooling.reason}"
    found = [
        f"p={p:.2f} {name}" for name, p in (("spread", pooling.p_spread), ("trend", pooling.p_trend)) if p is not None
    ]
    if pooling.least_seen is not None:
        found.append(f"a change below {text.percent(pooling.least_seen, digits=1)} may go unseen")
    return ", ".join(found) or "not tested"


# --- cells -----------------------------------------------------------------------------------------------------------

Beside = tuple[WindowRow, Spread, PooledRate]
"""One of a cell's windows, the spread of its plain rates, and its pooled rate."""

Key = tuple[str, str, str, int, float]
"""Config fingerprint, conditions, box, streams, temperature."""


ASKED = "asked"
"""The side of the windows that are asked for: others of their config may be of another sweep, or too old."""


def pooled_cells(windows: Sequence[WindowRow], *, family: Sequence[WindowRow] = ()) -> list[Beside]:
    """Return each cell that has a pooled rate or a refusal: one of its windows, the plain spread, the pooled rate.

    Args:
        family: Further windows of the same nights, by which noise and trend are known better. None of them is in a rate.
    """
    rows = measured(windows)
    cells: dict[Key, list[WindowRow]] = {}
    for row in rows:
        cells.setdefault(_key(row), []).append(row)
    found = []
    for pooled in pooled_rates(measured([*rows, *family]), sides={row.window_id: ASKED for row in rows}):
        if pooled.side != ASKED:
            continue
        key = (pooled.config_fingerprint, pooled.conditions, pooled.box, pooled.streams, pooled.temperature)
        group = cells.get(key, [])
        rates = [row.decode_rate for row in group if row.decode_rate is not None]
        plain = spread_of(rates, boots=[row.boot_id for row in group], stated=stated_of(row.notes for row in group))
        if plain is not None:
            found.append((group[0], plain, pooled))
    return found


def _key(row: WindowRow) -> Key:
    return row.config_fingerprint, row.conditions, row.box, row.concurrency, float(row.temperature)


def pooled_cells_table(found: Sequence[Beside], *, title: str) -> Table:
    """Return plain means with pooled rates beside them, tokens / second."""
    digits = text.decimals(plain.mean for _, plain, _ in found)
    columns = (
        Column("config", right=False),
        Column("streams"),
        Column("T"),
        Column("plain mean", "tokens/s"),
        Column("n"),
        Column("range", right=False),
        Column("pooled (95%)", "tokens/s", right=False),
        Column("of windows", right=False),
        Column("test of pooling", right=False),
    )
    rows = tuple(
        Row(
            (
                row.config,
                str(row.concurrency),
                text.temperature(row.temperature),
                text.number(plain.mean, digits=digits),
                text.runs(plain),
                text.value_range(plain, digits=digits),
                with_interval(pooled, digits=digits),
                windows_of(pooled),
                tested(pooled),
            )
        )
        for row, plain, pooled in found
    )
    simulated = any(row.simulated for row, _, _ in found)
    return Table(title, columns, (Group("", rows),), notes=(POOLED_NOTE,), simulated=simulated)


def pooled_cell_document(row: WindowRow, pooled: PooledRate) -> Mapping[str, Any]:
    """Return one pooled cell; it is found again by fingerprint, conditions, streams and temperature."""
    return {
        "config": row.config,
        "config_fingerprint": row.config_fingerprint,
        "conditions": row.conditions,
        "box": row.box,
        "concurrency": row.concurrency,
        "temperature": text.temperature_or_none(row.temperature),
        "pooled_rate_tokens_per_second": pooled_document(pooled),
    }


# --- for programs ----------------------------------------------------------------------------------------------------


INTERVAL_PARTS = ("mean", "low", "high", "level", "n", "boots", "boot_spread_known")


def interval_document(interval: Interval | None) -> dict[str, Any] | None:
    """Return an interval; null where there is none."""
    if interval is None:
        return None
    return {name: getattr(interval, name) for name in INTERVAL_PARTS}


def pooled_document(pooled: PooledRate | None) -> dict[str, Any] | None:
    """Return a pooled rate in tokens / second with its test; null where the cell has no acceptance."""
    if pooled is None:
        return None
    rate = interval_document(pooled.rate) or dict.fromkeys(INTERVAL_PARTS)
    return {**rate, "acceptance_length": interval_document(pooled.acceptance), "test": asdict(pooled.pooling)}
