"""What the probe hands over (raw), and what is derived from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nightsweep.measurement.boxstate import BoxRecord
from nightsweep.measurement.flagged import FLAGS as FLAGS
from nightsweep.units import MonotonicSeconds, Ratio, Seconds, Tokens, TokensPerSecond


@dataclass(frozen=True)
class Reading:
    """One reading of the engine's metrics page.

    Attributes:
        at: Midpoint of the request on the monotonic clock.
        uncertainty: Half of the request's round trip: the true moment lies within `at` +- this.
        wall: The same moment as UTC wall-clock time, for the record.
        values: Value by canonical name (see `nightsweep.engine.dialect`), summed over engines; absent is absent,
            never 0.
        raw: The page as it came; kept compressed in the store.
    """

    at: MonotonicSeconds
    uncertainty: Seconds
    wall: datetime
    values: Mapping[str, float]
    raw: bytes = b""


@dataclass(frozen=True)
class OccupancySample:
    """What the engine said inside the window about its requests."""

    at: MonotonicSeconds
    running: float | None
    waiting: float | None


@dataclass(frozen=True)
class RequestAcceptance:
    """What the engine says of one request's drafts, which nobody else's traffic can touch. Absent is None.

    Attributes:
        drafts: Verification steps that drafted.
        histogram: Drafts by how many of their tokens were accepted, 0 first. Shape: (most accepted + 1,).
        length: Acceptance length as the engine states it, the bonus token counted.
        source: The field of the answer.
    """

    source: str
    drafts: Tokens | None = None
    draft_tokens: Tokens | None = None
    accepted_tokens: Tokens | None = None
    histogram: tuple[int, ...] | None = None
    length: float | None = None


@dataclass(frozen=True)
class RequestTiming:
    """One request of the load, on the client's monotonic clock.

    Attributes:
        chunk_at: Arrival of each chunk that carried output (not the role chunk). Shape: (chunks,).
        chunk_tokens: Completion tokens so far at each of those chunks, from continuous `usage`; None where the
            engine gives none.
        completion_tokens: From the final `usage`; None when the request did not end or usage did not come.
    """

    stream: int
    prompt_index: int
    sent: MonotonicSeconds
    first_token: MonotonicSeconds | None
    ended: MonotonicSeconds | None
    chunk_at: tuple[float, ...] = ()
    chunk_tokens: tuple[int, ...] | None = None
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None
    cached_tokens: Tokens | None = None
    finish_reason: str | None = None
    error: str | None = None
    cancelled: bool = False  # ended by the probe when the window had closed
    acceptance: RequestAcceptance | None = None
    repetition: float | None = (
        None  # its text's compressed size as a share of its size; None where it was not looked at
    )


@dataclass(frozen=True)
class RawWindow:
    """Everything the probe saw of one decode window; what is derived can be derived again from this."""

    concurrency: int
    seconds_asked: Seconds | None  # None where tokens were asked for and not time
    started: datetime
    before: Reading | None
    after: Reading | None
    samples: tuple[OccupancySample, ...]
    requests: tuple[RequestTiming, ...]
    ramp: Seconds | None  # load start to window opening
    ended_early: str | None = None  # a flag name: why the window closed before its time
    detail: str | None = None


@dataclass(frozen=True)
class Percentiles:
    """Client-side distribution in seconds; n is the count of samples."""

    n: int
    mean: float
    p50: float
    p90: float
    p99: float
    minimum: float
    maximum: float


@dataclass(frozen=True)
class DecodeNumbers:
    """The numbers of one decode window. Absent is None, with the reason in `unavailable`.

    Attributes:
        seconds: Time between the two readings.
        decode_rate: Tokens per second after prefill, all streams together.
        acceptance_length: 1 + accepted / drafts. None without speculation.
        acceptance_rate: accepted / draft tokens.
        positions: accepted at i / drafts. Shape: (num_speculative_tokens,), position 0 first.
        step_time: Window time / engine steps, in seconds.
        tokens_per_step_and_stream: Tokens / (steps * concurrency).
        foreign_tokens: Engine's tokens minus the probe's own in the window; None when the probe could not count its
            own.
        occupancy: In-flight stream seconds / (concurrency * window), 1.0 is full.
        relative_uncertainty: Of the window's length, from the two readings' round trips; None where the client timed it.
        integrity: Named residuals of the free checks (e.g. "tokens_minus_drafts_minus_accepted"), in tokens.
        sources: Which engine series each number came from.
        unavailable: Reason by number, where an engine cannot give it.
        facts: Further counts and cross-checks, by name (see `nightsweep.measurement.derive`).
    """

    seconds: Seconds
    generation_tokens: Tokens
    decode_rate: TokensPerSecond
    acceptance_length: Ratio | None
    acceptance_rate: Ratio | None
    positions: tuple[float, ...] | None
    drafts: Tokens | None
    draft_tokens: Tokens | None
    accepted_tokens: Tokens | None
    steps: int | None
    step_time: Seconds | None
    tokens_per_step_and_stream: Ratio | None
    own_tokens: Tokens | None
    foreign_tokens: Tokens | None
    occupancy: Ratio
    relative_uncertainty: Ratio | None
    ttft: Percentiles | None
    tpot: Percentiles | None
    e2e: Percentiles | None
    chunk_gap: Percentiles | None
    integrity: Mapping[str, float] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class WindowResult:
    """A measured window: its raw data, its numbers (None when none could be derived) and its flags.

    Attributes:
        notes: What a reader must know of numbers that are true: a drafter of which nothing was accepted. No flags: a
            window with notes enters means.
        box: What the box did meanwhile; None where nobody watched it.
    """

    raw: RawWindow
    numbers: DecodeNumbers | None
    flags: tuple[str, ...]
    flag_details: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    box: BoxRecord | None = None

    @property
    def clean(self) -> bool:
        """Whether the window may enter a mean."""
        return not self.flags and self.numbers is not None


@dataclass(frozen=True)
class PrefillResult:
    """One prefill measurement.

    Attributes:
        rate: prompt tokens / TTFT.
        cached_tokens: What the engine says of cache hits for this prompt; a clean result needs 0.
        engine_seconds: The engine's own prefill time, where it has one.
    """

    started: datetime
    prompt_tokens: Tokens | None
    ttft: Seconds | None
    rate: TokensPerSecond | None
    cached_tokens: Tokens | None
    engine_seconds: Seconds | None
    flags: tuple[str, ...]
    source: str
    detail: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        """Whether the result may enter a mean."""
        return not self.flags and self.rate is not None
