"""Cells and windows as series: one for each config, its conditions and its box, always in the same order and look."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nightsweep.analysis import tables, text
from nightsweep.analysis.plots import Mark, Panel, Series, Tick
from nightsweep.analysis.stated import stated_of
from nightsweep.analysis.summary import spread_of
from nightsweep.analysis.values import WindowRow

TOGETHER = 7
"""Series in one panel at most: so many colours are told apart by everybody. More get a panel each."""

Key = tuple[str, str, str]
"""Config's fingerprint, conditions' fingerprint, box."""


@dataclass(frozen=True)
class Known:
    """The report's series: what each is called, and its number.

    Attributes:
        names: By key, in order.
    """

    names: Mapping[Key, str]

    def style(self, key: Key) -> int:
        """Return the number of a series in the whole report."""
        return list(self.names).index(key)


def key_of(row: WindowRow) -> Key:
    """Return the series that a window belongs to."""
    return (row.config_fingerprint, row.conditions, row.box)


def drawn(rows: Sequence[WindowRow]) -> list[WindowRow]:
    """Return what a plot shows: clean windows that are of no control's extra boot, in a stable order."""
    return sorted((row for row in rows if not row.flags and not row.control), key=lambda row: row.window_id)


def known_series(rows: Sequence[WindowRow], *, fingerprints: Sequence[str]) -> Known:
    """Return the series of the drawn windows: configs in the plan's order, then as they were first measured.

    A config under several conditions or on several boxes is several series, and says which.
    """
    shown = drawn(rows)
    place = {fingerprint: number for number, fingerprint in enumerate(fingerprints)}
    keys = sorted(dict.fromkeys(map(key_of, shown)), key=lambda key: place.get(key[0], len(place)))
    names = tables.names_apart((row.config, row.config_fingerprint) for row in shown)
    times = Counter(key[0] for key in keys)
    boxes = len({key[2] for key in keys}) > 1

    def name(key: Key) -> str:
        said = [f"conditions {text.short(key[1])}"] if times[key[0]] > 1 else []
        said += [text.printable(key[2])] if boxes else []
        return names[key[0]] + (f" ({', '.join(said)})" if said else "")

    return Known({key: name(key) for key in keys})


def series_by_streams(
    rows: Sequence[WindowRow],
    known: Known,
    *,
    value_of: Callable[[WindowRow], float | None],
    streams: Sequence[int],
) -> tuple[Series, ...]:
    """Return a series for each config with a value; places are indices into `streams`."""
    return _series(
        known,
        {
            (key_of(row), streams.index(row.concurrency), row.window_id): (row, value)
            for row in drawn(rows)
            if (value := value_of(row)) is not None
        },
    )


def series_by_position(rows: Sequence[WindowRow], known: Known) -> tuple[Series, ...]:
    """Return acceptance in percent by draft position (position 0 first): of every window, whatever its concurrency."""
    return _series(
        known,
        {
            (key_of(row), position, row.window_id): (row, ratio * 100)
            for row in drawn(rows)
            for position, ratio in enumerate(row.positions or ())
        },
    )


def _series(known: Known, found: Mapping[tuple[Key, int, int], tuple[WindowRow, float]]) -> tuple[Series, ...]:
    places: defaultdict[Key, defaultdict[int, list[tuple[WindowRow, float]]]] = defaultdict(lambda: defaultdict(list))
    for (key, place, _), seen in found.items():
        places[key][place].append(seen)
    return tuple(
        Series(name, number, tuple(_mark(place, places[key][place]) for place in sorted(places[key])))
        for number, (key, name) in enumerate(known.names.items())
        if key in places
    )


def _mark(place: int, seen: Sequence[tuple[WindowRow, float]]) -> Mark:
    values = tuple(value for _, value in seen)
    spread = spread_of(values, boots=(row.boot_id for row, _ in seen), stated=stated_of(row.notes for row, _ in seen))
    assert spread is not None, "a mark has a value"
    return Mark(float(place), spread, values)


def panels_of(series: Sequence[Series], *, places: Sequence[str]) -> tuple[Panel, ...]:
    """Return one panel with all series, or one for each with the others pale behind it.

    Args:
        places: What stands below each place; the run count is added.
    """
    if len(series) <= TOGETHER:
        return (Panel("", _ticks(series, places), tuple(series)),)
    return tuple(
        Panel(one.name, _ticks([one], places), (one,), tuple(other for other in series if other is not one))
        for one in series
    )


def _ticks(series: Sequence[Series], places: Sequence[str]) -> tuple[Tick, ...]:
    counts: defaultdict[float, list[int]] = defaultdict(list)
    for one in series:
        for mark in one.marks:
            counts[mark.at].append(mark.spread.n)
    return tuple(Tick(float(at), f"{place}\n{run_counts(counts[float(at)])}") for at, place in enumerate(places))


def run_counts(counts: Sequence[int]) -> str:
    """Return "n=3", or "n=2–3" where run counts differ; nothing where nothing was measured."""
    if not counts:
        return ""
    low, high = min(counts), max(counts)
    return f"n={low}" if low == high else f"n={low}–{high}"
