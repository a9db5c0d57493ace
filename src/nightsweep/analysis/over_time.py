"""One config over time: a series of boots for each cell, what differed from one boot to the next, and where the level changed."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

from nightsweep.analysis import text, weights
from nightsweep.analysis.changes import Change, changes_in, too_few
from nightsweep.analysis.differing import config_differences, differences, flat
from nightsweep.analysis.documents import Document, spread_document
from nightsweep.analysis.grouping import NAMED, GroupSummary
from nightsweep.analysis.tables import Column, Group, Row, Table
from nightsweep.analysis.values import Spread
from nightsweep.plan.words import MEASURED

KEYS = ("config", "config_fingerprint", "boot", "concurrency", "temperature", "conditions", "box", "engine_version")
"""What windows are grouped by, for `series_of`."""
UNDATED = "imported: a row whose file has no date stands at the time of its import"
MARKS_SHOWN = 3
Known = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Point:
    """A boot's clean windows of one cell.

    Attributes:
        marks: What differs from the boot before it, "name: was → is" each.
    """

    boot: int
    started: datetime
    spread: Spread
    engine_version: str | None
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Series:
    """One cell on one box, oldest boot first; what was imported is a series of its own.

    Attributes:
        source: Where it is from: "measured", or "imported:TOOL".
        too_few: Why no change can be told; None when one could.
        changes: None when they were not looked for.
    """

    config: str
    box: str
    concurrency: int
    temperature: float
    simulated: bool
    points: tuple[Point, ...]
    changes: tuple[Change, ...] | None = None
    source: str = MEASURED
    too_few: str | None = None


@dataclass
class _Open:
    points: list[Point] = field(default_factory=list)
    last: tuple[str, str] | None = None
    loaded: float | None = None


def series_of(
    groups: Sequence[GroupSummary],
    *,
    conditions: Known,
    configs: Known,
    loaded: Mapping[int, float],
    number: str,
    with_changes: bool,
) -> list[Series]:
    """Return a series for each cell, box and source that has a clean window, by box, temperature and concurrency.

    Args:
        groups: Windows grouped by `KEYS`.
        conditions, configs: Documents by fingerprint, for what differs.
        loaded: Weights by boot, GiB, of the boots that tell them.
        number: Which number of a window (see `nightsweep.analysis.grouping.NUMBERS`).
    """

    @functools.cache  # a long history goes back and forth between few configs and conditions
    def marks_between(was: tuple[str, str] | None, now: tuple[str, str]) -> tuple[str, ...]:
        return _marks(was, now, conditions=conditions, configs=configs)

    found: dict[tuple[str, float, int, str], _Open] = {}
    named: dict[tuple[str, float, int, str], GroupSummary] = {}
    timed = [(group.first, group) for group in groups if group.first is not None]
    for started, group in sorted(timed, key=lambda pair: (pair[0], pair[1].keys["boot"])):
        spread = group.numbers[number]
        if spread is None:
            continue
        source = str(conditions.get(group.keys["conditions"], {}).get("source") or MEASURED)
        key = (group.keys["box"], group.keys["temperature"], group.keys["concurrency"], source)
        series = found.setdefault(key, _Open())
        here = (group.keys["conditions"], group.keys["config_fingerprint"])
        marks = (*marks_between(series.last, here), *_weights(series, loaded.get(group.keys["boot"])))
        series.points.append(Point(group.keys["boot"], started, spread, group.keys["engine_version"], marks))
        series.last = here
        named[key] = group
    return [
        _closed(named[key], found[key].points, source=key[-1], with_changes=with_changes)
        for key in sorted(found, key=lambda key: (*key[:-1], key[-1] != MEASURED, key[-1]))
    ]


def _weights(series: _Open, told: float | None) -> tuple[str, ...]:
    """Return the mark of weights that differ from those of the last boot that told them."""
    was, series.loaded = series.loaded, series.loaded if told is None else told
    if was is None or told is None or weights.same_weights(was, told):
        return ()
    before, after = weights.said([was], [told])
    return (f"weights: {before} → {after}",)


def _closed(group: GroupSummary, points: Sequence[Point], *, source: str, with_changes: bool) -> Series:
    return Series(
        config=group.keys["config"],
        box=group.keys["box"],
        concurrency=group.keys["concurrency"],
        temperature=group.keys["temperature"],
        simulated=group.simulated,
        points=tuple(points),
        changes=tuple(changes_in([point.spread.mean for point in points])) if with_changes else None,
        source=source,
        too_few=too_few(len(points)),
    )


def _marks(was: tuple[str, str] | None, now: tuple[str, str], *, conditions: Known, configs: Known) -> tuple[str, ...]:
    if was is None or was == now:
        return ()
    found = differences(flat(conditions.get(was[0], {})), flat(conditions.get(now[0], {})))
    found += config_differences(configs.get(was[1], {}), configs.get(now[1], {}))
    said = (f"{one.name}: {_short(one.a)} → {_short(one.b)}" for one in found if "fingerprint" not in one.name)
    return tuple(dict.fromkeys(said))


def _short(value: object) -> str:
    shown = text.printable(str(value))
    return shown if len(shown) <= 40 else shown[:12] + "…"


def changes_said(series: Series, *, digits: int, factor: float = 1.0) -> list[str]:
    """Return a line for each change of level, or one that says why there is none."""
    if series.changes is None:
        return []
    if series.too_few is not None:
        return [series.too_few]
    if not series.changes:
        return [f"no change of level in {text.plural(len(series.points), 'boot')}"]
    edges = [0, *(change.index for change in series.changes), len(series.points)]
    runs = [sum(point.spread.n for point in series.points[start:end]) for start, end in pairwise(edges)]

    def level(mean: float, windows: int, boots: int) -> str:
        return f"{text.number(mean * factor, digits=digits)} (n={windows}, {text.plural(boots, 'boot')})"

    lines = []
    for change, (runs_before, runs_after) in zip(series.changes, pairwise(runs), strict=True):
        at = series.points[change.index]
        before = level(change.before, runs_before, change.points_before)
        after = level(change.after, runs_after, change.points_after)
        new = (
            f"new there: {text.several(at.marks, limit=MARKS_SHOWN)}" if at.marks else "nothing recorded differs there"
        )
        moved = f"{before} → {after}, {(change.ratio - 1) * 100:+.1f}%, p={change.p:.3f}"
        lines.append(f"level changed at boot {at.boot} ({text.moment(at.started)} UTC): {moved}; {new}")
    return lines


def series_table(series: Series, *, number: str, unit: str, digits: int, factor: float = 1.0) -> Table:
    """Return a series as a table, oldest boot first; notes say where the level changed."""
    starts = {change.index for change in series.changes or ()}

    def row_of(place: int, point: Point) -> Row:
        return Row(
            (
                str(point.boot),
                text.moment(point.started),
                text.number(point.spread.mean * factor, digits=digits),
                text.runs(point.spread),
                text.value_range(point.spread, digits=digits, factor=factor),
                text.cv(point.spread),
                point.engine_version or text.ABSENT,
                text.several(point.marks, limit=MARKS_SHOWN),
            ),
            mark="running" if place in starts else "",
        )

    columns = (
        Column("boot"),
        Column("first window", "UTC", right=False),
        Column(number.replace("_", " "), unit),
        Column("n"),
        Column("range", unit),
        Column("CV"),
        Column("engine version", right=False),
        Column("new", right=False),
    )
    temperature = text.temperature(Decimal(str(series.temperature)))
    place = f"{text.plural(series.concurrency, 'stream')}, T={temperature}, box {text.printable(series.box)}"
    rows = tuple(row_of(place, point) for place, point in enumerate(series.points))
    said = tuple(changes_said(series, digits=digits, factor=factor))
    said += () if series.source == MEASURED else (UNDATED,)
    place += "" if series.source == MEASURED else f", {series.source}"
    title = f"{text.printable(series.config)}, {place}"
    return Table(title, columns, (Group("", rows),), notes=said, simulated=series.simulated)


def series_document(series: Series, *, number: str) -> Document:
    """Return a series with its points and changes; `changes` is null when none were looked for or none can be told."""
    told = series.changes is not None and series.too_few is None
    return {
        "config": series.config,
        "box": series.box,
        "concurrency": series.concurrency,
        "temperature": text.temperature_or_none(Decimal(str(series.temperature))),
        "simulated": series.simulated,
        "source": series.source,
        "number": NAMED.get(number, number),
        "points": [
            {
                "boot_id": point.boot,
                "started": point.started.isoformat(),
                "value": spread_document(point.spread),
                "engine_version": point.engine_version,
                "differs_from_last": list(point.marks),
            }
            for point in series.points
        ],
        "changes": [_change(series, change) for change in series.changes or ()] if told else None,
        "too_few": series.too_few,
    }


def _change(series: Series, change: Change) -> Document:
    return {
        "boot_id": series.points[change.index].boot,
        "before": change.before,
        "after": change.after,
        "ratio": change.ratio,
        "boots_before": change.points_before,
        "boots_after": change.points_after,
        "p": change.p,
    }
