"""What was expected beside what was found: each with its run count and interval, and with when it was written.

An expectation that was written when its cell had a window already is marked "after the fact": it proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from nightsweep.analysis import text
from nightsweep.analysis.borrowing import constant
from nightsweep.analysis.comparing import compare
from nightsweep.analysis.intervals import Noise, Observation, interval_of, noise_of
from nightsweep.analysis.pooled import observed
from nightsweep.analysis.sides import Documents, chosen, pools_of
from nightsweep.analysis.tables import Column, Group, Row, Table
from nightsweep.analysis.values import WindowRow
from nightsweep.errors import NotComparable
from nightsweep.plan.expect import (
    ACCEPTANCE_LENGTH,
    DECODE_RATE,
    FROM_BANDWIDTH,
    RATIO,
    STEP_TIME,
    Prediction,
)

AS_EXPECTED, HIGHER, LOWER = "as expected", "higher", "lower"
OPEN, NOT_MEASURED = "open", "not measured"
AFTER = "after the fact"
LONE = "one run is not a measurement"
NO_SPREAD = "no spread is known"
UNKNOWN = Documents({}, {}, {})

WORDS = {
    DECODE_RATE: ("decode rate", "tokens/s", 1.0, 1),
    ACCEPTANCE_LENGTH: ("acceptance length", "", 1.0, 2),
    STEP_TIME: ("step time", "ms", 1000.0, 1),
    RATIO: ("decode rate against", "", 1.0, 3),
}
"""What each quantity is called, its unit for people, the factor to it, digits."""


@dataclass(frozen=True)
class Expected:
    """An expectation as it is kept; configs by the names that their sweep gave them."""

    prediction: Prediction
    config: str
    against: str | None
    written: datetime
    after_fact: bool


@dataclass(frozen=True)
class Found:
    """What became of an expectation.

    Attributes:
        mean, low, high: Found, in base units; low and high are the interval, None where one cannot be given.
        n, boots: Clean windows, and boots that they come from; of a ratio, those of its config.
        verdict: as expected | higher | lower | open (the interval holds a limit, or it rests on one run) | not measured.
        why: What stands in the way of a verdict, in words.
    """

    expected: Expected
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    boots: int = 0
    verdict: str = NOT_MEASURED
    why: str | None = None


def expected_and_found(
    expected: Sequence[Expected], windows: Sequence[WindowRow], *, known: Documents = UNKNOWN
) -> list[Found]:
    """Return what became of each expectation, in the order given.

    Args:
        windows: Of the sweep; flagged ones and a control's are left out here. Of a cell that was measured under several
            conditions the newest count; of a ratio's two sides those that `compare` would take.
        known: What the windows' fingerprints stand for; without it nothing is known to differ between a ratio's sides.
    """
    clean = [row for row in windows if not row.flags and not row.control]
    seen = {quantity: _observations(clean, quantity) for quantity in (DECODE_RATE, ACCEPTANCE_LENGTH, STEP_TIME)}
    noise = {quantity: noise_of([one for _, one in rows]) for quantity, rows in seen.items()}
    return [
        _ratio(one, seen[DECODE_RATE], known)
        if one.prediction.quantity == RATIO
        else _plain(one, seen[one.prediction.quantity], noise[one.prediction.quantity])
        for one in expected
    ]


Seen = list[tuple[WindowRow, Observation]]


def _observations(windows: Sequence[WindowRow], quantity: str) -> Seen:
    values = ((row, getattr(row, quantity)) for row in windows)
    return [(row, observed(row, value)) for row, value in values if value is not None]


def _of_cell(seen: Seen, config: str | None, prediction: Prediction) -> Seen:
    return [
        (row, one)
        for row, one in seen
        if (row.config_fingerprint, row.concurrency) == (config, prediction.concurrency)
        and row.temperature == prediction.temperature
    ]


def _plain(expected: Expected, seen: Seen, noise: Noise) -> Found:
    told = expected.prediction
    rows = _of_cell(seen, told.config, told)
    if not rows:
        return Found(expected)
    newest = max(rows, key=lambda pair: (pair[0].started, pair[0].window_id))[0].conditions
    own = [one for row, one in rows if row.conditions == newest]
    n, boots = len(own), len({one.boot for one in own})
    known = _of_its_own(noise, own[0]) if told.quantity == STEP_TIME else noise
    interval = interval_of(own, known)
    if interval is None:
        mean = math.fsum(one.value for one in own) / n
        return Found(expected, mean=mean, n=n, boots=boots, verdict=OPEN, why=LONE if n == 1 else NO_SPREAD)
    return _found(expected, interval.mean, (interval.low, interval.high), n=n, boots=boots, lone=n == 1)


def _of_its_own(noise: Noise, one: Observation) -> Noise:
    """Return the noise with that of the observation's own concurrency only.

    A step's time does not scatter by content, as a rate does, which scatters the less the more streams there are.
    """
    own = noise.within.get((one.streams, one.temperature)) or noise.by_streams.get(one.streams)
    return replace(noise, borrowed=None if own is None else constant(own.value, own.df))


def _ratio(expected: Expected, seen: Seen, known: Documents) -> Found:
    told = expected.prediction
    sides = [_of_cell(seen, config, told) for config in (told.against, told.config)]
    n, boots = len(sides[1]), len({one.boot for _, one in sides[1]})
    if not all(sides):
        without = [name for name, side in zip((expected.against, expected.config), sides, strict=True) if not side]
        return Found(expected, n=n, boots=boots, why=f"no clean window of {' and of '.join(map(str, without))} here")
    pools = [pools_of([row for row, _ in side]) for side in sides]
    try:
        choice = chosen(*pools, known=known)
    except NotComparable as error:
        return Found(expected, n=n, boots=boots, verdict=OPEN, why=str(error.facts["reason"]))
    other, own = (
        [one for row, one in side if taken.holds(row)] for side, taken in zip(sides, (choice.a, choice.b), strict=True)
    )
    found = compare(other, own, family=[one for _, one in seen])[0]
    n, boots = len(own), len({one.boot for one in own})
    if found.ratio is None or found.low is None or found.high is None:
        return Found(expected, mean=found.ratio, n=n, boots=boots, verdict=OPEN, why=found.why)
    lone = min(n, len(other)) == 1
    return _found(expected, found.ratio, (found.low, found.high), n=n, boots=boots, lone=lone)


def _found(expected: Expected, mean: float, span: tuple[float, float], *, n: int, boots: int, lone: bool) -> Found:
    """Return what was found with its verdict; a lone run gets none, whatever other cells tell of the scatter."""
    verdict = OPEN if lone else judged(expected.prediction, *span)
    return Found(expected, mean, *span, n, boots, verdict, LONE if lone else None)


def judged(prediction: Prediction, low: float, high: float) -> str:
    """Return how an interval stands to what was expected; one that merely holds a limit decides nothing."""
    if prediction.high is not None and low > prediction.high:
        return HIGHER
    if prediction.low is not None and high < prediction.low:
        return LOWER
    if prediction.low is not None and prediction.low == prediction.high:
        return AS_EXPECTED  # of one value: the interval holds it
    inside = (prediction.low is None or low >= prediction.low) and (prediction.high is None or high <= prediction.high)
    return AS_EXPECTED if inside else OPEN


def worth_reading(found: Sequence[Found]) -> list[Found]:
    """Return what a report shows: all that a person wrote, and of the estimates those at the fewest streams, or broken ones."""
    fewest: dict[tuple[str, object], int] = {}
    for one in found:
        told = one.expected.prediction
        place = (told.config, told.temperature)
        fewest[place] = min(fewest.get(place, told.concurrency), told.concurrency)
    return [
        one
        for one in found
        if one.expected.prediction.source != FROM_BANDWIDTH
        or one.verdict in (HIGHER, LOWER)
        or one.expected.prediction.concurrency
        == fewest[one.expected.prediction.config, one.expected.prediction.temperature]
    ]


# --- shown -----------------------------------------------------------------------------------------------------------


def expected_table(found: Sequence[Found], *, title: str, simulated: bool) -> Table:
    """Return the table, one group per config.

    Units:
        tokens / second, milliseconds, ratios.
    """
    columns = (
        Column("streams"),
        Column("T"),
        Column("of", right=False),
        Column("expected"),
        Column("found"),
        Column("n"),
        Column("boots"),
        Column("95% interval"),
        Column("verdict", right=False),
        Column("written", "UTC", right=False),
    )
    groups: dict[str, list[Row]] = {}
    for one in found:
        groups.setdefault(one.expected.config, []).append(_row(one))
    return Table(
        title,
        columns,
        tuple(Group(text.printable(name), tuple(rows)) for name, rows in groups.items()),
        label="config",
        notes=tuple(_notes(found)),
        simulated=simulated,
    )


def _notes(found: Sequence[Found]) -> list[str]:
    notes = []
    if any(one.expected.prediction.source == FROM_BANDWIDTH for one in found):
        notes.append("bandwidth: weights / memory bandwidth, a limit that a dense model cannot pass")
    if any(one.expected.after_fact for one in found):
        notes.append("after the fact: its cell had a window when it was written, so it is no prediction")
    if any(one.verdict == OPEN for one in found):
        notes.append("open: the interval holds a limit of what was expected, or it rests on one run; measure it again")
    return notes


def _row(found: Found) -> Row:
    told = found.expected.prediction
    name, unit, factor, digits = WORDS[told.quantity]
    of = f"{name} {text.printable(found.expected.against or '')}".rstrip() + (f" ({unit})" if unit else "")

    def shown(value: float | None) -> str:
        return text.number(None if value is None else value * factor, digits=digits)

    interval = text.ABSENT if found.low is None else f"{shown(found.low)}–{shown(found.high)}"
    source = " (bandwidth)" if told.source == FROM_BANDWIDTH else ""
    late = f", {AFTER}" if found.expected.after_fact else ""
    return Row(
        (
            str(told.concurrency),
            text.temperature(told.temperature),
            of + source,
            limits(told, factor=factor, digits=digits),
            shown(found.mean),
            str(found.n),
            str(found.boots),
            interval,
            found.verdict if found.why is None else f"{found.verdict}: {text.printable(found.why)}",
            text.moment(found.expected.written) + late,
        ),
        mark="single" if found.n == 1 else "",
    )


def limits(prediction: Prediction, *, factor: float = 1.0, digits: int = 3) -> str:
    """Return what is expected as people write it: `38.0–46.0`, `>= 98.0`, `42.0`."""
    low, high = (None if one is None else f"{one * factor:.{digits}f}" for one in (prediction.low, prediction.high))
    if low is None:
        return f"<= {high}"
    if high is None:
        return f">= {low}"
    return low if prediction.low == prediction.high else f"{low}–{high}"


def expected_document(found: Found) -> dict[str, object]:
    """Return it for JSON, in base units (the quantity's name tells which)."""
    told = found.expected.prediction
    return {
        "config": found.expected.config,
        "concurrency": told.concurrency,
        "temperature": float(told.temperature),
        "quantity": told.quantity,
        "against": found.expected.against,
        "source": told.source,
        "expected": {"low": told.low, "high": told.high},
        "basis": told.basis,
        "written": found.expected.written.isoformat(),
        "after_the_fact": found.expected.after_fact,
        "found": {"mean": found.mean, "low": found.low, "high": found.high, "n": found.n, "boots": found.boots},
        "verdict": found.verdict,
        "why": found.why,
    }
