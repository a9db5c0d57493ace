"""What ran when: boots with their cold start, windows, prefills, pauses, production down and up again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from nightsweep.analysis import tables, text
from nightsweep.analysis.plots import (
    COLD_START,
    DOWN,
    FAILED_BOOT,
    FLAGGED,
    PAUSED,
    PREFILL,
    SERVING,
    SINGLE,
    WINDOW,
    Bar,
    Figure,
    Lane,
    Stretch,
    Tick,
    Timeline,
)
from nightsweep.analysis.summary import spread_of
from nightsweep.analysis.tables import Column, Group, Row, Table
from nightsweep.analysis.values import BootRow, Event, PrefillRow, ProductionRow, WindowRow

PRODUCTION, SWEEP = "production", "sweep"
NIGHTS_SHOWN = 7
"""Nights that are drawn at most: the newest."""
APART = timedelta(hours=4)
"""Where nothing runs for so long, another stretch begins: days between two nights would leave no room for them."""
BEYOND = timedelta(hours=1)
"""So much is drawn at most of a pause, or of production that is down, before and after what ran in a night."""
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600)
TICKS = 8
"""Labels on the axis of time at most."""


@dataclass(frozen=True)
class Ran:
    """What is stored of a sweep's time.

    Attributes:
        windows: Of all kinds, flagged ones too. What was reused from another sweep is left out, for it did not run here, and
            what was imported, for nobody knows when.
        zone: Of all times that are shown.
        fingerprints: Configs in the plan's order.
    """

    boots: Sequence[BootRow]
    windows: Sequence[WindowRow]
    prefills: Sequence[PrefillRow]
    production: Sequence[ProductionRow]
    events: Sequence[Event]
    zone: str
    simulated: bool
    fingerprints: Sequence[str] = ()


@dataclass(frozen=True)
class Span:
    """Something that lasted, in a lane: a config's by its fingerprint, `production` or `sweep`."""

    lane: str
    kind: str
    begin: datetime
    end: datetime


def timeline_figure(ran: Ran) -> Figure:
    """Return the timeline, a part for each night. Units: time of day in the sweep's zone."""
    spans = spans_of(ran)
    title = "What ran when"
    if not spans:
        return Figure("timeline", title, "", None, "nothing was booted here", ran.simulated)
    nights = stretches_of(spans)
    shown = nights[-NIGHTS_SHOWN:]
    earlier = len(nights) - len(shown)
    said = (
        f"Times are of {ran.zone}. A boot is its cold start, then the time it served in; windows and prefills lie on it.",
        f"What lasts beyond a night is cut off {text.duration(BEYOND.total_seconds())} after it."
        if _goes_beyond(nights)
        else "",
        f"{text.plural(earlier, 'earlier stretch', 'earlier stretches')} not drawn." if earlier else "",
    )
    plot = Timeline(f"time of day ({ran.zone})", tuple(_stretch(night, ran) for night in shown))
    return Figure("timeline", title, " ".join(filter(None, said)), plot, simulated=ran.simulated)


def _goes_beyond(nights: Sequence[Sequence[Span]]) -> bool:
    return any(_cut(night) != list(night) for night in nights)


def spans_of(ran: Ran) -> list[Span]:
    """Return all that lasted, in the order it began."""
    found = [*_boots(ran), *_measured(ran), *_prefills(ran), *_production(ran), *_pauses(ran)]
    return sorted(found, key=lambda span: (span.begin, span.end, span.lane, span.kind))


def stretches_of(spans: Sequence[Span]) -> list[list[Span]]:
    """Return the spans in groups between which nothing ran for long; production that is down does not join two nights."""
    nights: list[list[Span]] = []
    end: datetime | None = None
    for span in (one for one in spans if one.lane not in (PRODUCTION, SWEEP)):
        if end is None or span.begin - end > APART:
            nights.append([])
        nights[-1].append(span)
        end = span.end if end is None else max(end, span.end)
    if not nights:
        return [list(spans)]
    for span in (one for one in spans if one.lane in (PRODUCTION, SWEEP)):
        of = [night for night in nights if _last(night) >= span.begin]
        (of[0] if of else nights[-1]).append(span)
    return nights


def _last(spans: Sequence[Span]) -> datetime:
    return max(span.end for span in spans)


# --- spans -----------------------------------------------------------------------------------------------------------


def _boots(ran: Ran) -> Iterator[Span]:
    for boot in (one for one in ran.boots if one.source is None):
        end = max(boot.ended or _seen_last(ran, boot), boot.started)  # a clock may have been set back
        lane = boot.config_fingerprint
        if boot.state == "failed" and boot.cold_start is None:
            yield Span(lane, FAILED_BOOT, boot.started, end)
            continue
        if boot.cold_start is None and not boot.windows:  # it ended before it was ready: it never served
            yield Span(lane, COLD_START, boot.started, end)
            continue
        ready = min(end, boot.started + timedelta(seconds=boot.cold_start or 0.0))
        yield Span(lane, COLD_START, boot.started, ready)
        yield Span(lane, FAILED_BOOT if boot.state == "failed" else SERVING, ready, end)


def _seen_last(ran: Ran, boot: BootRow) -> datetime:
    """Return when a boot that has no end was last seen to measure; its start where it never did."""
    windows = [_end(row.started, row.seconds) for row in ran.windows if row.boot_id == boot.boot_id]
    prefills = [_end(row.started, row.ttft) for row in ran.prefills if row.boot_id == boot.boot_id]
    cold = _end(boot.started, boot.cold_start)
    return max([cold, *windows, *prefills])


def _measured(ran: Ran) -> Iterator[Span]:
    for row in ran.windows:
        if row.reused_from is None and row.source is None:
            kind = FLAGGED if row.flags else WINDOW if row.kind == "decode" else SINGLE
            yield Span(row.config_fingerprint, kind, row.started, _end(row.started, row.seconds or row.e2e_p50))


def _prefills(ran: Ran) -> Iterator[Span]:
    for row in ran.prefills:
        if row.reused_from is None:
            kind = FLAGGED if row.flags else PREFILL
            yield Span(row.config_fingerprint, kind, row.started, _end(row.started, row.ttft))


def _production(ran: Ran) -> Iterator[Span]:
    """Yield from when production was taken down to when it was proven to serve; one that is still away lasts to the end."""
    last = max((boot.ended or boot.started for boot in ran.boots), default=None)
    for row in ran.production:
        down = row.stopped or row.opened
        back = row.closed if row.outcome == "restored" else None
        yield Span(PRODUCTION, DOWN, down, max(back or last or down, down))


def _pauses(ran: Ran) -> Iterator[Span]:
    """Yield from a pause that somebody asked for to the next boot; one that nobody ended has no length."""
    for event in ran.events:
        if event.kind == "sweep_stopping" and event.message.startswith(PAUSED):
            again = min((boot.started for boot in ran.boots if boot.started > event.at), default=event.at)
            yield Span(SWEEP, PAUSED, event.at, again)


def _end(began: datetime, seconds: float | None) -> datetime:
    return began + timedelta(seconds=seconds or 0.0)


# --- drawn -----------------------------------------------------------------------------------------------------------


def _stretch(whole: Sequence[Span], ran: Ran) -> Stretch:
    spans = _cut(whole)
    begin = min(span.begin for span in spans)
    length = max((_last(spans) - begin).total_seconds(), 1.0)
    lanes = _lanes(spans, ran)
    drawn = tuple(
        Lane(label, tuple(_bar(span, begin) for span in spans if span.lane == lane)) for lane, label in lanes.items()
    )
    local = begin.astimezone(ZoneInfo(ran.zone))
    return Stretch(f"{local:%a %d %b %Y}", length, time_ticks(local, length), drawn)


def _cut(spans: Sequence[Span]) -> list[Span]:
    """Return the spans without what goes on far beyond the night: a pause until the next one would leave no room for it."""
    ran = [span for span in spans if span.lane not in (PRODUCTION, SWEEP)] or spans
    first, last = min(span.begin for span in ran) - BEYOND, _last(ran) + BEYOND
    return [replace(one, begin=min(max(one.begin, first), last), end=max(min(one.end, last), first)) for one in spans]


def _bar(span: Span, begin: datetime) -> Bar:
    return Bar(span.kind, (span.begin - begin).total_seconds(), (span.end - span.begin).total_seconds())


def _lanes(spans: Sequence[Span], ran: Ran) -> dict[str, str]:
    """Return label by lane, from above: production, the sweep, then configs in the order of the plan or of time."""
    there = {span.lane for span in spans}
    names = _names(ran)
    place = {fingerprint: number for number, fingerprint in enumerate(ran.fingerprints)}
    began = {span.lane: number for number, span in reversed(list(enumerate(spans)))}
    configs = sorted(there - {PRODUCTION, SWEEP}, key=lambda one: (place.get(one, len(place)), began[one]))
    return {lane: lane for lane in (PRODUCTION, SWEEP) if lane in there} | {
        lane: names.get(lane, text.short(lane)) for lane in configs
    }


def _names(ran: Ran) -> dict[str, str]:
    rows: Sequence[BootRow | WindowRow] = (*ran.windows, *ran.boots)
    return tables.names_apart((row.config, row.config_fingerprint) for row in rows)


def time_ticks(begin: datetime, length: float) -> tuple[Tick, ...]:
    """Return round times of day inside a stretch that begins at a local time and lasts so many seconds."""
    step = next((step for step in STEPS if length / step <= TICKS), STEPS[-1])
    midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    passed = (begin - midnight).total_seconds()
    form = "%H:%M" if step >= 60 else "%H:%M:%S"
    ticks = []
    at = -passed % step
    while at <= length:  # through UTC: a clock that jumps in the night jumps in the labels, too
        moment = (begin.astimezone(UTC) + timedelta(seconds=at)).astimezone(begin.tzinfo)
        ticks.append(Tick(at, f"{moment:{form}}"))
        at += step
    return tuple(ticks)


def timeline_table(ran: Ran) -> Table | None:
    """Return how long each config was started and measured, and production was away; None without a boot."""
    spans = spans_of(ran)
    if not spans:
        return None
    columns = (
        Column("", right=False),
        Column("boots"),
        Column("failed"),
        Column("cold start", "s"),
        Column("windows"),
        Column("prefills"),
        Column("up or down in all", right=False),
    )
    by_lane: defaultdict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_lane[span.lane].append(span)
    rows = tuple(_row(lane, label, by_lane[lane], ran) for lane, label in _lanes(spans, ran).items())
    return Table("The time of each config, and production's", columns, (Group("", rows),), simulated=ran.simulated)


def _row(lane: str, label: str, spans: Sequence[Span], ran: Ran) -> Row:
    if lane in (PRODUCTION, SWEEP):
        word = "down" if lane == PRODUCTION else PAUSED
        return Row((label, *(text.ABSENT for _ in range(5)), f"{word} {_lasted(spans)}"))
    boots = [boot for boot in ran.boots if boot.config_fingerprint == lane]
    failed = sum(boot.state == "failed" for boot in boots)
    starts = [(boot.cold_start, boot.boot_id) for boot in boots if boot.cold_start is not None]
    cold = spread_of([value for value, _ in starts], boots=(boot for _, boot in starts))
    up = [span for span in spans if span.kind in (COLD_START, SERVING, FAILED_BOOT)]
    windows = sum(row.config_fingerprint == lane and row.reused_from is None for row in ran.windows)
    prefills = sum(row.config_fingerprint == lane and row.reused_from is None for row in ran.prefills)
    return Row(
        (
            label,
            str(len(boots)),
            str(failed),
            text.with_range(cold, digits=1),
            str(windows),
            str(prefills),
            f"up {_lasted(up)}",
        ),
        mark="failed" if failed == len(boots) and boots else "",
    )


def _lasted(spans: Sequence[Span]) -> str:
    """Return the time in all; what overlaps counts once."""
    total, reached = 0.0, None
    for span in sorted(spans, key=lambda one: one.begin):
        begin = span.begin if reached is None else max(span.begin, reached)
        total += max((span.end - begin).total_seconds(), 0.0)
        reached = span.end if reached is None else max(reached, span.end)
    return text.duration(total)
