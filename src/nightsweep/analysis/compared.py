"""Two configs cell by cell: what is compared, what stands beside it, and how it is shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from nightsweep.analysis import text, weights
from nightsweep.analysis.comparing import BOOTS_UNKNOWN, OPEN, SAME, UNDECIDED, Comparison, compare
from nightsweep.analysis.differing import Difference
from nightsweep.analysis.documents import spread_document
from nightsweep.analysis.intervals import Observation
from nightsweep.analysis.pooled import PooledRate, PooledRatio, observed, pooled_rates, pooled_ratio
from nightsweep.analysis.pooled_shown import (
    POOLED_NOTE,
    interval_document,
    pooled_document,
    tested,
    windows_of,
    with_interval,
)
from nightsweep.analysis.sides import Cell, Pairing, Side, brief, measured
from nightsweep.analysis.stated import stated_of
from nightsweep.analysis.summary import spread_of
from nightsweep.analysis.tables import Column, Group, Row, Table
from nightsweep.analysis.values import Spread, WindowRow
from nightsweep.plan.words import DECODE, NO_DATE, OF_UNKNOWN_BOOTS, WHOLE_RUN

COMPARED_FIELDS: tuple[str, ...] = (
    "concurrency",
    "temperature",
    *(f"{side}_tokens_per_second.{part}" for side in ("a", "b") for part in ("mean", "n", "boots", "min", "max", "sd")),
    *("ratio", "ratio_low", "ratio_high", "verdict", "windows_needed", "why", "p"),
    *(f"pooled.{side}.{part}" for side in ("a", "b") for part in ("mean", "low", "high", "n", "boots")),
    *(f"pooled.{part}" for part in ("ratio", "ratio_low", "ratio_high")),
)
"""Columns of the CSV of a comparison: dotted paths into `cell_document`."""


@dataclass(frozen=True)
class Compared:
    """One cell of both configs. The pooled rates stand beside the plain means, each of its side's own windows and of a cell that
    the side has; the verdict is of the plain ones.

    Attributes:
        boots_known: Of A and of B, whether the number of boots is known: a file may name none.
    """

    streams: int
    temperature: Decimal
    a: Spread | None
    b: Spread | None
    plain: Comparison
    pooled_a: PooledRate | None
    pooled_b: PooledRate | None
    pooled: PooledRatio | None
    boots_known: tuple[bool, bool] = (True, True)


def compared(
    pairing: Pairing,
    *,
    family: Sequence[WindowRow],
    same_within: float,
    wanted: Callable[[WindowRow], bool] = lambda row: True,
) -> list[Compared]:
    """Return every wanted cell that either side has, by temperature and streams.

    Args:
        family: Further windows of the same nights, to know the noise and the boots by; A's and B's own may be among them.
        same_within: Ratio within which both are called the same.
        wanted: Whether a window's cell is asked for. The others tell noise and acceptance all the same.
    """
    own = {row.window_id for side in (pairing.a, pairing.b) for row in side.rows}
    others = [row for row in measured(family) if row.window_id not in own and row.simulated == pairing.simulated]
    sides = [("A", pairing.a.rows), ("B", pairing.b.rows)]
    a, b = ([row for row in rows if wanted(row)] for _, rows in sides)
    rest = [one for name, rows in sides for one in _observations([row for row in rows if not wanted(row)], side=name)]
    verdicts = compare(
        _observations(a, side="A"),
        _observations(b, side="B"),
        family=[*rest, *_observations(others)],
        same_within=same_within,
    )
    plain = {(one.streams, one.temperature): one for one in verdicts}
    pooled = _pooled(pairing, others)
    cells = _by_cell(a), _by_cell(b)
    return [
        _compared(cell, sides=cells, plain=plain[cell[0], float(cell[1])], pooled=pooled)
        for cell in sorted({*cells[0], *cells[1]}, key=lambda cell: (cell[1], cell[0]))
    ]


def _pooled(pairing: Pairing, others: Sequence[WindowRow]) -> dict[tuple[str, int, float], PooledRate]:
    """Return pooled rates by side, streams and temperature, of each side's own windows; none but of decode windows.

    Both sides may be one config under equal conditions, in two sweeps. Single-batch runs have one concurrency; prefill is in a
    whole run's rate, which is no multiple of the acceptance length.
    """
    if pairing.kind != DECODE:
        return {}
    sides = {row.window_id: name for name, side in (("A", pairing.a), ("B", pairing.b)) for row in side.rows}
    found = pooled_rates([*pairing.a.rows, *pairing.b.rows, *others], sides=sides)
    return {(one.side, one.streams, one.temperature): one for one in found if one.side}


def _compared(
    cell: Cell,
    *,
    sides: tuple[Mapping[Cell, Sequence[WindowRow]], Mapping[Cell, Sequence[WindowRow]]],
    plain: Comparison,
    pooled: Mapping[tuple[str, int, float], PooledRate],
) -> Compared:
    one, other = (pooled.get((name, cell[0], float(cell[1]))) for name in ("A", "B"))
    a, b = (_spread(side.get(cell, ())) for side in sides)
    a_known, b_known = (not any(OF_UNKNOWN_BOOTS in row.notes for row in side.get(cell, ())) for side in sides)
    return Compared(*cell, a, b, as_stated(plain, a, b), one, other, pooled_ratio(one, other), (a_known, b_known))


def as_stated(
    plain: Comparison, a: Spread | None, b: Spread | None, *, names: tuple[str, str] = ("A", "B")
) -> Comparison:
    """Return the comparison with a lone row that is no single run called what its file says it is."""
    lone = [(name, side) for name, side in zip(names, (a, b), strict=True) if side is not None and side.n == 1]
    if all(side.stated == 1 for _, side in lone) or text.ONE_RUN not in (plain.why or ""):
        return plain
    said = "; ".join(f"{name}: {text.lone(side)}" for name, side in lone)
    single = ", and one run is not a measurement" if any(side.runs == 1 for _, side in lone) else ""
    return replace(plain, why=f"no spread of the single runs is known ({said}){single}")


def _by_cell(rows: Sequence[WindowRow]) -> dict[Cell, list[WindowRow]]:
    found: dict[Cell, list[WindowRow]] = defaultdict(list)
    for row in rows:
        found[row.concurrency, row.temperature].append(row)
    return found


def _observations(rows: Sequence[WindowRow], *, side: str = "") -> list[Observation]:
    """Return decode rates; `side` keeps a config apart from itself under other conditions."""
    return [observed(row, row.decode_rate, side=side) for row in rows if row.decode_rate is not None]


def _spread(rows: Sequence[WindowRow]) -> Spread | None:
    rates = [row.decode_rate for row in rows if row.decode_rate is not None]
    return spread_of(rates, boots=[row.boot_id for row in rows], stated=stated_of(row.notes for row in rows))


# --- what is said before the table -----------------------------------------------------------------------------------


def title_of(pairing: Pairing) -> str:
    """Return what is compared: the rate by its own name."""
    whole = pairing.kind == WHOLE_RUN
    return "B against A, " + ("rate over a whole run (ramp, prefill and tail in it)" if whole else "decode rate")


def differing(pairing: Pairing) -> Iterator[str]:
    """Yield what differs in the config, then every other condition that differs, then what was left out."""
    yield f"A: {_side_line(pairing.a)}"
    yield f"B: {_side_line(pairing.b)}"
    yield "Differs in the config:" if pairing.settings else "The config is the same on both sides."
    yield from (_difference(one) for one in pairing.settings)
    if pairing.conditions:
        yield "Differs besides the config:"
        yield from (_difference(one) + (" (!)" if one.meaningless else "") for one in pairing.conditions)
    else:
        yield "Nothing else differs in the conditions that were stored."
    if pairing.several > 1:
        yield f"{pairing.several} things differ at once: a difference of the rates is of all of them together, and of none alone."
    for name, side in (("A", pairing.a), ("B", pairing.b)):
        source = side.rows[0].source
        if source is not None:
            yield f"{name} was {text.not_measured_here(source)}."
        if len(side.weights) > 1:
            yield f"{name}: its boots loaded different weights ({weights.said(side.weights)[0]}): its means are of all of them."
        if side.left_out:
            listed = text.several(side.left_out_for) or "the box"
            yield f"{name}: {text.plural(side.left_out, 'window')} under other conditions left out (they differ in {listed})."


def _side_line(side: Side) -> str:
    dated = [row.started for row in side.rows if NO_DATE not in row.notes]
    newest = f"the newest of {text.moment(max(dated))} UTC" if dated else "of a date that is not known"
    sweeps = text.several(sorted({row.sweep_name for row in side.rows}))
    return (
        f"{side.config} ({text.short(side.fingerprint)}), {text.plural(len(side.rows), 'window')} of sweep {sweeps}, "
        f"{newest}"
    )


def _difference(one: Difference) -> str:
    return f"  {one.name}: {brief(one.a)} -> {brief(one.b)}"


# --- tables ----------------------------------------------------------------------------------------------------------


def compared_table(found: Sequence[Compared], *, title: str, simulated: bool) -> Table:
    """Return the table of plain means, tokens / second, with ratio, interval and verdict of B."""
    spreads = [spread for one in found for spread in (one.a, one.b) if spread is not None]
    digits = text.decimals(spread.mean for spread in spreads)
    columns = (
        Column("streams"),
        Column("T"),
        Column("A", "tokens/s"),
        Column("A runs", right=False),
        Column("B", "tokens/s"),
        Column("B runs", right=False),
        Column("B/A"),
        Column("95% interval", right=False),
        Column("B is", right=False),
    )
    rows = tuple(Row(_plain_values(one, digits=digits), mark=_mark(one)) for one in found)
    known = all(one.plain.a is None or one.plain.a.boot_spread_known for one in found)
    notes = () if known else (BOOTS_UNKNOWN,)
    return Table(title, columns, (Group("", rows),), notes=notes, simulated=simulated)


def _plain_values(one: Compared, *, digits: int) -> tuple[str, ...]:
    plain = one.plain
    return (
        str(one.streams),
        text.temperature(one.temperature),
        text.number(None if one.a is None else one.a.mean, digits=digits),
        _runs(one.a, digits=digits, boots_known=one.boots_known[0]),
        text.number(None if one.b is None else one.b.mean, digits=digits),
        _runs(one.b, digits=digits, boots_known=one.boots_known[1]),
        text.number(plain.ratio, digits=3),
        span(plain.low, plain.high),
        verdict(plain),
    )


def _runs(spread: Spread | None, *, digits: int, boots_known: bool) -> str:
    if spread is None:
        return "none"
    if spread.n == 1 and spread.stated != 1:
        return text.lone(spread)
    boots = f" in {text.plural(spread.boots, 'boot')}" if boots_known else ", boots not known"
    return f"{text.runs(spread)}{boots}: {text.value_range(spread, digits=digits)}"


def span(low: float | None, high: float | None) -> str:
    """Return an interval of ratios."""
    return text.ABSENT if low is None or high is None else f"{low:.3f}–{high:.3f}"


def verdict(plain: Comparison) -> str:
    """Return the verdict in words: what more it takes where there is none, and why."""
    if plain.verdict == SAME:
        return f"same within {plain.same_within * 100:g}%"
    if plain.verdict != UNDECIDED:
        return plain.verdict
    needed = f", needs about {text.plural(plain.needed, 'more window')} of each" if plain.needed else ""
    return f"undecided{needed}" + (f": {plain.why}" if plain.why not in (None, OPEN) else "")


def _mark(one: Compared) -> str:
    lone = any(spread is not None and spread.runs == 1 for spread in (one.a, one.b))
    return "single" if lone else ""


def pooled_table(found: Sequence[Compared], *, simulated: bool) -> Table | None:
    """Return the rates by pooled acceptance beside the plain ones; None where no cell has acceptance."""
    shown = [one for one in found if one.pooled_a is not None or one.pooled_b is not None]
    if not shown:
        return None
    digits = text.decimals(one.a.mean for one in shown if one.a is not None)
    columns = (
        Column("streams"),
        Column("T"),
        Column("A pooled", "tokens/s", right=False),
        Column("A windows", right=False),
        Column("B pooled", "tokens/s", right=False),
        Column("B windows", right=False),
        Column("B/A"),
        Column("95% interval", right=False),
    )
    rows = tuple(
        Row(
            (
                str(one.streams),
                text.temperature(one.temperature),
                with_interval(one.pooled_a, digits=digits),
                windows_of(one.pooled_a, boots_known=one.boots_known[0]),
                with_interval(one.pooled_b, digits=digits),
                windows_of(one.pooled_b, boots_known=one.boots_known[1]),
                text.number(None if one.pooled is None else one.pooled.ratio, digits=3),
                text.ABSENT if one.pooled is None else span(one.pooled.low, one.pooled.high),
            )
        )
        for one in shown
    )
    title = "Beside it, with acceptance pooled over concurrencies"
    return Table(title, columns, (Group("", rows),), notes=(*_tests(shown), POOLED_NOTE), simulated=simulated)


def _tests(found: Sequence[Compared]) -> list[str]:
    """Return what the test of pooling said of each side at each temperature, each once."""
    sides = [(name, one, side) for one in found for name, side in (("A", one.pooled_a), ("B", one.pooled_b)) if side]
    lines = [f"{name} at T={text.temperature(one.temperature)}: {tested(side)}" for name, one, side in sides]
    return list(dict.fromkeys(lines))


# --- for programs ----------------------------------------------------------------------------------------------------


def compared_document(pairing: Pairing, found: Sequence[Compared]) -> dict[str, Any]:
    """Return the whole comparison."""
    return {
        "a": _side_document(pairing.a),
        "b": _side_document(pairing.b),
        "simulated": pairing.simulated,
        "config_differences": [_difference_document(one) for one in pairing.settings],
        "condition_differences": [_difference_document(one) for one in pairing.conditions],
        "cells": [cell_document(one) for one in found],
    }


def cell_document(one: Compared) -> dict[str, Any]:
    """Return one compared cell."""
    plain = one.plain
    return {
        "concurrency": one.streams,
        "temperature": text.temperature_or_none(one.temperature),
        "a_tokens_per_second": spread_document(one.a),
        "b_tokens_per_second": spread_document(one.b),
        "a_interval": interval_document(plain.a),
        "b_interval": interval_document(plain.b),
        "ratio": plain.ratio,
        "ratio_low": plain.low,
        "ratio_high": plain.high,
        "verdict": plain.verdict,
        "same_within": plain.same_within,
        "windows_needed": plain.needed,
        "why": plain.why,
        "p": plain.p,
        "pooled": {
            "a": pooled_document(one.pooled_a),
            "b": pooled_document(one.pooled_b),
            "ratio": one.pooled and one.pooled.ratio,
            "ratio_low": one.pooled and one.pooled.low,
            "ratio_high": one.pooled and one.pooled.high,
        },
    }


def _side_document(side: Side) -> dict[str, Any]:
    return {
        "config": side.config,
        "config_fingerprint": side.fingerprint,
        "conditions": side.conditions,
        "windows": [row.window_id for row in side.rows],
        "weights_gib": list(side.weights),
        "windows_left_out": side.left_out,
        "left_out_for": list(side.left_out_for),
    }


def _difference_document(one: Difference) -> dict[str, Any]:
    return {"name": one.name, "a": one.a, "b": one.b, "meaningless": one.meaningless}
