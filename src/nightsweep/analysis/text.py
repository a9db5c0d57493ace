"""Numbers as people read them. Milliseconds and percent are made here and nowhere below."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal

from nightsweep.analysis.values import Spread
from nightsweep.plan.words import UNKNOWN_TEMPERATURE

ABSENT = "–"
ONE_RUN = "one run"
UNKNOWN_RUNS = "unknown number of runs"
SIMULATED = "SIMULATED"

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


def decimals(values: Iterable[float]) -> int:
    """Return how many decimals a column of such values needs so that its smallest keeps three digits."""
    sizes = [abs(value) for value in values if value]
    smallest = min(sizes, default=100.0)
    return 2 if smallest < 10 else 1 if smallest < 1000 else 0


def number(value: float | None, *, digits: int) -> str:
    """Return the number with that many decimals and thousands set apart."""
    return ABSENT if value is None else f"{value:,.{digits}f}"


def count(value: int | None) -> str:
    """Return a whole number with thousands set apart."""
    return ABSENT if value is None else f"{value:,}"


def temperature(value: Decimal) -> str:
    """Return the temperature as short as it can be with at least one decimal: 0.7, 1.0, 0.65; "?" where nobody told."""
    if value == UNKNOWN_TEMPERATURE:
        return "?"
    text = f"{value.normalize():f}"
    return text if "." in text else f"{text}.0"


def temperature_or_none(value: Decimal) -> float | None:
    """Return the temperature as a number; None where nobody told."""
    return None if value == UNKNOWN_TEMPERATURE else float(value)


def value_range(spread: Spread | None, *, digits: int, factor: float = 1.0) -> str:
    """Return "least–most"; for one run, that it is one, and for an imported mean, of how many it is."""
    if spread is None:
        return ABSENT
    if spread.n == 1:
        return lone(spread)
    return f"{spread.minimum * factor:,.{digits}f}–{spread.maximum * factor:,.{digits}f}"


def with_range(spread: Spread | None, *, digits: int, factor: float = 1.0, of: Spread | None = None) -> str:
    """Return "mean (least–most)"; for one run the value alone.

    Args:
        of: The number whose run count stands in the same row: another run count is said.
    """
    if spread is None:
        return ABSENT
    mean = number(spread.mean * factor, digits=digits)
    runs_told = f"n={spread.n}" if of is not None and of.n != spread.n else ""
    ranged = value_range(spread, digits=digits, factor=factor) if spread.n > 1 else ""
    more = "; ".join(filter(None, (runs_told, ranged)))
    return f"{mean} ({more})" if more else mean


def lone(spread: Spread) -> str:
    """Return what a number of one row stands for: a run, or a mean whose single runs nobody knows."""
    if spread.stated is None:
        return UNKNOWN_RUNS
    return ONE_RUN if spread.stated == 1 else f"mean of {spread.stated} runs, spread unknown"


def runs(spread: Spread | None) -> str:
    """Return the run count; of imported rows that are no single runs, what is known of it."""
    if spread is None:
        return "0"
    if spread.stated == 1:
        return str(spread.n)
    if spread.n > 1:
        return f"{spread.n} rows"
    return "?" if spread.stated is None else f"mean of {spread.stated}"


def boots(spread: Spread | None) -> str:
    """Return the number of boots."""
    return "0" if spread is None else str(spread.boots)


def several_boots(spreads: Iterable[Spread | None]) -> bool:
    """Return whether any number is of several boots: then their number stands beside each of them."""
    return any(spread is not None and spread.boots > 1 for spread in spreads)


def percent(ratio: float | None, *, digits: int = 0) -> str:
    """Return a ratio as percent."""
    return ABSENT if ratio is None else f"{ratio * 100:.{digits}f}%"


def cv(spread: Spread | None) -> str:
    """Return the coefficient of variation as percent; a tenth of one only where that says something."""
    ratio = None if spread is None else spread.cv
    return percent(ratio, digits=1 if ratio is not None and ratio < 0.0995 else 0)


def duration(seconds: float | None) -> str:
    """Return a length of time for people: "38.2 s", "6 min 02 s", "1 h 20 min"."""
    if seconds is None:
        return ABSENT
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def size(octets: float | None) -> str:
    """Return bytes for people, in binary units."""
    if octets is None:
        return ABSENT
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if octets < 1024:
            return f"{octets:.0f} {unit}" if unit == "bytes" else f"{octets:.1f} {unit}"
        octets /= 1024
    return f"{octets:.1f} TiB"


def bar(done: int, planned: int, *, width: int = 10) -> str:
    """Return a bar of `width` characters; it is full only when all is done, and empty only when nothing is."""
    if planned <= 0:
        return "░" * width
    filled = round(width * min(done / planned, 1.0))
    filled = min(filled, width - 1) if done < planned else width
    filled = max(filled, 1) if done > 0 else filled
    return "█" * filled + "░" * (width - filled)


def moment(at: datetime | None) -> str:
    """Return a UTC moment to the minute."""
    return ABSENT if at is None else f"{at:%Y-%m-%d %H:%M}"


def short(fingerprint: str | None) -> str:
    """Return the beginning of a fingerprint, enough to find it again."""
    return ABSENT if not fingerprint else fingerprint.removeprefix("sha256:")[:12]


def several(items: Iterable[str], *, limit: int = 8) -> str:
    """Return the items in one line; beyond `limit`, how many more there are."""
    listed = list(items)
    shown = "; ".join(listed[:limit])
    return shown if len(listed) <= limit else f"{shown}; and {len(listed) - limit} more"


def plural(amount: int, noun: str, plural_noun: str | None = None) -> str:
    """Return "1 boot", "2 boots"."""
    return f"{amount:,} {noun}" if amount == 1 else f"{amount:,} {plural_noun or noun + 's'}"


def shortened(text: str, *, limit: int) -> str:
    """Return a text of `limit` characters at most, its end cut off where it is longer."""
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


def printable(text: str) -> str:
    """Return the text without terminal escapes and control characters: a log line must not steer a terminal."""
    return _CONTROL.sub("", _ANSI.sub("", text)).replace("\t", " ").replace("\n", " ").strip()


def not_measured_here(source: str) -> str:
    """Return what a reader must not miss of imported numbers: "imported:TOOL"."""
    return f"not measured here ({source}): its engine was not proven, and what its file leaves out may differ"
