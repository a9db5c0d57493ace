"""Rows as the store hands them out, and what is made of them.

Rows are tuples: a dataclass takes ten times as long to define, which every command waits for, and three times as long to make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from nightsweep.measurement.traffic import Traffic
from nightsweep.plan.words import CONTROL_ROUND, DECODE
from nightsweep.units import GiB, Seconds, Tokens

NOTHING: Mapping[Any, Any] = {}


@dataclass(frozen=True)
class Filters:
    """Which rows are wanted; None is no filter.

    Attributes:
        where: (dotted key of the config document or bare speculative key, operator, value) each; operators are
            = != >= <= > <.
        image: Shell-style pattern over image references.
        conditions: Fingerprint of the conditions that windows and cells were measured under.
    """

    sweep: int | None = None
    box: str | None = None
    config: str | None = None  # shell-style pattern over config names, or a fingerprint's beginning
    where: tuple[tuple[str, str, Any], ...] = ()
    concurrency: tuple[int, ...] = ()
    temperature: tuple[Decimal, ...] = ()
    image: str | None = None
    since: datetime | None = None
    before: datetime | None = None  # started earlier than this
    with_flagged: str = "no"  # "no" | "yes" | "only": whether flagged windows are listed too, or by themselves
    kind: str = DECODE  # of cells: windows of one kind are asked for at a time
    imported: bool | None = None  # only what was imported, or only what was measured; None is both
    conditions: str | None = None


class WindowRow(NamedTuple):
    """One stored window with what names it. `flags` empty is clean.

    Attributes:
        not_applied: What of the config its boot did not apply as asked: the numbers are of another config.
        notes: What else is to be known of its boot or of itself; no flags.
        reused_from: The sweep that measured it, when it stands in another one's place; else None.
        box_state: What the box did meanwhile (see `nightsweep.measurement.boxstate.BoxState`, by field name); None where
            nobody watched it.
    """

    window_id: int
    sweep_id: int
    sweep_name: str
    boot_id: int
    boot_round: int
    config_id: int
    config: str  # name
    config_fingerprint: str
    concurrency: int
    temperature: Decimal
    repeat: int
    attempt: int
    started: datetime
    flags: tuple[str, ...]
    conditions: str  # fingerprint
    box: str
    simulated: bool
    engine_version: str | None
    seconds: Seconds | None
    decode_rate: float | None
    acceptance_length: float | None
    acceptance_rate: float | None
    positions: tuple[float, ...] | None
    step_time: Seconds | None
    tokens_per_step_and_stream: float | None
    ttft_p50: Seconds | None
    tpot_p50: Seconds | None
    e2e_p50: Seconds | None
    flag_details: Mapping[str, str] = NOTHING
    not_applied: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    box_state: Mapping[str, Any] | None = None
    reused_from: int | None = None
    kind: str = DECODE
    report_rate: float | None = None  # of a single-batch run: all output tokens, the first among them, by the same time
    occupancy: float | None = None  # stream time in flight / (concurrency * window): the probe's own word
    streams_per_step: float | None = None  # decoding streams of a step in the mean: the engine's
    source: str | None = None  # "imported:TOOL" of one that was not measured here

    @property
    def control(self) -> bool:
        """Whether it is of a control's extra boot: there to show drift, and in no mean."""
        return self.boot_round >= CONTROL_ROUND


class PrefillRow(NamedTuple):
    """One stored prefill measurement.

    Attributes:
        tokens: Length that was asked for; None where it is not known.
        under_load: Streams that decoded meanwhile; 0 is an idle engine.
        slowdown: Decode rate of those streams before, divided by that during the prefill.
        reused_from: As of a window.
        detail: Why it is flagged, for people.
    """

    prefill_id: int
    sweep_id: int
    boot_id: int
    config: str
    config_fingerprint: str
    repeat: int
    attempt: int
    started: datetime
    flags: tuple[str, ...]
    prompt_tokens: Tokens | None
    ttft: Seconds | None
    rate: float | None
    cached_tokens: Tokens | None
    box: str
    simulated: bool
    conditions: str = ""  # fingerprint
    tokens: Tokens | None = None
    under_load: int = 0
    slowdown: float | None = None
    reused_from: int | None = None
    detail: str | None = None


class BootRow(NamedTuple):
    """One stored boot.

    Attributes:
        command: What the engine was started with, as recorded by the boot; empty when it was not read.
        draft_weights: GiB of the draft alone; None unless the engine, or an imported file, says it.
        kv_tokens: As the boot log states them; see `kv_second` where it states none.
        not_applied: What of the config was not applied as asked.
        notes: What else is to be known: fallbacks, sources that disagree.
        kv_second: KV budget by source other than the log ("vllm:cache_config_info", "/server_info").
    """

    boot_id: int
    sweep_id: int
    sweep_name: str
    config: str
    config_fingerprint: str
    boot_round: int
    attempt: int
    state: str  # starting | ready | stopped | failed | lost
    started: datetime
    ended: datetime | None
    cold_start: Seconds | None
    weights: GiB | None
    kv_cache: GiB | None
    kv_tokens: Tokens | None
    max_concurrency: float | None
    max_concurrency_tokens: Tokens | None
    engine: str | None
    engine_version: str | None
    image: str | None
    image_digest: str | None
    exit_code: int | None
    oom_killed: bool | None
    failure_kind: str | None
    failure_stage: str | None
    failure_lines: tuple[str, ...]
    failure_remedy: str | None
    retry: str | None
    box: str
    simulated: bool
    windows: int  # stored, flagged ones too
    facts: Mapping[str, Any] = NOTHING
    command: tuple[str, ...] = ()
    not_applied: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    kv_second: Mapping[str, Any] = NOTHING
    source: str | None = None  # "imported:TOOL" of one that was not started here
    draft_weights: GiB | None = None


class SweepRow(NamedTuple):
    """One stored sweep and how far it is.

    Attributes:
        repeats_clean: Those with a clean window, taken over ones among them.
        reused: Measurements taken over from other sweeps, by sweep.
    """

    sweep_id: int
    name: str
    state: str  # planned | running | done | partial | failed | cancelled | interrupted | paused
    box: str
    simulated: bool
    created: datetime
    started: datetime | None
    ended: datetime | None
    owner: str | None
    note: str | None
    repeats_planned: int
    repeats_clean: int
    windows_flagged: int
    boots_failed: int
    configs: int
    prefect_run: str | None = None
    phase: str | None = None  # what a running sweep does now: its newest event's message
    stop_wish: str | None = None  # finish | drop | pause: how somebody wants it stopped, until it is
    reused: Mapping[int, int] = NOTHING
    source: str | None = None  # "imported:TOOL" of one that was not measured here


class Spread(NamedTuple):
    """A mean never stands without these. A tuple, for a long list holds tens of thousands: a dataclass takes three times as long.

    Attributes:
        n: Rows that it is of: windows of ours, or imported ones.
        sd: None for n = 1.
        stated: Runs that each of the rows stands for: 1 for ours, else as their files state; None where that is not known.
    """

    n: int
    boots: int
    mean: float
    minimum: float
    maximum: float
    sd: float | None
    stated: int | None = 1

    @property
    def runs(self) -> int | None:
        """Runs that stand behind it; None where a file does not say how many."""
        return None if self.stated is None else self.n * self.stated

    @property
    def cv(self) -> float | None:
        """Standard deviation divided by the mean, as a ratio; None for one run or a mean of nothing."""
        return None if self.sd is None or self.mean == 0 else self.sd / abs(self.mean)

    @property
    def relative_range(self) -> float | None:
        """Range divided by the mean, as a ratio; None for one run or a mean of nothing."""
        return None if self.n < 2 or self.mean == 0 else (self.maximum - self.minimum) / abs(self.mean)


def scaled(spread: Spread, *, by: float) -> Spread:
    """Return the spread of the same runs in a unit that is `by` times as fine; `by` is positive."""
    sd = None if spread.sd is None else spread.sd * by
    return Spread(spread.n, spread.boots, spread.mean * by, spread.minimum * by, spread.maximum * by, sd, spread.stated)


class CellSummary(NamedTuple):
    """A cell of one sweep (or of a pool of equal conditions): each number with its run count and range.

    Attributes:
        decode_rate: tokens / second, all streams together. None when no clean window has the number.
        step_time, ttft_p50, tpot_p50: seconds. The two percentiles are spreads of each window's own median.
        flagged: Windows that are stored and left out of every mean.
        flags: The flags of those windows, each once.
        flag_counts: How many windows carry each flag.
        report_rate: Of single-batch runs: the rate as SGLang's report has it, with the first token counted.
        occupancy: Stream time with a request under way / (concurrency * window).
        streams_per_step: Decoding streams of an engine step in the mean, by the engine's counters.
        engine_versions: Versions of the engine in the pooled windows, each once.
        not_applied: What of the config its boots did not apply as asked: the numbers are of another config.
        notes: What else is to be known of its windows and their boots, each once.
    """

    config: str
    config_fingerprint: str
    concurrency: int
    temperature: Decimal
    conditions: str
    box: str
    simulated: bool
    decode_rate: Spread | None
    acceptance_length: Spread | None
    step_time: Spread | None
    tokens_per_step_and_stream: Spread | None
    ttft_p50: Spread | None
    tpot_p50: Spread | None
    flagged: int
    flags: tuple[str, ...] = ()
    flag_counts: Mapping[str, int] = NOTHING
    acceptance_rate: Spread | None = None
    report_rate: Spread | None = None
    occupancy: Spread | None = None
    streams_per_step: Spread | None = None
    engine_versions: tuple[str, ...] = ()
    not_applied: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    source: str | None = None  # "imported:TOOL" of one that was not measured here

    @property
    def per_stream(self) -> Spread | None:
        """Decode rate divided by the concurrency, in tokens / second and stream."""
        return None if self.decode_rate is None else scaled(self.decode_rate, by=1.0 / self.concurrency)

    @property
    def single(self) -> bool:
        """Whether the cell rests on one run, which is not a measurement; an imported mean of several is not one."""
        return self.decode_rate is not None and self.decode_rate.runs == 1


class PrefillSummary(NamedTuple):
    """Prefill of one config, prompt length and load: rate with run count and range.

    Attributes:
        under_load: Streams that decoded meanwhile; 0 is an idle engine.
        slowdown: Decode rate of those streams before, divided by that during the prefill.
    """

    config: str
    config_fingerprint: str
    prompt_tokens: Tokens | None
    rate: Spread | None
    ttft: Spread | None
    flagged: int
    box: str
    simulated: bool
    conditions: str = ""
    flags: tuple[str, ...] = ()
    under_load: int = 0
    slowdown: Spread | None = None


class ProductionRow(NamedTuple):
    """A production container that was taken down for a sweep.

    Attributes:
        opened: When the intent was committed, before anything was touched.
        outcome: "restored", "abandoned", or why it does not serve; None while nobody has tried yet.
        checks: What was checked when it came back.
        traffic: What it had served by then; None where nobody looked.
        taken_over_by: The later sweep that found the intent open and has it now, since `taken_over`: how it stands is that one's
            doing. None where it is the sweep's own.
    """

    container: str
    opened: datetime
    stopped: datetime | None
    restore_by: datetime | None
    restore_started: datetime | None
    closed: datetime | None
    outcome: str | None
    checks: Mapping[str, Any] = NOTHING
    traffic: Traffic | None = None
    taken_over_by: int | None = None
    taken_over: datetime | None = None

    @property
    def fares(self) -> str:
        """How it stands: "serves", "starting", "given up", "taken over" or "down".

        Starting is what was started by somebody who was told to end and could not wait for its proof; given up is what a
        person said of a container that is gone for good; taken over is what a later sweep has, and brings back at its end.
        """
        if self.outcome is None:
            waits = "down" if self.taken_over_by is None else "taken over"
            return "starting" if self.restore_started is not None else waits
        return {"restored": "serves", "abandoned": "given up"}.get(self.outcome, "down")

    @property
    def said(self) -> str:
        """How it stands, as people are told."""
        return FARES[self.fares].format(by=self.taken_over_by)

    def taken_over_said(self, moment: Callable[[datetime | None], str]) -> str | None:
        """Return which later sweep has taken it over, and since when it serves again or how it stands; None where none has."""
        if self.taken_over_by is None:
            return None
        ended = f"serves again since {moment(self.closed)}" if self.fares == "serves" else self.said
        return f"{self.container} was taken over by sweep {self.taken_over_by} on {moment(self.taken_over)}; it {ended}"


FARES = {
    "serves": "serves",
    "starting": "is starting",
    "given up": "is given up: a person said that it shall not come back",
    "taken over": "is down for sweep {by}, which brings it back",
    "down": "DOES NOT SERVE",
}
"""What is said of production, by `ProductionRow.fares`."""


def newest_of_each(rows: Iterable[ProductionRow]) -> list[ProductionRow]:
    """Return how it stands with each container: a sweep that was begun several times took it down as often."""
    return list({row.container: row for row in sorted(rows, key=lambda row: row.opened)}.values())


def down_of(rows: Iterable[ProductionRow]) -> list[ProductionRow]:
    """Return the containers that do not serve now, and nobody has started."""
    return [row for row in newest_of_each(rows) if row.fares == "down"]


class Event(NamedTuple):
    """Something that happened."""

    at: datetime
    level: str
    kind: str
    message: str
    sweep_id: int | None
    boot_id: int | None
